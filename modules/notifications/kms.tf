locals {
  # Account and partition come from a role, not from a data source, and nothing here depends on the key itself: each role is
  # named in full, because a loop over the module would depend on all its outputs, and through the log groups on the key.
  key_user_arns = compact([
    module.function["notification-admin"].role_arn,
    module.function["notification-contacts"].role_arn,
    try(module.function["notification-feedback"].role_arn, null),
    module.function["notification-intake"].role_arn,
    module.function["notification-maintenance"].role_arn,
    module.function["notification-sender"].role_arn,
  ])
  arn_parts  = split(":", module.function["notification-sender"].role_arn)
  partition  = local.arn_parts[1]
  account_id = local.arn_parts[4]

  # China's CloudWatch Logs is the one service here whose principal does not end as everywhere else.
  dns_suffix  = lookup({ aws-cn = "amazonaws.com.cn", aws-eusc = "amazonaws.eu" }, local.partition, "amazonaws.com")
  logs_suffix = local.partition == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"

  # From its name, because the topic is made with the key.
  feedback_topic_arn = "arn:${local.partition}:sns:${local.region.id}:${local.account_id}:${local.names.feedback}"

  # SES uses the key only for what it publishes to this very topic.
  feedback_topic_key_statement = {
    Sid       = "NotificationsFeedbackTopic"
    Effect    = "Allow"
    Principal = { Service = "ses.amazonaws.com" }
    Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource  = "*"
    Condition = { StringEquals = { "kms:EncryptionContext:aws:sns:topicArn" = local.feedback_topic_arn } }
  }

  kms_key_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid       = "NotificationsFunctions"
          Effect    = "Allow"
          Principal = { AWS = local.key_user_arns }
          Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
          Resource  = "*"
        },
        {
          # EventBridge looks at the key before it encrypts with it, and names no bus while it does.
          Sid       = "NotificationsBusKey"
          Effect    = "Allow"
          Principal = { Service = "events.amazonaws.com" }
          Action    = ["kms:DescribeKey"]
          Resource  = "*"
        },
        {
          # EventBridge encrypts what lies on the bus, and writes to the encrypted queues by itself.
          Sid       = "NotificationsDelivery"
          Effect    = "Allow"
          Principal = { Service = "events.amazonaws.com" }
          Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource  = "*"
          Condition = { StringEquals = { "aws:SourceAccount" = local.account_id } }
        },
        {
          Sid       = "NotificationsLogs"
          Effect    = "Allow"
          Principal = { Service = "logs.${local.region.id}.${local.logs_suffix}" }
          Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
          Resource  = "*"
          Condition = {
            ArnEquals = {
              "kms:EncryptionContext:aws:logs:arn" = [
                for key in local.function_keys :
                "arn:${local.partition}:logs:${local.region.id}:${local.account_id}:log-group:/aws/lambda/${local.names.functions[key]}"
              ]
            }
          }
        },
      ],
      [for statement in [local.feedback_topic_key_statement] : statement if local.ses],
      [for account in [local.account_id] : {
        # SNS writes to the encrypted queue by itself.
        Sid       = "NotificationsFeedbackQueue"
        Effect    = "Allow"
        Principal = { Service = "sns.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = account } }
      } if local.ses],
      [for arns in length(var.billing_event_principal_arns) == 0 ? [] : [sort(distinct(var.billing_event_principal_arns))] : {
        Sid       = "NotificationsBilling"
        Effect    = "Allow"
        Principal = { AWS = arns }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { StringEquals = { "kms:ViaService" = "sqs.${local.region.id}.${local.dns_suffix}" } }
      }],
    )
  })
}
