locals {
  # Account and partition come from a role, not from a data source, and nothing here depends on the key itself: each role is
  # named in full, because a loop over the module would depend on all its outputs, and through the log groups on the key.
  key_user_arns = [
    module.function["deprovision-cleanup"].role_arn,
    module.function["subscription"].role_arn,
  ]
  arn_parts  = split(":", module.function["subscription"].role_arn)
  partition  = local.arn_parts[1]
  account_id = local.arn_parts[4]

  # This function is not there in every deployment, and whether it is may depend on what is encrypted with the key. So it is named as
  # the account's principal of that ARN, which KMS does not look up.
  forwarder_role_arn = try(var.roles["subscriber-forwarder"].arn, "arn:${local.partition}:iam::${local.account_id}:role${var.role_path}${local.role_names["subscriber-forwarder"]}")

  # China's CloudWatch Logs is the one service here whose principal does not end as everywhere else.
  logs_suffix = local.partition == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"

  kms_key_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "EventsFunctions"
        Effect    = "Allow"
        Principal = { AWS = local.key_user_arns }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
      },
      {
        Sid       = "EventsForwarder"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account_id}:root" }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
        Condition = { ArnEquals = { "aws:PrincipalArn" = local.forwarder_role_arn } }
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
