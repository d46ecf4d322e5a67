resource "aws_sqs_queue" "dlq" {
  #checkov:skip=CKV_AWS_27:always encrypted, with kms_key or with SQS's own key; a plan may not know the ARN of kms_key yet
  name                      = "${var.name}-dlq"
  message_retention_seconds = var.dlq_message_retention_seconds
  kms_master_key_id         = try(var.kms_key.arn, null)
  sqs_managed_sse_enabled   = var.kms_key == null ? true : null
  tags                      = var.tags
}

resource "aws_sqs_queue" "this" {
  #checkov:skip=CKV_AWS_27:always encrypted, with kms_key or with SQS's own key; a plan may not know the ARN of kms_key yet
  name                       = var.name
  visibility_timeout_seconds = var.visibility_timeout_seconds
  message_retention_seconds  = var.message_retention_seconds
  kms_master_key_id          = try(var.kms_key.arn, null)
  sqs_managed_sse_enabled    = var.kms_key == null ? true : null
  tags                       = var.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dlq.arn
    maxReceiveCount     = var.max_receive_count
  })
}

# Only this queue may use the DLQ, so that what lies in it has one cause and one consumer to go back to.
resource "aws_sqs_queue_redrive_allow_policy" "dlq" {
  queue_url = aws_sqs_queue.dlq.id

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.this.arn]
  })
}

resource "aws_sqs_queue_policy" "this" {
  for_each = {
    queue = { arn = aws_sqs_queue.this.arn, url = aws_sqs_queue.this.id }
    dlq   = { arn = aws_sqs_queue.dlq.arn, url = aws_sqs_queue.dlq.id }
  }

  queue_url = each.value.url

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid       = "DenyPlainHttp"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = each.value.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      }],
      [for rule in var.event_rule == null ? [] : [var.event_rule] : {
        Sid       = "EventBridgeRule"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = each.value.arn
        Condition = { ArnEquals = { "aws:SourceArn" = rule.arn } }
      }],
      [for sid in sort(keys(var.senders)) : {
        Sid       = sid
        Effect    = "Allow"
        Principal = { Service = var.senders[sid].service }
        Action    = "sqs:SendMessage"
        Resource  = each.value.arn
        Condition = { ArnEquals = { "aws:SourceArn" = var.senders[sid].source_arn } }
      } if contains(var.senders[sid].queues, each.key)],
      [for arns in length(var.writer_principal_arns) == 0 || each.key != "queue" ? [] : [sort(distinct(var.writer_principal_arns))] : {
        Sid       = "Writers"
        Effect    = "Allow"
        Principal = { AWS = arns }
        Action    = "sqs:SendMessage"
        Resource  = each.value.arn
      }],
    )
  })
}
