output "admin_function" {
  description = "The function that operators invoke, and its policy: `name` and `arn`. Who may invoke it may list, requeue and purge notices and clear suppressions."
  value = {
    arn  = module.function["notification-admin"].arn
    name = module.function["notification-admin"].name
  }
}

output "alarm_arns" {
  description = "ARNs of the alarms, by alarm key."
  value       = module.alarms.arns
}

output "billing_event_writer_policy_json" {
  description = "What a role of this account needs to send the seller's billing events, as an IAM policy document: to the queue, or to the bus under a source of its own."
  value = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid      = "SendBillingEvents"
          Effect   = "Allow"
          Action   = ["sqs:GetQueueUrl", "sqs:SendMessage"]
          Resource = [module.event_queue.arn]
        },
        {
          Sid       = "PutBillingEvents"
          Effect    = "Allow"
          Action    = ["events:PutEvents"]
          Resource  = [aws_cloudwatch_event_bus.this.arn]
          Condition = { StringNotEquals = { "events:source" = local.own_sources } }
        },
      ],
      [for key in var.kms_key == null ? [] : [var.kms_key] : {
        Sid      = "EncryptBillingEvents"
        Effect   = "Allow"
        Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource = [key.arn]
      }],
    )
  })
}

output "configuration_set_name" {
  description = "Name of the SES configuration set; null with a mail server of your own."
  value       = one(aws_sesv2_configuration_set.this[*].configuration_set_name)
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null without one."
  value       = one(module.dashboard[*].name)
}

output "event_bus" {
  description = "Bus of this Region, for the events module's `forward_event_buses`: `name` and `arn`."
  value = {
    arn  = aws_cloudwatch_event_bus.this.arn
    name = aws_cloudwatch_event_bus.this.name
  }
}

output "event_dlq" {
  description = "Dead-letter queue of changes and billing events: `name`, `arn`, `url`."
  value = {
    arn  = module.event_queue.dlq_arn
    name = module.event_queue.dlq_name
    url  = module.event_queue.dlq_url
  }
}

output "event_queue" {
  description = "Queue of changes and of the seller's billing events: `name`, `arn`, `url`."
  value = {
    arn  = module.event_queue.arn
    name = module.event_queue.name
    url  = module.event_queue.url
  }
}

output "feedback_topic_arn" {
  description = "ARN of the topic that SES reports bounces and complaints to; null with a mail server of your own."
  value       = one(aws_sns_topic.feedback[*].arn)
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

output "package_version" {
  description = "Release of the functions' code."
  value       = module.package.version
}

output "role_arns" {
  description = "ARNs of the roles that the functions run under, by function key."
  value       = { for key, function in module.function : key => function.role_arn }
}

output "role_policies_json" {
  description = "What each function needs, as an IAM policy, by function key: what its role made here has, and what a role of your own must have."
  value       = { for key, function in module.function : key => function.role_policy_json }
}

output "table" {
  description = "The notifications table: `name`, `arn`, `region`, `kms_key_arn` (null without a key of yours)."
  value = {
    arn         = aws_dynamodb_table.notifications.arn
    kms_key_arn = try(var.kms_key.arn, null)
    name        = aws_dynamodb_table.notifications.name
    region      = local.region.id
  }
}
