output "usage_table" {
  description = "Table that the product writes its usage to."
  value       = module.metering.usage_table.name
}

output "usage_writer_policy_json" {
  description = "IAM policy for whatever writes the usage."
  value       = module.metering.usage_writer_policy_json
}
