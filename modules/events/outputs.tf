output "alarm_arns" {
  description = "ARNs of the alarms, by alarm key."
  value       = module.alarms.arns
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null without one."
  value       = one(module.dashboard[*].name)
}

output "event_dlq" {
  description = "Dead-letter queue of the subscription events: `name`, `arn`, `url`."
  value = {
    arn  = module.queue.dlq_arn
    name = module.queue.dlq_name
    url  = module.queue.dlq_url
  }
}

output "event_queue" {
  description = "Queue of the subscription events: `name`, `arn`, `url`."
  value = {
    arn  = module.queue.arn
    name = module.queue.name
    url  = module.queue.url
  }
}

output "event_rule_arn" {
  description = "ARN of the EventBridge rule that catches the Marketplace's events."
  value       = aws_cloudwatch_event_rule.events.arn
}

output "function_names" {
  description = "Names of the functions, by function key."
  value       = merge({ for key, function in module.function : key => function.name }, { for name in module.forwarder[*].name : "subscriber-forwarder" => name })
}

output "kms_key_policy_json" {
  description = "What the policy of a customer managed key must allow for this module, as an IAM policy document to merge into your own. It depends on the roles only, so it may be the policy of the very key that is passed in as `kms_key`."
  value       = local.kms_key_policy
}

output "log_group_names" {
  description = "Names of the functions' log groups, by function key."
  value       = merge({ for key, function in module.function : key => function.log_group_name }, { for name in module.forwarder[*].log_group_name : "subscriber-forwarder" => name })
}

output "package_version" {
  description = "Release of the functions' code."
  value       = module.package.version
}

output "role_arns" {
  description = "ARNs of the roles that the functions run under, by function key."
  value       = merge({ for key, function in module.function : key => function.role_arn }, { for arn in module.forwarder[*].role_arn : "subscriber-forwarder" => arn })
}

output "role_policies_json" {
  description = "What each function needs, as an IAM policy, by function key: what its role made here has, and what a role of your own must have."
  value       = merge({ for key, function in module.function : key => function.role_policy_json }, { for policy in module.forwarder[*].role_policy_json : "subscriber-forwarder" => policy })
}

output "subscribers_table" {
  description = "The subscribers table, for the metering, registration and notifications modules: `name`, `arn`, `region`, `stream_arn`, `kms_key_arn` (null without a key of yours)."
  value = {
    arn         = aws_dynamodb_table.subscribers.arn
    kms_key_arn = try(var.kms_key.arn, null)
    name        = aws_dynamodb_table.subscribers.name
    region      = local.region.id
    stream_arn  = aws_dynamodb_table.subscribers.stream_arn
  }
}
