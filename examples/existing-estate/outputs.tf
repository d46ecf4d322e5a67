output "kms_key_statements" {
  description = "What the policy of the key must allow, for the team that owns it."
  value = concat(
    jsondecode(module.events.kms_key_policy_json).Statement,
    jsondecode(module.metering.kms_key_policy_json).Statement,
  )
}

output "submitter_policy_json" {
  description = "What the submitter's role must have, for the team that owns it."
  value       = module.metering.role_policies_json["submitter"]
}

output "usage_table" {
  description = "Table that the product writes its usage to."
  value       = module.metering.usage_table.name
}
