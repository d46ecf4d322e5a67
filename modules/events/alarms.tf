locals {
  alarms = {
    events-dlq = {
      description = "A subscription event could not be applied: a licence's status is wrong, and for a cancelled one its last hour of metering may already run. Read and redrive ${local.names.queue}-dlq."
      severity    = "alarm"
      namespace   = "AWS/SQS"
      metric_name = "ApproximateNumberOfMessagesVisible"
      dimensions  = { QueueName = "${local.names.queue}-dlq" }
      statistic   = "Maximum"
    }
    subscription-errors = {
      description = "The subscription function fails as a whole: events wait in ${local.names.queue} and are lost to its DLQ after five tries."
      severity    = "alarm"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = { FunctionName = local.names.functions.subscription }
      statistic   = "Sum"
    }
    deprovision-cleanup-errors = {
      description = "Licences stay in deprovisioning after their last hour: no usage is lost, but the index of pending licences grows and each minute's run reads more."
      severity    = "notice"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = { FunctionName = local.names.functions["deprovision-cleanup"] }
      statistic   = "Sum"
    }
  }

  alarm_keys = ["deprovision-cleanup-errors", "events-dlq", "subscription-errors"]
}

module "alarms" {
  source = "../alarms"

  alarms       = local.alarms
  name_base    = local.names.alarms
  alarm_topic  = var.alarm_topic
  notice_topic = var.notice_topic
  tags         = var.tags
  thresholds   = var.alarm_thresholds
}

check "alarms_notify_somebody" {
  assert {
    condition     = var.alarm_topic != null || var.notice_topic != null
    error_message = "The alarms of ${module.naming.base} (events) notify nobody: set alarm_topic, or watch them yourself."
  }
}
