locals {
  # Attributes beside the form's fields: what the functions write, and the seller's own list of contacts.
  profile_attributes = ["agreementId", "contacts", "createdAt", "customerAWSAccountId", "licenseArn", "offerType", "productCode", "registrationData", "updatedAt"]

  # Attributes of the table itself, and those that an index may be sorted by without being a field of the form.
  range_key_attributes = ["createdAt", "customerAWSAccountId", "licenseArn"]

  promoted_range_keys = compact([for field in values(var.promoted_profile_fields) : field.range_key])

  # Fields that an index is keyed by: the function copies them from the form's data to the item itself.
  promoted_fields = sort(distinct(concat(
    keys(var.promoted_profile_fields),
    [for name in local.promoted_range_keys : name if !contains(local.range_key_attributes, name)],
  )))

  profile_key_attributes = toset(concat(["customerAWSAccountId", "licenseArn"], local.promoted_fields, local.promoted_range_keys))
}

# Buyers' form data, in this Region only. The table keeps one address for life: no input may move, rename or rekey it.
resource "aws_dynamodb_table" "customer_profile" {
  #checkov:skip=CKV_AWS_119:encrypted with DynamoDB's own key unless kms_key is given; only the register and verify functions' roles may write it, and the latter read a profile by its key
  name                        = local.names.customer_profile
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = var.deletion_protection
  hash_key                    = "licenseArn"
  range_key                   = "customerAWSAccountId"
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  dynamic "attribute" {
    for_each = local.profile_key_attributes

    content {
      name = attribute.value
      type = "S"
    }
  }

  # Sparse: a profile whose buyer left the field empty is not in the index.
  dynamic "global_secondary_index" {
    for_each = var.promoted_profile_fields

    content {
      name            = "${global_secondary_index.key}-index"
      hash_key        = global_secondary_index.key
      range_key       = global_secondary_index.value.range_key
      projection_type = "ALL"
    }
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
