output "aggregated_usage_table" {
  description = "The aggregated-usage table (the ledger): `name`, `arn`."
  value = {
    arn  = aws_dynamodb_table.aggregated_usage.arn
    name = aws_dynamodb_table.aggregated_usage.name
  }
}

output "alarm_arns" {
  description = "ARNs of the alarms, by alarm key."
  value       = module.alarms.arns
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null without one."
  value       = one(module.dashboard[*].name)
}

output "function_names" {
  description = "Names of the functions, by function key."
  value       = { for key, function in module.function : key => function.name }
}

output "kms_key_policy_json" {
  description = "What the policy of a customer managed key must allow for this module, as an IAM policy document to merge into your own. It depends on the roles only, so it may be the policy of the very key that is passed in as `kms_key`."
  value       = local.kms_key_policy
}

output "log_group_names" {
  description = "Names of the functions' log groups, by function key."
  value       = { for key, function in module.function : key => function.log_group_name }
}

output "metric_dimensions" {
  description = "Dimensions of every metric in the namespace `AWSMarketplaceMetering`."
  value       = local.metric_dimensions
}

output "package_version" {
  description = "Release of the functions' code."
  value       = module.package.version
}

output "queues" {
  description = "The queues by key (`work`, `deprovision_work`, `cleanup`, each also with `_dlq`): `name`, `arn`, `url`. Empty in direct-submit mode."
  value = merge([
    for key, queue in module.queue : {
      replace(key, "-", "_")          = { arn = queue.arn, name = queue.name, url = queue.url }
      "${replace(key, "-", "_")}_dlq" = { arn = queue.dlq_arn, name = queue.dlq_name, url = queue.dlq_url }
    }
  ]...)
}

output "role_arns" {
  description = "ARNs of the roles that the functions run under, by function key."
  value       = { for key, function in module.function : key => function.role_arn }
}

output "role_policies_json" {
  description = "What each function needs, as an IAM policy, by function key: what its role made here has, and what a role of your own must have."
  value       = { for key, function in module.function : key => function.role_policy_json }
}

output "usage_table" {
  description = "The usage table, for raw rows: `name`, `arn`. It exists in both deployment modes."
  value = {
    arn  = aws_dynamodb_table.usage.arn
    name = aws_dynamodb_table.usage.name
  }
}

output "usage_writer_policy_json" {
  description = "IAM policy for whatever writes your usage: to the usage table, or in direct-submit mode to the aggregated-usage table."
  value       = local.usage_writer_policy
}
