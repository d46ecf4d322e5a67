locals {
  # Nothing here depends on the key itself: each role is named in full, because a loop over the module would depend on all its
  # outputs, and through the log groups on the key. Account and partition come from a role for the same reason.
  key_user_arns = [
    module.function["page"].role_arn,
    module.function["register"].role_arn,
  ]
  role_arn_parts = split(":", module.function["register"].role_arn)

  # This function is not there in every deployment, and whether it is may depend on what is encrypted with the key. So it is named as
  # the account's principal of that ARN, which KMS does not look up.
  verify_role_arn = try(var.roles["verify"].arn, "arn:${local.role_arn_parts[1]}:iam::${local.role_arn_parts[4]}:role${var.role_path}${local.role_names["verify"]}")

  # China's CloudWatch Logs is the one service here whose principal does not end as everywhere else.
  logs_suffix = local.role_arn_parts[1] == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"

  kms_key_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "RegistrationFunctions"
        Effect    = "Allow"
        Principal = { AWS = local.key_user_arns }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
      },
      {
        Sid       = "RegistrationVerify"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.role_arn_parts[1]}:iam::${local.role_arn_parts[4]}:root" }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
        Condition = { ArnEquals = { "aws:PrincipalArn" = local.verify_role_arn } }
      },
      {
        Sid       = "RegistrationLogs"
        Effect    = "Allow"
        Principal = { Service = "logs.${local.region.id}.${local.logs_suffix}" }
        Action    = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource  = "*"
        Condition = {
          ArnEquals = {
            "kms:EncryptionContext:aws:logs:arn" = [
              for name in concat([for key in local.function_keys : "/aws/lambda/${local.names.functions[key]}"], ["/aws/apigateway/${local.names.api}"]) :
              "arn:${local.role_arn_parts[1]}:logs:${local.region.id}:${local.role_arn_parts[4]}:log-group:${name}"
            ]
          }
        }
      },
    ]
  })
}
