locals {
  # A metric of ours, as a dashboard names it: namespace, name, dimensions.
  ours = {
    for name in [
      "BatchMeterUsageException",
      "BatchMeterUsageRequests",
      "BatchMeterUsageThrottled",
      "CustomerNotSubscribed",
      "DiscoveryRunsCompleted",
      "DryRunNotBilled",
      "GroupsDiscovered",
      "LateAfterSubmission",
      "OldestUnaggregatedAgeSeconds",
      "OldestUnbilledAgeSeconds",
      "OutcomeUnknown",
      "PossibleUnderBilling",
      "RecordsBilled",
      "SecondsToMonthEndWallWithUsagePending",
      "SubmissionRunsCompleted",
      "SurfacedUnits",
      "UnitsAtRisk",
      "UsageAggregationExpired",
      "UsageRecordRejected",
      "UsageRecordUnprocessed",
      "UsageSubmissionExpired",
    ] : name => [local.metric_namespace, name, "ProductCode", var.product_code, "Environment", local.environment]
  }

  # The same metric once for each reason: whichever reasons there are, they are found by a search.
  by_reason = {
    for name in ["BatchMeterUsageException", "SurfacedUnits", "UsageRecordRejected"] :
    name => "SEARCH('{${local.metric_namespace},ProductCode,Environment,Reason} MetricName=\"${name}\" ProductCode=\"${var.product_code}\" Environment=\"${local.environment}\"', 'Sum', 300)"
  }

  dashboard_functions = [for key in local.function_keys : key if contains(local.deployed_function_set, key)]
  dashboard_queues    = local.full ? local.queue_keys : []

  money_at_risk = [
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Units at risk: pending after the last run"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 300
        metrics   = [concat(local.ours.UnitsAtRisk, [{ stat = "Maximum", label = "units not billed yet" }])]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title  = "Oldest unbilled usage, in hours of its ${var.billable_window_hours}"
        view   = "gauge"
        region = local.region.id
        period = 300
        yAxis  = { left = { min = 0, max = var.billable_window_hours } }
        metrics = [
          concat(local.ours.OldestUnbilledAgeSeconds, [{ id = "age", stat = "Maximum", visible = false }]),
          [{ expression = "age / 3600", id = "hours", label = "hours old" }],
        ]
        annotations = {
          horizontal = [
            { color = "#d62728", fill = "above", label = "alarm", value = lookup(var.alarm_thresholds, "oldest-unbilled-age", local.risk_alarms.oldest-unbilled-age.threshold) / 3600 },
          ]
        }
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Hours to the month's end with usage pending (empty: none pending)"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 300
        metrics = [
          concat(local.ours.SecondsToMonthEndWallWithUsagePending, [{ id = "left", stat = "Minimum", visible = false }]),
          [{ expression = "left / 3600", id = "hours", label = "hours left" }],
        ]
      })
    },
    {
      # A run that did its work to the end counts 1. The last such datapoint's own time, carried on to the present, tells how
      # long ago that was.
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Minutes since the last successful submission"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 300
        metrics = [
          concat(local.ours.SubmissionRunsCompleted, [{ id = "runs", stat = "Sum", visible = false }]),
          [{ expression = "IF(runs > 0, EPOCH(runs))", id = "success", visible = false }],
          [{ expression = "FILL(success, REPEAT)", id = "last", visible = false }],
          [{ expression = "(EPOCH(runs) - last) / 60", id = "minutes", label = "minutes ago" }],
        ]
      })
    },
  ]

  over_time = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Units: pending, and surfaced instead of billed"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        metrics = [
          concat(local.ours.UnitsAtRisk, [{ stat = "Maximum", label = "pending after a run" }]),
          concat(local.ours.SurfacedUnits, [{ stat = "Sum", label = "surfaced", color = "#d62728" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Age of the oldest usage, in hours"
        view   = "timeSeries"
        region = local.region.id
        period = 900
        yAxis  = { left = { min = 0 } }
        metrics = [
          concat(local.ours.OldestUnaggregatedAgeSeconds, [{ id = "raw", stat = "Maximum", visible = false }]),
          concat(local.ours.OldestUnbilledAgeSeconds, [{ id = "records", stat = "Maximum", visible = false }]),
          [{ expression = "raw / 3600", id = "rawhours", label = "raw, when it was found" }],
          [{ expression = "records / 3600", id = "recordhours", label = "added up, not billed" }],
        ]
        annotations = { horizontal = [{ color = "#d62728", label = "lost", value = var.billable_window_hours }] }
      })
    },
    {
      type = "alarm", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Alarms"
        sortBy = "stateUpdatedTimestamp"
        alarms = [for key in sort(keys(local.alarms)) : module.alarms.arns[key]]
      })
    },
  ]

  not_billed = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Refused usage, rows or records by reason"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.by_reason.UsageRecordRejected, id = "reasons", label = "" }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Surfaced units by reason"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.by_reason.SurfacedUnits, id = "reasons", label = "" }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Records and rows that will not be billed as written"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.UsageAggregationExpired, [{ label = "too old to add up" }]),
          concat(local.ours.UsageSubmissionExpired, [{ label = "too old to send" }]),
          concat(local.ours.LateAfterSubmission, [{ label = "after its hour was sent" }]),
          concat(local.ours.PossibleUnderBilling, [{ label = "another quantity stood already" }]),
          concat(local.ours.OutcomeUnknown, [{ label = "outcome unknown" }]),
          concat(local.ours.DryRunNotBilled, [{ label = "dry run, account not listed" }]),
        ]
      })
    },
  ]

  answers = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "BatchMeterUsage: requests"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.BatchMeterUsageRequests, [{ label = "sent" }]),
          concat(local.ours.BatchMeterUsageThrottled, [{ label = "throttled" }]),
          concat(local.ours.BatchMeterUsageException, [{ label = "failed" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "BatchMeterUsage: records"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.RecordsBilled, [{ label = "billed" }]),
          concat(local.ours.UsageRecordUnprocessed, [{ label = "left unprocessed" }]),
          concat(local.ours.CustomerNotSubscribed, [{ label = "customer not subscribed" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "BatchMeterUsage: failed requests by exception"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.by_reason.BatchMeterUsageException, id = "reasons", label = "" }]]
      })
    },
  ]

  queue_health = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Queues: messages waiting"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for key in local.dashboard_queues : ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", local.names.queues[key], { label = key }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Queues: age of the oldest message, in seconds"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for key in local.dashboard_queues : ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", local.names.queues[key], { label = key }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Dead-letter queues"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for key in local.dashboard_queues : ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${local.names.queues[key]}-dlq", { label = "${key}-dlq" }]]
      })
    },
  ]

  function_health = [
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title  = "Functions: errors and throttles"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = concat(
          [for key in local.dashboard_functions : ["AWS/Lambda", "Errors", "FunctionName", local.names.functions[key], { label = "${key} errors" }]],
          [for key in local.dashboard_functions : ["AWS/Lambda", "Throttles", "FunctionName", local.names.functions[key], { label = "${key} throttles" }]],
        )
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title   = "Functions: longest run, in milliseconds"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for key in local.dashboard_functions : ["AWS/Lambda", "Duration", "FunctionName", local.names.functions[key], { label = key }]]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title  = "Runs that did their work to the end"
        view   = "timeSeries"
        region = local.region.id
        period = 900
        stat   = "Sum"
        metrics = concat(
          [concat(local.ours.SubmissionRunsCompleted, [{ label = "submitter" }])],
          local.full ? [
            concat(local.ours.DiscoveryRunsCompleted, [{ label = "discoverer" }]),
            concat(local.ours.GroupsDiscovered, [{ label = "groups found", yAxis = "right" }]),
          ] : [],
        )
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title   = "Schedules: calls that EventBridge could not make"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Sum"
        metrics = [for key in sort(keys(local.deployed_schedules)) : ["AWS/Events", "FailedInvocations", "RuleName", local.names.rules[key], { label = key }]]
      })
    },
  ]
}

module "dashboard" {
  source = "../dashboard"
  count  = var.create_dashboard ? 1 : 0

  name = "${module.naming.base}-metering-${local.region.code}"
  rows = concat(
    [local.money_at_risk, local.over_time, local.not_billed, local.answers],
    local.full ? [local.queue_health] : [],
    [local.function_health],
  )
}
