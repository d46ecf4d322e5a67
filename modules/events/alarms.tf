locals {
  metric_dimensions = { Environment = local.environment, ProductCode = "all" }
  metric_namespace  = "AWSMarketplaceMetering"

  ordinary_alarms = {
    deprovision-cleanup-did-not-run = {
      description         = "The function that ends licences was not called for 30 minutes: they stay in deprovisioning after their last hour. No usage is lost and there is no deadline, but each minute's run reads more."
      severity            = "notice"
      namespace           = "AWS/Lambda"
      metric_name         = "Invocations"
      dimensions          = tomap({ FunctionName = local.names.functions["deprovision-cleanup"] })
      comparison_operator = "LessThanThreshold"
      period_seconds      = 900
      evaluation_periods  = 2
      treat_missing_data  = "breaching"
    }
    deprovision-cleanup-errors = {
      description = "Licences stay in deprovisioning after their last hour: no usage is lost and there is no deadline, but the index of pending licences grows and each minute's run reads more."
      severity    = "notice"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = tomap({ FunctionName = local.names.functions["deprovision-cleanup"] })
      statistic   = "Sum"
    }
    event-rule-failed = {
      description = "EventBridge could not hand a subscription event to ${local.names.queue}; it tries its DLQ, and what does not reach that either is lost. For a cancelled licence, the last hour of metering may already run."
      severity    = "alarm"
      namespace   = "AWS/Events"
      metric_name = "FailedInvocations"
      dimensions  = tomap({ RuleName = local.names.event_rule })
    }
    events-dlq = {
      description = "A subscription event could not be applied: a licence's status is wrong, and for a cancelled one its last hour of metering may already run. Read and redrive ${local.names.queue}-dlq."
      severity    = "alarm"
      namespace   = "AWS/SQS"
      metric_name = "ApproximateNumberOfMessagesVisible"
      dimensions  = tomap({ QueueName = "${local.names.queue}-dlq" })
      statistic   = "Maximum"
    }
    events-oldest-message = {
      description = "A subscription event has waited for 15 minutes: the subscription function does not run or does not get on. The usage of a cancelled licence is lost one hour after it was deprovisioned: at most 45 minutes are left."
      severity    = "alarm"
      namespace   = "AWS/SQS"
      metric_name = "ApproximateAgeOfOldestMessage"
      dimensions  = tomap({ QueueName = local.names.queue })
      statistic   = "Maximum"
      threshold   = 900
    }
    schedule-deprovision-cleanup-failed = {
      description        = "EventBridge cannot call the function that ends licences: they stay in deprovisioning after their last hour. No usage is lost and there is no deadline."
      severity           = "notice"
      namespace          = "AWS/Events"
      metric_name        = "FailedInvocations"
      dimensions         = tomap({ RuleName = local.names.schedule_rule })
      period_seconds     = 900
      evaluation_periods = 2
    }
    subscription-errors = {
      description = "The subscription function fails as a whole: events wait in ${local.names.queue} and go to its DLQ after five tries. The usage of a cancelled licence is lost one hour after it was deprovisioned."
      severity    = "alarm"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = tomap({ FunctionName = local.names.functions.subscription })
      statistic   = "Sum"
    }
  }

  # Mail about a change is no longer sent after as many days as the notifications module says; what the stream dropped, nobody hears of.
  forwarding_alarms = {
    subscriber-forwarder-errors = {
      description = "The function that forwards changes of subscriptions fails as a whole: buyers are not told of them. Changes wait in the stream and are given up after 12 hours. No usage is lost."
      severity    = "notice"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = tomap({ FunctionName = local.names.functions["subscriber-forwarder"] })
    }
    subscriber-forwarder-failed = {
      description = "Changes of subscriptions were given up: their buyers are not told of them. The stream keeps the changes themselves for at most 12 hours more. No usage is lost."
      severity    = "alarm"
      namespace   = "AWS/SQS"
      metric_name = "ApproximateNumberOfMessagesVisible"
      dimensions  = tomap({ QueueName = local.names.forward_failed })
      statistic   = "Maximum"
    }
    subscriber-forwarder-iterator-age = {
      description        = "A change of a subscription has waited for 15 minutes to be forwarded: a bus does not take it, or the function does not run. It is given up after 12 hours, and its buyer is not told. No usage is lost."
      severity           = "alarm"
      namespace          = "AWS/Lambda"
      metric_name        = "IteratorAge"
      dimensions         = tomap({ FunctionName = local.names.functions["subscriber-forwarder"] })
      statistic          = "Maximum"
      threshold          = 900000
      evaluation_periods = 3
    }
  }

  alarms = merge(local.ordinary_alarms, { for key, alarm in local.forwarding_alarms : key => alarm if local.forwarding })

  # Thresholds of the forwarding's alarms are accepted without forwarding too, so that adding a bus needs no other change.
  alarm_keys = [
    "deprovision-cleanup-did-not-run",
    "deprovision-cleanup-errors",
    "event-rule-failed",
    "events-dlq",
    "events-oldest-message",
    "schedule-deprovision-cleanup-failed",
    "subscriber-forwarder-errors",
    "subscriber-forwarder-failed",
    "subscriber-forwarder-iterator-age",
    "subscription-errors",
  ]
}

module "alarms" {
  source = "../alarms"

  alarms           = local.alarms
  name_base        = local.names.alarms
  alarm_topic      = var.alarm_topic
  notice_topic     = var.notice_topic
  runbook_base_url = var.runbook_base_url
  tags             = var.tags
  thresholds       = { for key, value in var.alarm_thresholds : key => value if contains(keys(local.alarms), key) }
}

check "alarms_notify_somebody" {
  assert {
    condition     = var.alarm_topic != null || var.notice_topic != null
    error_message = "The alarms of ${module.naming.base} (events) notify nobody: set alarm_topic, or watch them yourself."
  }
}
