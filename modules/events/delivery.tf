module "queue" {
  source = "../queue"

  name                       = local.names.queue
  visibility_timeout_seconds = 6 * local.timeouts_seconds.subscription
  event_rule                 = { arn = aws_cloudwatch_event_rule.events.arn }
  kms_key                    = var.kms_key
  tags                       = var.tags
}

# Prefixes, so that every role suffix (" - Manufacturer", " - Proposer", ...) matches; the function names and counts the types
# that it does not know.
resource "aws_cloudwatch_event_rule" "events" {
  name        = local.names.event_rule
  description = "AWS Marketplace agreement and licence events, to the subscription function's queue"
  tags        = var.tags

  event_pattern = jsonencode({
    source      = local.event_sources
    detail-type = [for prefix in ["Agreement", "License", "Purchase Agreement", "Spend Threshold"] : { prefix = prefix }]
  })
}

resource "aws_cloudwatch_event_target" "events" {
  rule      = aws_cloudwatch_event_rule.events.name
  target_id = "queue"
  arn       = module.queue.arn

  dead_letter_config {
    arn = module.queue.dlq_arn
  }
}

resource "aws_cloudwatch_event_rule" "deprovision_cleanup" {
  name                = local.names.schedule_rule
  description         = "Ends licences whose last hour of metering is over, every 15 minutes"
  schedule_expression = "rate(15 minutes)"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "deprovision_cleanup" {
  rule      = aws_cloudwatch_event_rule.deprovision_cleanup.name
  target_id = "deprovision-cleanup"
  arn       = module.function["deprovision-cleanup"].arn
  input     = jsonencode({})

  # The next tick does the same work, so an old or failed invocation is dropped.
  retry_policy {
    maximum_event_age_in_seconds = 300
    maximum_retry_attempts       = 0
  }
}

resource "aws_lambda_permission" "deprovision_cleanup" {
  statement_id  = "schedule"
  action        = "lambda:InvokeFunction"
  function_name = module.function["deprovision-cleanup"].name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.deprovision_cleanup.arn
}
