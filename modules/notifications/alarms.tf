locals {
  metric_dimensions = { Environment = local.environment, ProductCode = "all" }
  metric_namespace  = "AWSMarketplaceMetering"

  # No money is lost here; what is lost is a buyer who was not told, and after this time no longer is.
  deadline = "${var.notification_max_age_days} days after the event"

  error_alarms = {
    notification-admin-errors       = { function = "notification-admin", severity = "notice", description = "The administration function fails: an operator's command was not carried out. Nothing is sent or lost by it, and there is no deadline." }
    notification-contacts-errors    = { function = "notification-contacts", severity = "notice", description = "The contacts function fails: new buyers get no link to verify their address, and verified ones are not told that their subscription started. Changes wait in the stream and are given up after 12 hours." }
    notification-feedback-errors    = { function = "notification-feedback", severity = "alarm", description = "The feedback function fails: bounces and complaints are not taken in, so buyers who complained are written to again. Reports are kept for a day." }
    notification-intake-errors      = { function = "notification-intake", severity = "alarm", description = "The intake function fails: changes of subscriptions lead to no notice. They wait in ${local.names.event_queue} and go to its DLQ after five tries; a notice is no longer sent ${local.deadline}." }
    notification-maintenance-errors = { function = "notification-maintenance", severity = "notice", description = "The maintenance function fails: notices that a crash left claimed, or that failed, are not tried again, and old feedback is not purged. A notice is no longer sent ${local.deadline}." }
    notification-sender-errors      = { function = "notification-sender", severity = "alarm", description = "The sender fails: a table, a secret or a setting is not as it should be, and notices wait. A notice is no longer sent ${local.deadline}." }
  }

  dlq_alarms = {
    notification-contacts-failed = { queue = local.names.contacts_failed, severity = "alarm", deployed = true, description = "Changes of customer profiles were given up: a buyer's address is not being verified, or its verification was not told. The stream keeps the change itself for at most 12 hours more." }
    notification-events-dlq      = { queue = "${local.names.event_queue}-dlq", severity = "alarm", deployed = true, description = "A change of a subscription or a billing event could not be taken in: its notice is not sent. Read and redrive ${local.names.event_queue}-dlq; a notice is no longer sent ${local.deadline}." }
    notification-feedback-dlq    = { queue = "${local.names.feedback}-dlq", severity = "alarm", deployed = local.ses, description = "A bounce or a complaint could not be taken in, so that recipient is written to again. Redrive ${local.names.feedback}-dlq within 4 days of the report, when it is deleted because it holds an address." }
  }

  age_alarms = {
    notification-events-oldest-message   = { queue = local.names.event_queue, deployed = true, description = "A change of a subscription or a billing event has waited for 15 minutes: the intake function does not run or does not get on. A notice is no longer sent ${local.deadline}." }
    notification-feedback-oldest-message = { queue = local.names.feedback, deployed = local.ses, description = "A bounce or a complaint has waited for 15 minutes: the feedback function does not run or does not get on, and that recipient may be written to again. Reports are kept for a day." }
  }

  business_alarms = {
    notification-entries-failed    = { metric_name = "NotificationEntriesFailed", severity = "alarm", deployed = true, description = "Notices failed for at least one recipient: the mail server refused, or did not answer. What may be tried again is, ${var.notification_max_attempts} times in all; a notice is no longer sent ${local.deadline}." }
    notification-feedback-conflict = { metric_name = "FeedbackConflict", severity = "alarm", deployed = local.ses, description = "A report about sent mail came again with other content: somebody else may be able to publish to ${local.names.feedback}, or a defect changes reports. The first one stands. There is no deadline." }
    notification-feedback-refused  = { metric_name = "FeedbackRefused", severity = "notice", deployed = local.ses, description = "A report about sent mail was refused: it belongs to no delivery of ours, or its time cannot be right. A recipient who complained may be written to again. There is no deadline." }
  }

  failed_calls = {
    notification-rule-billing-failed         = { rule = local.names.rules.billing, bus = true, severity = "alarm", runbook = "notification-rule-failed", evaluation_periods = 1, description = "EventBridge could not hand a billing event to ${local.names.event_queue}; it tries the queue's DLQ, and what does not reach that either is lost. A notice is no longer sent ${local.deadline}." }
    notification-rule-events-failed          = { rule = local.names.rules.events, bus = true, severity = "alarm", runbook = "notification-rule-failed", evaluation_periods = 1, description = "EventBridge could not hand a change of a subscription to ${local.names.event_queue}; it tries the queue's DLQ, and what does not reach that either is lost. A notice is no longer sent ${local.deadline}." }
    schedule-notification-maintenance-failed = { rule = local.names.schedules.maintenance, bus = false, severity = "notice", runbook = "schedule-notification-failed", evaluation_periods = 2, description = "EventBridge cannot call the maintenance function: notices that failed are not tried again, and old feedback is not purged. A notice is no longer sent ${local.deadline}." }
    schedule-notification-sender-failed      = { rule = local.names.schedules.sender, bus = false, severity = "alarm", runbook = "schedule-notification-failed", evaluation_periods = 2, description = "EventBridge cannot call the sender: notices wait. A notice is no longer sent ${local.deadline}." }
  }

  all_alarms = merge(
    {
      for key, alarm in local.error_alarms : key => {
        deployed    = contains(local.deployed_function_set, alarm.function)
        description = alarm.description
        severity    = alarm.severity
        namespace   = "AWS/Lambda"
        metric_name = "Errors"
        dimensions  = tomap({ FunctionName = local.names.functions[alarm.function] })
      }
    },
    {
      for key, alarm in local.dlq_alarms : key => {
        deployed    = alarm.deployed
        description = alarm.description
        severity    = alarm.severity
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesVisible"
        dimensions  = tomap({ QueueName = alarm.queue })
        statistic   = "Maximum"
      }
    },
    {
      for key, alarm in local.age_alarms : key => {
        deployed    = alarm.deployed
        description = alarm.description
        severity    = "alarm"
        namespace   = "AWS/SQS"
        metric_name = "ApproximateAgeOfOldestMessage"
        dimensions  = tomap({ QueueName = alarm.queue })
        statistic   = "Maximum"
        threshold   = 900
      }
    },
    {
      for key, alarm in local.business_alarms : key => {
        deployed    = alarm.deployed
        description = alarm.description
        severity    = alarm.severity
        namespace   = local.metric_namespace
        metric_name = alarm.metric_name
        dimensions  = tomap(local.metric_dimensions)
      }
    },
    {
      for key, alarm in local.failed_calls : key => {
        deployed           = true
        description        = alarm.description
        severity           = alarm.severity
        namespace          = "AWS/Events"
        metric_name        = "FailedInvocations"
        dimensions         = tomap(alarm.bus ? { EventBusName = local.names.bus, RuleName = alarm.rule } : { RuleName = alarm.rule })
        evaluation_periods = alarm.evaluation_periods
        runbook            = alarm.runbook
      }
    },
    {
      notification-contacts-iterator-age = {
        deployed           = true
        description        = "A change of a customer profile has waited for 15 minutes: the contacts function does not run, or a record fails again and again. Buyers get no link to verify their address; the change is given up after 12 hours."
        severity           = "notice"
        namespace          = "AWS/Lambda"
        metric_name        = "IteratorAge"
        dimensions         = tomap({ FunctionName = local.names.functions["notification-contacts"] })
        statistic          = "Maximum"
        threshold          = 900000
        evaluation_periods = 3
      }
      notification-feedback-undelivered = {
        deployed    = local.ses
        description = "SNS could not hand a bounce or a complaint to ${local.names.feedback}: it tries for a while and then drops it, and that recipient is written to again. Mend the queue's policy or the key's at once."
        severity    = "alarm"
        namespace   = "AWS/SNS"
        metric_name = "NumberOfNotificationsFailed"
        dimensions  = tomap({ TopicName = local.names.feedback })
      }
      notification-maintenance-did-not-run = {
        deployed            = true
        description         = "The maintenance function was not called for 30 minutes: notices that failed are not tried again, and old feedback is not purged. A notice is no longer sent ${local.deadline}."
        severity            = "notice"
        namespace           = "AWS/Lambda"
        metric_name         = "Invocations"
        dimensions          = tomap({ FunctionName = local.names.functions["notification-maintenance"] })
        comparison_operator = "LessThanThreshold"
        period_seconds      = 900
        evaluation_periods  = 2
        treat_missing_data  = "breaching"
      }
      notification-send-stalled = {
        deployed            = true
        description         = "No run of the sender has come to its end for 15 minutes: no buyer is told of anything. A notice is no longer sent ${local.deadline}."
        severity            = "alarm"
        namespace           = local.metric_namespace
        metric_name         = "NotificationSendRunsCompleted"
        dimensions          = tomap(local.metric_dimensions)
        comparison_operator = "LessThanThreshold"
        evaluation_periods  = 3
        treat_missing_data  = "breaching"
      }
    },
  )

  alarms = { for key, alarm in local.all_alarms : key => alarm if alarm.deployed }

  # Thresholds of alarms that only the other transport has are accepted, so that changing it needs no other change.
  alarm_keys = [
    "notification-admin-errors",
    "notification-contacts-errors",
    "notification-contacts-failed",
    "notification-contacts-iterator-age",
    "notification-entries-failed",
    "notification-events-dlq",
    "notification-events-oldest-message",
    "notification-feedback-conflict",
    "notification-feedback-dlq",
    "notification-feedback-errors",
    "notification-feedback-oldest-message",
    "notification-feedback-refused",
    "notification-feedback-undelivered",
    "notification-intake-errors",
    "notification-maintenance-did-not-run",
    "notification-maintenance-errors",
    "notification-rule-billing-failed",
    "notification-rule-events-failed",
    "notification-send-stalled",
    "notification-sender-errors",
    "schedule-notification-maintenance-failed",
    "schedule-notification-sender-failed",
  ]
}

module "alarms" {
  source = "../alarms"

  alarms           = local.alarms
  name_base        = module.naming.base
  alarm_topic      = var.alarm_topic
  notice_topic     = var.notice_topic
  runbook_base_url = var.runbook_base_url
  tags             = var.tags
  thresholds       = { for key, value in var.alarm_thresholds : key => value if contains(keys(local.alarms), key) }
}

check "alarms_notify_somebody" {
  assert {
    condition     = var.alarm_topic != null || var.notice_topic != null
    error_message = "The alarms of ${module.naming.base} (notifications) notify nobody, so buyers may go untold unseen: set alarm_topic, or watch them yourself."
  }
}
