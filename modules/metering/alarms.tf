locals {
  metric_dimensions = { Environment = local.environment, ProductCode = var.product_code }
  metric_namespace  = "AWSMarketplaceMetering"

  # When what is pending is lost for good; the deadline in the descriptions.
  deadline = "${var.billable_window_hours} hours after its hour, or at 06:00 UTC on the 1st for the month before"

  # Business metrics: what was surfaced instead of billed. Each title says the loss and the deadline.
  business_alarms = {
    usage-aggregation-expired = {
      metric_name = "UsageAggregationExpired"
      severity    = "alarm"
      description = "Lost: raw usage grew too old before it was added up. Its deadline, ${local.deadline}, has passed: charge it another way, and mend what held it up before the next hour follows."
    }
    usage-submission-expired = {
      metric_name = "UsageSubmissionExpired"
      severity    = "alarm"
      description = "Lost: records grew too old before AWS Marketplace took them. Their deadline, ${local.deadline}, has passed: charge them another way, and mend what held them up before the next hour follows."
    }
    usage-record-rejected = {
      metric_name = "UsageRecordRejected"
      severity    = "alarm"
      description = "Usage was refused (the row or record names the reason). Rows corrected before the last hour of their window are still billed; after that, ${local.deadline}, they are lost."
    }
    usage-record-unprocessed = {
      metric_name = "UsageRecordUnprocessed"
      severity    = "notice"
      description = "AWS Marketplace left records unprocessed twice; the next run sends them again. Lost only if this lasts until their deadline, ${local.deadline}."
    }
    customer-not-subscribed = {
      metric_name = "CustomerNotSubscribed"
      severity    = "alarm"
      description = "AWS Marketplace does not know the buyer of some usage: it was not billed, and that record will not be. Check the licence and stop service that nobody pays for, before the next hour adds to the loss."
    }
    batch-meter-usage-exception = {
      metric_name = "BatchMeterUsageException"
      severity    = "alarm"
      description = "AWS Marketplace refused whole requests. Usage stays pending and is lost ${local.deadline}."
    }
    late-after-submission = {
      metric_name = "LateAfterSubmission"
      severity    = "alarm"
      description = "Usage arrived after its hour had been sent. It cannot be added to a sent record: it is lost unless you charge it another way, and every later hour with the same delay is lost too."
    }
    possible-under-billing = {
      metric_name = "PossibleUnderBilling"
      severity    = "alarm"
      description = "AWS Marketplace already had another quantity for an hour: it may have billed less than was used. Reconcile against CloudTrail within the 90 days that its event history reaches back."
    }
    outcome-unknown = {
      metric_name = "OutcomeUnknown"
      severity    = "alarm"
      description = "Records closed without an answer from AWS Marketplace: they may or may not be billed. Reconcile against CloudTrail, within the 90 days that its event history reaches back, before you charge them another way."
    }
    dry-run-not-billed = {
      metric_name = "DryRunNotBilled"
      severity    = "notice"
      description = "Dry run: usage of accounts outside test_account_allowlist was not billed and never will be. In production this is lost revenue with every hour: set metering_mode = \"live\"."
    }
  }

  # What is still pending, as the submitter's runs report it. A run that fails reports nothing: the age keeps its state then, and the
  # submitter's own alarms tell. Three runs in a row, because one run may find a backlog that the next one has sent.
  risk_alarms = {
    oldest-unbilled-age = {
      metric_name         = "OldestUnbilledAgeSeconds"
      statistic           = "Maximum"
      comparison_operator = "GreaterThanOrEqualToThreshold"
      threshold           = 3600 * var.billable_window_hours * 3 / 4
      treat_missing_data  = "ignore"
      description         = "Usage was left unbilled by run after run of the submitter, and three quarters of its window are over. It is lost ${local.deadline}."
    }
    month-end-wall = {
      metric_name         = "SecondsToMonthEndWallWithUsagePending"
      statistic           = "Minimum"
      comparison_operator = "LessThanOrEqualToThreshold"
      threshold           = 6 * 3600
      treat_missing_data  = "notBreaching"
      description         = "The month that is closing still has unbilled usage, and less than six hours are left. At 06:00 UTC on the 1st, AWS Marketplace refuses it and it is lost."
    }
  }

  dlq_alarms = {
    work-dlq = {
      queue       = "work"
      description = "Hours of usage could not be added up. They are found again every 15 minutes, and lost ${local.deadline}. Read and redrive the queue."
    }
    deprovision-work-dlq = {
      queue       = "deprovision-work"
      description = "The last usage of an ending licence could not be added up: it is lost one hour after the licence was deprovisioned. Act now."
    }
    cleanup-dlq = {
      queue       = "cleanup"
      description = "Raw rows could not be cleared. No usage is lost and there is no deadline: they are billed once all the same, but read again by every run until the queue is redriven."
    }
  }

  age_alarms = {
    work-oldest-message = {
      queue       = "work"
      severity    = "alarm"
      threshold   = 3600
      description = "Hours of usage have waited for an hour to be added up: the aggregator does not keep up or does not run. They are lost ${local.deadline}."
    }
    deprovision-work-oldest-message = {
      queue       = "deprovision-work"
      severity    = "alarm"
      threshold   = 900
      description = "The last usage of an ending licence has waited for 15 minutes to be added up. It is lost one hour after the licence was deprovisioned: at most 45 minutes are left."
    }
  }

  error_alarms = {
    aggregator-errors = { function = "aggregator", severity = "alarm", description = "The aggregator fails: hours of usage are not added up, and lost ${local.deadline}." }
    cleanup-errors    = { function = "cleanup", severity = "notice", description = "The cleanup function fails: raw rows are read again by every run. No usage is lost and there is no deadline." }
    discoverer-errors = { function = "discoverer", severity = "alarm", description = "The discoverer fails: pending usage is not found, and lost ${local.deadline}; that of an ending licence one hour after it was deprovisioned." }
    expiry-errors     = { function = "expiry", severity = "alarm", description = "The expiry function fails: records whose deadline has passed are lost and nobody is told. Once it runs again it reports them, up to seven days back." }
    submitter-errors  = { function = "submitter", severity = "alarm", description = "The submitter fails: usage is not billed, and lost ${local.deadline}." }
  }

  throttle_alarms = {
    aggregator-throttles = { function = "aggregator", description = "Lambda refused to run the aggregator for 15 minutes: hours of usage wait to be added up, and are lost ${local.deadline}. Free concurrency." }
    submitter-throttles  = { function = "submitter", description = "Lambda refused to run the submitter for 15 minutes: records wait to be sent, and are lost ${local.deadline}. Free concurrency." }
  }

  idle_alarms = {
    discoverer-did-not-run = { function = "discoverer", period_seconds = 900, evaluation_periods = 2, description = "The discoverer was not called for 30 minutes: pending usage is not found, and lost ${local.deadline}; that of an ending licence one hour after it was deprovisioned." }
    expiry-did-not-run     = { function = "expiry", period_seconds = 900, evaluation_periods = 2, description = "The expiry function was not called for 30 minutes: records whose deadline has passed are lost and nobody is told. Once it runs again it reports them, up to seven days back." }
    submitter-did-not-run  = { function = "submitter", period_seconds = 300, evaluation_periods = 3, description = "The submitter was not called for 15 minutes: nothing is billed, and usage is lost ${local.deadline}." }
  }

  # The minute's runs for ending licences call the discoverer and the submitter too, so that their invocations go on when the other
  # schedules have stopped. These count the runs that did the ordinary work to its end.
  stall_alarms = {
    discovery-stalled = {
      deployed           = local.full
      metric_name        = "DiscoveryRunsCompleted"
      period_seconds     = 1800
      evaluation_periods = 2
      # Thirty slices every 15 minutes make 60 in half an hour; one schedule that has stopped leaves 50.
      threshold   = 55
      description = "Some hours were not looked at for an hour: a schedule has stopped or its runs do not end. Pending usage is not found, and lost ${local.deadline}."
    }
    submission-stalled = {
      deployed           = true
      metric_name        = "SubmissionRunsCompleted"
      period_seconds     = 900
      evaluation_periods = 2
      threshold          = 1
      description        = "No run of the submitter has done its work to the end for 30 minutes. Usage may stay unbilled, and is lost ${local.deadline}."
    }
  }

  # One tick that could not be delivered is made good by the next; two in a row are not.
  schedule_alarms = merge(
    {
      for number in range(1, 7) : "schedule-meter-dispatch-${number}-failed" => {
        rule           = "meter-dispatch-${number}"
        runbook        = "schedule-meter-dispatch-failed"
        period_seconds = 900
        description    = "EventBridge cannot call the discoverer for ${join(", ", [for slice in slice(local.slices, 5 * (number - 1), 5 * number) : slice.id])}: usage of those hours is not found, and lost ${local.deadline}."
      }
    },
    {
      schedule-flush-deprovisioning-failed = {
        rule           = "flush-deprovisioning"
        runbook        = "schedule-flush-deprovisioning-failed"
        period_seconds = 300
        description    = "EventBridge cannot call the discoverer or the submitter for ending licences: their last usage is lost one hour after they were deprovisioned."
      }
      schedule-submit-dispatch-failed = {
        rule           = "submit-dispatch"
        runbook        = "schedule-submit-dispatch-failed"
        period_seconds = 300
        description    = "EventBridge cannot call the submitter or the expiry function: usage is not billed, and lost ${local.deadline}."
      }
    },
  )

  all_alarms = merge(
    {
      for key, alarm in local.business_alarms : key => {
        deployed    = true
        description = alarm.description
        severity    = alarm.severity
        namespace   = local.metric_namespace
        metric_name = alarm.metric_name
        dimensions  = local.metric_dimensions
        statistic   = "Sum"
      }
    },
    {
      for key, alarm in local.risk_alarms : key => merge(alarm, {
        deployed           = true
        severity           = "alarm"
        namespace          = local.metric_namespace
        dimensions         = local.metric_dimensions
        evaluation_periods = 3
      })
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
      for key, alarm in local.age_alarms : key => {
        deployed    = local.full
        description = alarm.description
        severity    = alarm.severity
        namespace   = "AWS/SQS"
        metric_name = "ApproximateAgeOfOldestMessage"
        dimensions  = tomap({ QueueName = local.names.queues[alarm.queue] })
        statistic   = "Maximum"
        threshold   = alarm.threshold
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
    {
      for key, alarm in local.throttle_alarms : key => {
        deployed           = contains(local.deployed_function_set, alarm.function)
        description        = alarm.description
        severity           = "notice"
        namespace          = "AWS/Lambda"
        metric_name        = "Throttles"
        dimensions         = tomap({ FunctionName = local.names.functions[alarm.function] })
        statistic          = "Sum"
        evaluation_periods = 3
      }
    },
    {
      for key, alarm in local.idle_alarms : key => {
        deployed            = contains(local.deployed_function_set, alarm.function)
        description         = alarm.description
        severity            = "alarm"
        namespace           = "AWS/Lambda"
        metric_name         = "Invocations"
        dimensions          = tomap({ FunctionName = local.names.functions[alarm.function] })
        statistic           = "Sum"
        comparison_operator = "LessThanThreshold"
        period_seconds      = alarm.period_seconds
        evaluation_periods  = alarm.evaluation_periods
        treat_missing_data  = "breaching"
      }
    },
    {
      for key, alarm in local.stall_alarms : key => merge(alarm, {
        severity            = "alarm"
        namespace           = local.metric_namespace
        dimensions          = local.metric_dimensions
        statistic           = "Sum"
        comparison_operator = "LessThanThreshold"
        treat_missing_data  = "breaching"
      })
    },
    {
      for key, alarm in local.schedule_alarms : key => {
        deployed           = contains(keys(local.deployed_schedules), alarm.rule)
        description        = alarm.description
        severity           = "alarm"
        namespace          = "AWS/Events"
        metric_name        = "FailedInvocations"
        dimensions         = tomap({ RuleName = local.names.rules[alarm.rule] })
        statistic          = "Sum"
        period_seconds     = alarm.period_seconds
        evaluation_periods = 2
        runbook            = alarm.runbook
      }
    },
  )

  alarms = { for key, alarm in local.all_alarms : key => alarm if alarm.deployed }

  # Thresholds of alarms that the other deployment mode has are accepted, so that switching needs no other change.
  alarm_keys = [
    "aggregator-errors",
    "aggregator-throttles",
    "batch-meter-usage-exception",
    "cleanup-dlq",
    "cleanup-errors",
    "customer-not-subscribed",
    "deprovision-work-dlq",
    "deprovision-work-oldest-message",
    "discoverer-did-not-run",
    "discoverer-errors",
    "discovery-stalled",
    "dry-run-not-billed",
    "expiry-did-not-run",
    "expiry-errors",
    "late-after-submission",
    "month-end-wall",
    "oldest-unbilled-age",
    "outcome-unknown",
    "possible-under-billing",
    "schedule-flush-deprovisioning-failed",
    "schedule-meter-dispatch-1-failed",
    "schedule-meter-dispatch-2-failed",
    "schedule-meter-dispatch-3-failed",
    "schedule-meter-dispatch-4-failed",
    "schedule-meter-dispatch-5-failed",
    "schedule-meter-dispatch-6-failed",
    "schedule-submit-dispatch-failed",
    "submission-stalled",
    "submitter-did-not-run",
    "submitter-errors",
    "submitter-throttles",
    "usage-aggregation-expired",
    "usage-record-rejected",
    "usage-record-unprocessed",
    "usage-submission-expired",
    "work-dlq",
    "work-oldest-message",
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
    error_message = "The alarms of ${module.naming.base} (metering) notify nobody, so usage can be lost unseen: set alarm_topic, or watch them yourself."
  }
}
