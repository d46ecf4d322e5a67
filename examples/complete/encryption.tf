# One key for everything. The modules say what its policy must allow; their answers depend on roles only, so the key may be
# the one that they are given.
resource "aws_kms_key" "marketplace" {
  description         = "AWS Marketplace billing: tables, queues, logs, settings, secrets and topics"
  enable_key_rotation = true

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid       = "Account"
          Effect    = "Allow"
          Principal = { AWS = "arn:aws:iam::${var.account_id}:root" }
          Action    = "kms:*"
          Resource  = "*"
        },
        {
          Sid       = "AlarmTopics"
          Effect    = "Allow"
          Principal = { Service = "cloudwatch.amazonaws.com" }
          Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
          Resource  = "*"
          Condition = { StringEquals = { "aws:SourceAccount" = var.account_id } }
        },
      ],
      jsondecode(module.events.kms_key_policy_json).Statement,
      jsondecode(module.metering.kms_key_policy_json).Statement,
      jsondecode(module.registration.kms_key_policy_json).Statement,
      jsondecode(module.notifications.kms_key_policy_json).Statement,
    )
  })
}

resource "aws_kms_alias" "marketplace" {
  name          = "alias/marketplace-billing"
  target_key_id = aws_kms_key.marketplace.key_id
}
