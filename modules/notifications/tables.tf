# What was applied, what is to be sent and what became of it: no address and no name, only digests of addresses. The table keeps one
# address for life: no input may move, rename or rekey it.
resource "aws_dynamodb_table" "notifications" {
  #checkov:skip=CKV_AWS_119:encrypted with DynamoDB's own key unless kms_key is given; the table holds account ids, licence ARNs and keyed digests of addresses
  name                        = local.names.table
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = var.deletion_protection
  hash_key                    = "pk"
  range_key                   = "sk"
  tags                        = var.tags

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  attribute {
    name = "workQueue"
    type = "S"
  }

  attribute {
    name = "dueAt"
    type = "S"
  }

  # Sparse: only what waits for work carries the two attributes, so a run reads what it has to do and no more.
  global_secondary_index {
    name            = "work-index"
    hash_key        = "workQueue"
    range_key       = "dueAt"
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

locals {
  template_kinds = [
    "access_suspended", "address_verification", "cancellation_reversed", "cancellation_scheduled", "dispute_lost", "dispute_open",
    "dispute_resolved", "payment_failed", "payment_recovered", "refunded", "subscription_canceled", "subscription_started",
  ]

  # What a placeholder may become, in characters.
  longest_label   = format("%080d", 0)
  longest_contact = format("%01024d", 0)

  template_items = merge(
    merge([
      for kind, locales in var.templates : {
        for locale, template in locales : "${kind}#${locale}" => {
          subject = { S = template.subject }
          text    = { S = template.text }
        }
      }
    ]...),
    { for locale, text in var.template_details : "details#${locale}" => { text = { S = text } } },
  )
}

# The seller's own words lie in the table, because an environment holds 4 KB.
resource "aws_dynamodb_table_item" "template" {
  for_each = local.template_items

  table_name = aws_dynamodb_table.notifications.name
  hash_key   = aws_dynamodb_table.notifications.hash_key
  range_key  = aws_dynamodb_table.notifications.range_key

  item = jsonencode(merge(each.value, { pk = { S = "template" }, sk = { S = each.key } }))
}
