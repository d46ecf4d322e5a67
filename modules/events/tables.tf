# Both tables keep one address for life: no input may move, rename or rekey them.

resource "aws_dynamodb_table" "subscribers" {
  #checkov:skip=CKV_AWS_119:encrypted with DynamoDB's own key unless kms_key is given; the table holds account ids and licence ARNs, no buyer form data
  name                        = local.names.subscribers
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = var.deletion_protection
  hash_key                    = "licenseArn"
  range_key                   = "customerAWSAccountId"
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  attribute {
    name = "licenseArn"
    type = "S"
  }

  attribute {
    name = "customerAWSAccountId"
    type = "S"
  }

  attribute {
    name = "agreementId"
    type = "S"
  }

  attribute {
    name = "deprovisioningPendingFlag"
    type = "S"
  }

  attribute {
    name = "deprovisioningExpiry"
    type = "S"
  }

  global_secondary_index {
    name            = "customerAWSAccountId-index"
    hash_key        = "customerAWSAccountId"
    projection_type = "ALL"
  }

  global_secondary_index {
    name            = "agreementId-index"
    hash_key        = "agreementId"
    projection_type = "ALL"
  }

  # Sparse: only licences in their last hour carry the flag, so the minute schedule reads next to nothing.
  global_secondary_index {
    name            = "deprovisioning-pending-index"
    hash_key        = "deprovisioningPendingFlag"
    range_key       = "deprovisioningExpiry"
    projection_type = "KEYS_ONLY"
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
}

# What each agreement's events said and which licences it has, for events that come before their licence; each item's `ttl` is 14 days
# after it was written.
resource "aws_dynamodb_table" "parked_agreement_events" {
  #checkov:skip=CKV_AWS_119:encrypted with DynamoDB's own key unless kms_key is given; the table holds agreement ids and account ids for 14 days
  name                        = local.names.parked
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = var.deletion_protection
  hash_key                    = "agreementId"
  range_key                   = "entryKey"
  tags                        = var.tags

  attribute {
    name = "agreementId"
    type = "S"
  }

  attribute {
    name = "entryKey"
    type = "S"
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

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
}
