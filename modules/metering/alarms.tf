locals {
  metric_dimensions = { Environment = local.environment, ProductCode = var.product_code }

  # Business metrics: what was surfaced instead of billed. Each title says the loss and the deadline.
  business_alarms = {
    usage-aggregation-expired = {
      metric_name = "UsageAggregationExpired"
      severity    = "alarm"
      description = "Raw usage grew too old before it was added up: it can no longer be billed and is lost unless you charge it another way."
    }
    usage-submission-expired = {
      metric_name = "UsageSubmissionExpired"
      severity    = "alarm"
      description = "Records grew too old before AWS Marketplace took them: they can no longer be billed and are lost unless you charge them another way."
    }
    usage-record-rejected = {
      metric_name = "UsageRecordRejected"
      severity    = "alarm"
      description = "Usage was refused (see the reason on the row or record). Corrected within ${var.billable_window_hours} hours of its own hour it is still billed, later it is lost."
    }
    usage-record-unprocessed = {
      metric_name = "UsageRecordUnprocessed"
      severity    = "notice"
      description = "AWS Marketplace left records unprocessed twice; the next run sends them again. Lost only if this lasts ${var.billable_window_hours} hours."
    }
    customer-not-subscribed = {
      metric_name = "CustomerNotSubscribed"
      severity    = "alarm"
      description = "AWS Marketplace does not know the buyer of some usage: it was not billed. Check the licence, and whether the buyer still has access."
    }
    batch-meter-usage-exception = {
      metric_name = "BatchMeterUsageException"
      severity    = "alarm"
      description = "AWS Marketplace refused whole requests. Usage stays pending and is lost ${var.billable_window_hours} hours after its hour, or at 06:00 UTC on the 1st for the month before."
    }
    late-after-submission = {
      metric_name = "LateAfterSubmission"
      severity    = "alarm"
      description = "Usage arrived after its hour had been sent. It cannot be added to a sent record: it is lost unless you charge it another way."
    }
    possible-under-billing = {
      metric_name = "PossibleUnderBilling"
      severity    = "alarm"
      description = "AWS Marketplace already had another quantity for an hour: it may have billed less than was used. Reconcile against CloudTrail."
    }
    outcome-unknown = {
      metric_name = "OutcomeUnknown"
      severity    = "alarm"
      description = "Records closed without an answer from AWS Marketplace: they may or may not be billed. Reconcile against CloudTrail before you charge them another way."
    }
    dry-run-not-billed = {
      metric_name = "DryRunNotBilled"
      severity    = "notice"
      description = "Dry run: usage of accounts outside test_account_allowlist was not billed. In production this is lost revenue: set metering_mode = \"live\"."
    }
  }

  dlq_alarms = {
    work-dlq = {
      queue       = "work"
      description = "Hours of usage could not be added up. They are found again every 15 minutes, and lost ${var.billable_window_hours} hours after their hour. Read and redrive the queue."
    }
    deprovision-work-dlq = {
      queue       = "deprovision-work"
      description = "The last usage of an ending licence could not be added up: it is lost one hour after the licence was deprovisioned. Act now."
    }
    cleanup-dlq = {
      queue       = "cleanup"
      description = "Raw rows could not be cleared. They are billed once all the same, but are read again by every run until the queue is redriven."
    }
  }

  error_alarms = {
    aggregator-errors = { function = "aggregator", severity = "alarm", description = "The aggregator fails: hours of usage are not added up, and lost ${var.billable_window_hours} hours after their hour." }
    cleanup-errors    = { function = "cleanup", severity = "notice", description = "The cleanup function fails: raw rows are read again by every run." }
    discoverer-errors = { function = "discoverer", severity = "alarm", description = "The discoverer fails: pending usage is not found, and lost ${var.billable_window_hours} hours after its hour." }
    expiry-errors     = { function = "expiry", severity = "alarm", description = "The expiry function fails: records that can no longer be billed are not reported." }
    submitter-errors  = { function = "submitter", severity = "alarm", description = "The submitter fails: nothing is billed. Records are lost ${var.billable_window_hours} hours after their hour, or at 06:00 UTC on the 1st for the month before." }
  }

  all_alarms = merge(
    {
      for key, alarm in local.business_alarms : key => {
        deployed    = true
        description = alarm.description
        severity    = alarm.severity
        namespace   = "AWSMarketplaceMetering"
        metric_name = alarm.metric_name
        dimensions  = local.metric_dimensions
        statistic   = "Sum"
      }
    },
    {
      for key, alarm in local.dlq_alarms : key => {
        deployed    = local.full
        description = alarm.description
        severity    = "alarm"
        namespace   = "AWS/SQS"
        metric_name = "ApproximateNumberOfMessagesVisible"
        dimensions  = tomap({ QueueName = "${local.names.queues[alarm.queue]}-dlq" })
        statistic   = "Maximum"
      }
    },
    {
      for key, alarm in local.error_alarms : key => {
        deployed    = contains(local.deployed_function_set, alarm.function)
        description = alarm.description
        severity    = alarm.severity
        namespace   = "AWS/Lambda"
        metric_name = "Errors"
        dimensions  = tomap({ FunctionName = local.names.functions[alarm.function] })
        statistic   = "Sum"
      }
    },
  )

  alarms = { for key, alarm in local.all_alarms : key => alarm if alarm.deployed }

  # Thresholds of alarms that the other deployment mode has are accepted, so that switching needs no other change.
  alarm_keys = [
    "aggregator-errors", "batch-meter-usage-exception", "cleanup-dlq", "cleanup-errors", "customer-not-subscribed", "deprovision-work-dlq",
    "discoverer-errors", "dry-run-not-billed", "expiry-errors", "late-after-submission", "outcome-unknown", "possible-under-billing",
    "submitter-errors", "usage-aggregation-expired", "usage-record-rejected", "usage-record-unprocessed", "usage-submission-expired", "work-dlq",
  ]
}

module "alarms" {
  source = "../alarms"

  alarms       = local.alarms
  name_base    = module.naming.base
  alarm_topic  = var.alarm_topic
  notice_topic = var.notice_topic
  tags         = var.tags
  thresholds   = { for key, value in var.alarm_thresholds : key => value if contains(keys(local.alarms), key) }
}

check "alarms_notify_somebody" {
  assert {
    condition     = var.alarm_topic != null || var.notice_topic != null
    error_message = "The alarms of ${module.naming.base} (metering) notify nobody, so usage can be lost unseen: set alarm_topic, or watch them yourself."
  }
}
