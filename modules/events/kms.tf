locals {
  # Account and partition come from a role, not from a data source, and nothing here depends on the key itself: each role is
  # named in full, because a loop over the module would depend on all its outputs, and through the log groups on the key.
  key_user_arns = {
    deprovision-cleanup = module.function["deprovision-cleanup"].role_arn
    subscription        = module.function["subscription"].role_arn
  }
  arn_parts  = split(":", local.key_user_arns["subscription"])
  partition  = local.arn_parts[1]
  account_id = local.arn_parts[4]

  # China's CloudWatch Logs is the one service here whose principal does not end as everywhere else.
  logs_suffix = local.partition == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"

  kms_key_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "EventsFunctions"
        Effect    = "Allow"
        Principal = { AWS = [for key in sort(keys(local.key_user_arns)) : local.key_user_arns[key]] }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
      },
      {
        # EventBridge writes to the encrypted queue by itself.
        Sid       = "EventsDelivery"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = local.account_id } }
      },
      {
        Sid       = "EventsLogs"
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
    ]
  })
}
