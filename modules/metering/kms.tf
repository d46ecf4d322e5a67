locals {
  # Account and partition come from a role, not from a data source, and nothing here depends on the key itself: each role is
  # named in full, because a loop over the module would depend on all its outputs, and through the log groups on the key.
  key_user_arns = compact([
    try(module.function["aggregator"].role_arn, null),
    try(module.function["cleanup"].role_arn, null),
    try(module.function["discoverer"].role_arn, null),
    module.function["expiry"].role_arn,
    module.function["submitter"].role_arn,
  ])
  arn_parts  = split(":", module.function["submitter"].role_arn)
  partition  = local.arn_parts[1]
  account_id = local.arn_parts[4]

  # China's CloudWatch Logs is the one service here whose principal does not end as everywhere else.
  dns_suffix  = lookup({ aws-cn = "amazonaws.com.cn", aws-eusc = "amazonaws.eu" }, local.partition, "amazonaws.com")
  logs_suffix = local.partition == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"

  kms_key_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid       = "MeteringFunctions"
          Effect    = "Allow"
          Principal = { AWS = local.key_user_arns }
          Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
          Resource  = "*"
        },
        {
          Sid       = "MeteringLogs"
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
      [for arns in length(var.writer_principal_arns) == 0 ? [] : [var.writer_principal_arns] : {
        Sid       = "MeteringWriters"
        Effect    = "Allow"
        Principal = { AWS = arns }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
        Condition = { StringEquals = { "kms:ViaService" = "dynamodb.${local.region.id}.${local.dns_suffix}" } }
      }],
    )
  })
}
