# --- What comes in: the forwarded changes, verified contacts, and the seller's billing events ----------------------------------

resource "aws_cloudwatch_event_bus" "this" {
  name               = local.names.bus
  description        = "AWS Marketplace notifications: changes of subscriptions, verified contacts and billing events"
  kms_key_identifier = try(var.kms_key.arn, null)
  tags               = var.tags

  # Events that cannot be encrypted or decrypted with a key of the caller's are kept.
  dynamic "dead_letter_config" {
    for_each = var.kms_key == null ? [] : [module.event_queue.dlq_arn]

    content {
      arn = dead_letter_config.value
    }
  }
}

locals {
  # Sources that only this project's own functions put; nobody else may speak for them.
  forwarded_sources = ["awsmp.agreement-marketplace", "awsmp.subscribers"]
  own_sources       = concat(local.forwarded_sources, ["awsmp.registration"])

  event_patterns = {
    billing = { detail = { schema = ["awsmp.billing-event"] } }
    events  = { source = local.own_sources }
  }

  rule_descriptions = {
    billing = "The seller's own billing events, to the intake function's queue"
    events  = "Changes of subscriptions, cancellation requests and verified contacts, to the intake function's queue"
  }
}

# In this account a role may put events when its own policy says so. This is for other accounts: the one that the events module runs in,
# and those of the seller's billing.
resource "aws_cloudwatch_event_bus_policy" "this" {
  count = length(var.event_forwarder_principal_arns) + length(var.billing_event_principal_arns) == 0 ? 0 : 1

  event_bus_name = aws_cloudwatch_event_bus.this.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for arns in length(var.event_forwarder_principal_arns) == 0 ? [] : [sort(distinct(var.event_forwarder_principal_arns))] : {
        Sid       = "Forwarders"
        Effect    = "Allow"
        Principal = { AWS = arns }
        Action    = "events:PutEvents"
        Resource  = aws_cloudwatch_event_bus.this.arn
        Condition = { StringEquals = { "events:source" = local.forwarded_sources } }
      }],
      [for arns in length(var.billing_event_principal_arns) == 0 ? [] : [sort(distinct(var.billing_event_principal_arns))] : {
        Sid       = "Billing"
        Effect    = "Allow"
        Principal = { AWS = arns }
        Action    = "events:PutEvents"
        Resource  = aws_cloudwatch_event_bus.this.arn
        Condition = { StringNotEquals = { "events:source" = local.own_sources } }
      }],
    )
  })
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.event_patterns

  name           = local.names.rules[each.key]
  description    = local.rule_descriptions[each.key]
  event_bus_name = aws_cloudwatch_event_bus.this.name
  event_pattern  = jsonencode(each.value)
  tags           = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.event_patterns

  rule           = aws_cloudwatch_event_rule.this[each.key].name
  event_bus_name = aws_cloudwatch_event_bus.this.name
  target_id      = "queue"
  arn            = module.event_queue.arn

  dead_letter_config {
    arn = module.event_queue.dlq_arn
  }
}

module "event_queue" {
  source = "../queue"

  name                       = local.names.event_queue
  visibility_timeout_seconds = 6 * local.timeouts_seconds["notification-intake"]
  kms_key                    = var.kms_key
  tags                       = var.tags
  writer_principal_arns      = var.billing_event_principal_arns

  senders = merge(
    {
      BillingRule = { queues = ["dlq", "queue"], service = "events.amazonaws.com", source_arn = aws_cloudwatch_event_rule.this["billing"].arn }
      EventsRule  = { queues = ["dlq", "queue"], service = "events.amazonaws.com", source_arn = aws_cloudwatch_event_rule.this["events"].arn }
    },
    { for key, arn in { EventBus = aws_cloudwatch_event_bus.this.arn } : key => { queues = ["dlq"], service = "events.amazonaws.com", source_arn = arn } if var.kms_key != null },
  )
}

module "contacts_failed" {
  source = "../failure_queue"

  name    = local.names.contacts_failed
  kms_key = var.kms_key
  tags    = var.tags
}

# --- Schedules ----------------------------------------------------------------------------------------------------------------

locals {
  schedules = {
    maintenance = { description = "Recovers abandoned claims and purges old feedback, every 5 minutes", expression = "rate(5 minutes)", input = { task = "maintain" }, age_seconds = 300 }
    sender      = { description = "Sends the notices that are due, every minute", expression = "rate(1 minute)", input = { task = "send" }, age_seconds = 60 }
  }
}

resource "aws_cloudwatch_event_rule" "schedule" {
  for_each = local.schedules

  name                = local.names.schedules[each.key]
  description         = each.value.description
  schedule_expression = each.value.expression
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "schedule" {
  for_each = local.schedules

  rule      = aws_cloudwatch_event_rule.schedule[each.key].name
  target_id = "notification-${each.key}"
  arn       = module.function["notification-${each.key}"].arn
  input     = jsonencode(each.value.input)

  # The next tick does the same work, so an old or failed invocation is dropped.
  retry_policy {
    maximum_event_age_in_seconds = each.value.age_seconds
    maximum_retry_attempts       = 0
  }

  # A target that may not invoke its function yet loses its first ticks.
  depends_on = [aws_lambda_permission.schedule]
}

resource "aws_lambda_permission" "schedule" {
  for_each = local.schedules

  statement_id  = "schedule"
  action        = "lambda:InvokeFunction"
  function_name = module.function["notification-${each.key}"].name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.schedule[each.key].arn
}
