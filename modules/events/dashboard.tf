locals {
  # A metric of ours, as a dashboard names it: namespace, name, dimensions.
  ours = {
    for name in ["EventApplied", "EventIgnored", "EventParked", "EventStale", "LicensesFinalized", "RowChangesForwarded"] :
    name => [local.metric_namespace, name, "ProductCode", local.metric_dimensions.ProductCode, "Environment", local.environment]
  }

  # Whether a cancelled licence's last hour is at risk: events that wait, and events that were given up.
  licenses_at_risk = [
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Events that were given up: licences with a wrong status"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 300
        metrics   = [["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${local.names.queue}-dlq", { stat = "Maximum", label = "events in the DLQ" }]]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title  = "Oldest waiting event, in minutes of a cancelled licence's 60"
        view   = "gauge"
        region = local.region.id
        period = 300
        yAxis  = { left = { min = 0, max = 60 } }
        metrics = [
          ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", local.names.queue, { id = "age", stat = "Maximum", visible = false }],
          [{ expression = "age / 60", id = "minutes", label = "minutes old" }],
        ]
        annotations = { horizontal = [{ color = "#d62728", fill = "above", label = "alarm", value = lookup(var.alarm_thresholds, "events-oldest-message", local.alarms.events-oldest-message.threshold) / 60 }] }
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Events applied"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 3600
        metrics   = [concat(local.ours.EventApplied, [{ stat = "Sum", label = "in the last hour" }])]
      })
    },
    {
      type = "alarm", width = 6, height = 6
      properties_json = jsonencode({
        title  = "Alarms"
        sortBy = "stateUpdatedTimestamp"
        alarms = [for key in local.alarm_keys : module.alarms.arns[key] if contains(keys(local.alarms), key)]
      })
    },
  ]

  event_flow = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Events by what became of them"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.EventApplied, [{ label = "applied" }]),
          concat(local.ours.EventStale, [{ label = "older than what is known" }]),
          concat(local.ours.EventParked, [{ label = "parked until the licence comes" }]),
          concat(local.ours.EventIgnored, [{ label = "of other types or products" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Licences ended after their last hour"
        view    = "timeSeries"
        region  = local.region.id
        period  = 900
        stat    = "Sum"
        metrics = [concat(local.ours.LicensesFinalized, [{ label = "ended" }])]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Queue and dead-letter queue: messages waiting"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Maximum"
        metrics = [
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", local.names.queue, { label = "events" }],
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${local.names.queue}-dlq", { label = "events-dlq" }],
        ]
      })
    },
  ]

  function_health = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Functions: errors and throttles"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = concat(
          [for key in local.deployed_function_set : ["AWS/Lambda", "Errors", "FunctionName", local.names.functions[key], { label = "${key} errors" }]],
          [for key in local.deployed_function_set : ["AWS/Lambda", "Throttles", "FunctionName", local.names.functions[key], { label = "${key} throttles" }]],
        )
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Functions: longest run, in milliseconds"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for key in local.deployed_function_set : ["AWS/Lambda", "Duration", "FunctionName", local.names.functions[key], { label = key }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Rules: calls that EventBridge could not make"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          ["AWS/Events", "FailedInvocations", "RuleName", local.names.event_rule, { label = "events" }],
          ["AWS/Events", "FailedInvocations", "RuleName", local.names.schedule_rule, { label = "deprovision-cleanup" }],
        ]
      })
    },
  ]
}

locals {
  # Only where there is somebody to forward to.
  forwarding_row = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Changes of subscriptions, forwarded for notices"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Sum"
        metrics = [concat(local.ours.RowChangesForwarded, [{ label = "forwarded" }])]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Oldest change that waits to be forwarded, in milliseconds"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [["AWS/Lambda", "IteratorAge", "FunctionName", local.names.functions["subscriber-forwarder"], { label = "age" }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Changes that were given up"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", local.names.forward_failed, { label = "waiting in the queue" }]]
      })
    },
  ]
}

module "dashboard" {
  source = "../dashboard"
  count  = var.create_dashboard ? 1 : 0

  name = "${module.naming.base}-events-${local.region.code}"
  rows = concat([local.licenses_at_risk, local.event_flow, local.function_health], [for row in [local.forwarding_row] : row if local.forwarding])
}
