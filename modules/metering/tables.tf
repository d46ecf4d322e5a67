# Both tables keep one address for life and exist in both deployment modes: no input may move, rename or rekey them.

resource "aws_dynamodb_table" "usage" {
  #checkov:skip=CKV_AWS_119:encrypted with DynamoDB's own key unless kms_key is given; rows hold licence ARNs, account ids and counts
  name                        = local.names.usage
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = var.deletion_protection
  hash_key                    = "licenseArn"
  range_key                   = "customerAWSAccountId#dimension#timestamp"
  tags                        = var.tags

  attribute {
    name = "licenseArn"
    type = "S"
  }

  attribute {
    name = "customerAWSAccountId#dimension#timestamp"
    type = "S"
  }

  attribute {
    name = "meteringPending"
    type = "S"
  }

  # Sparse: only rows that are not yet added up carry the attribute.
  global_secondary_index {
    name               = "metering_pending"
    hash_key           = "meteringPending"
    range_key          = "licenseArn"
    projection_type    = "INCLUDE"
    non_key_attributes = ["customerAWSAccountId", "dimension"]
  }

  point_in_time_recovery {
    enabled = true
  }

  dynamic "server_side_encryption" {
    for_each = var.kms_key == null ? [] : [var.kms_key]

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value.arn
    }
  }

  # The block stays when expiry is off: the provider would read its absence as "leave it as it is".
  ttl {
    attribute_name = "ttl"
    enabled        = var.usage_table_ttl_days > 0
  }
}

resource "aws_dynamodb_table" "aggregated_usage" {
  #checkov:skip=CKV_AWS_119:encrypted with DynamoDB's own key unless kms_key is given; records hold licence ARNs, account ids and counts
  name                        = local.names.aggregated_usage
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = var.deletion_protection
  hash_key                    = "licenseArn"
  range_key                   = "customerAWSAccountId#dimension#hour"
  tags                        = var.tags

  attribute {
    name = "licenseArn"
    type = "S"
  }

  attribute {
    name = "customerAWSAccountId#dimension#hour"
    type = "S"
  }

  attribute {
    name = "meteringPending"
    type = "S"
  }

  # Sparse: only records that are not yet closed carry the attribute.
  global_secondary_index {
    name               = "metering_pending"
    hash_key           = "meteringPending"
    range_key          = "licenseArn"
    projection_type    = "INCLUDE"
    non_key_attributes = ["customerAWSAccountId", "dimension"]
  }

  point_in_time_recovery {
    enabled = true
  }

  dynamic "server_side_encryption" {
    for_each = var.kms_key == null ? [] : [var.kms_key]

    content {
      enabled     = true
      kms_key_arn = server_side_encryption.value.arn
    }
  }

  # The block stays when expiry is off: the provider would read its absence as "leave it as it is".
  ttl {
    attribute_name = "ttl"
    enabled        = var.aggregated_usage_table_ttl_days > 0
  }
}

locals {
  writable_table_arn = local.full ? aws_dynamodb_table.usage.arn : aws_dynamodb_table.aggregated_usage.arn

  # Writers put rows, one by one or in batches, and add to a row's quantity; they never read or delete through these actions.
  writer_actions = ["dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]

  usage_writer_policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid      = "WriteUsage"
        Effect   = "Allow"
        Action   = local.writer_actions
        Resource = [local.writable_table_arn]
      }],
      [for key in var.kms_key == null ? [] : [var.kms_key] : {
        Sid      = "UsageKey"
        Effect   = "Allow"
        Action   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
        Resource = [key.arn]
      }],
    )
  })
}

# Writers of other accounts.
resource "aws_dynamodb_resource_policy" "writers" {
  count = length(var.writer_principal_arns) > 0 ? 1 : 0

  resource_arn = local.writable_table_arn

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "WriteUsage"
      Effect    = "Allow"
      Principal = { AWS = var.writer_principal_arns }
      Action    = local.writer_actions
      Resource  = local.writable_table_arn
    }]
  })
}
