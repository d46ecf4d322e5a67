# Where Lambda names the records of a stream that it has given up. It sends with the function's own role, so no policy lets
# anybody in from outside.
resource "aws_sqs_queue" "this" {
  #checkov:skip=CKV_AWSMP_1:it is one, of a stream: people read it, no function does
  name                      = var.name
  message_retention_seconds = 1209600
  kms_master_key_id         = try(var.kms_key.arn, null)
  sqs_managed_sse_enabled   = var.kms_key == null ? true : null
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "this" {
  queue_url = aws_sqs_queue.this.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "DenyPlainHttp"
      Effect    = "Deny"
      Principal = "*"
      Action    = "sqs:*"
      Resource  = aws_sqs_queue.this.arn
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}
