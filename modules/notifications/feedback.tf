# What SES says of sent mail holds addresses: topic and queues are encrypted, keep it for a short time, and one function reads it. Only
# SES may publish, for this configuration set, and only the topic may send to the queue.

resource "aws_sesv2_configuration_set" "this" {
  count = local.ses ? 1 : 0

  configuration_set_name = local.names.configuration_set
  tags                   = var.tags

  delivery_options {
    tls_policy = var.transport.ses.require_tls ? "REQUIRE" : "OPTIONAL"
  }

  reputation_options {
    reputation_metrics_enabled = true
  }

  sending_options {
    sending_enabled = true
  }
}

resource "aws_sesv2_configuration_set_event_destination" "feedback" {
  count = local.ses ? 1 : 0

  configuration_set_name = aws_sesv2_configuration_set.this[0].configuration_set_name
  event_destination_name = "feedback"

  event_destination {
    enabled              = true
    matching_event_types = ["BOUNCE", "COMPLAINT"]

    sns_destination {
      topic_arn = aws_sns_topic.feedback[0].arn
    }
  }

  # SES publishes to the topic when the destination is made, and is refused before it may.
  depends_on = [aws_sns_topic_policy.feedback]
}

# The key that AWS manages for SNS lets no other service use a topic, so without a key of the caller's there is one for this topic.
resource "aws_kms_key" "feedback" {
  #checkov:skip=CKV2_AWS_64:it has a policy, below; a plan does not know the ARN in it yet
  count = local.ses && var.kms_key == null ? 1 : 0

  description             = "AWS Marketplace notifications: what SES says of sent mail, on its way to the queue"
  enable_key_rotation     = true
  deletion_window_in_days = 7
  tags                    = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        # Without it nobody could ever change or delete the key: who may is up to the account's own policies.
        Sid       = "Account"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      local.feedback_topic_key_statement,
    ]
  })
}

resource "aws_sns_topic" "feedback" {
  count = local.ses ? 1 : 0

  name              = local.names.feedback
  display_name      = "AWS Marketplace notifications: feedback"
  kms_master_key_id = var.kms_key == null ? aws_kms_key.feedback[0].arn : var.kms_key.arn
  tags              = var.tags
}

resource "aws_sns_topic_policy" "feedback" {
  count = local.ses ? 1 : 0

  arn = aws_sns_topic.feedback[0].arn

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Ses"
        Effect    = "Allow"
        Principal = { Service = "ses.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = aws_sns_topic.feedback[0].arn
        Condition = {
          StringEquals = {
            "aws:SourceAccount" = local.account_id
            "aws:SourceArn"     = aws_sesv2_configuration_set.this[0].arn
          }
        }
      },
      {
        Sid       = "DenyPlainHttp"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sns:Publish"
        Resource  = aws_sns_topic.feedback[0].arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

module "feedback_queue" {
  source = "../queue"
  count  = local.ses ? 1 : 0

  name                          = local.names.feedback
  visibility_timeout_seconds    = 6 * local.timeouts_seconds["notification-feedback"]
  message_retention_seconds     = 86400
  dlq_message_retention_seconds = 345600
  kms_key                       = var.kms_key
  tags                          = var.tags

  senders = {
    FeedbackTopic = { queues = ["queue"], service = "sns.amazonaws.com", source_arn = aws_sns_topic.feedback[0].arn }
  }
}

resource "aws_sns_topic_subscription" "feedback" {
  count = local.ses ? 1 : 0

  topic_arn = aws_sns_topic.feedback[0].arn
  protocol  = "sqs"
  endpoint  = module.feedback_queue[0].arn

  # The envelope names the topic, by which the function knows where a message comes from.
  raw_message_delivery = false
}
