locals {
  # A metric of ours, as a dashboard names it: namespace, name, dimensions.
  ours = {
    for name in [
      "AddressVerificationsRequested",
      "AddressesVerified",
      "ContactsUnreadable",
      "FeedbackConflict",
      "FeedbackPurged",
      "FeedbackReceived",
      "FeedbackRefused",
      "NotificationClaimsRecovered",
      "NotificationEntriesFailed",
      "NotificationEventsDropped",
      "NotificationSendRunsCompleted",
      "NotificationsFailed",
      "NotificationsQueued",
      "NotificationsSent",
      "NotificationsSkipped",
    ] : name => [local.metric_namespace, name, "ProductCode", local.metric_dimensions.ProductCode, "Environment", local.environment]
  }

  # Whichever reasons there are, they are found by a search.
  by_reason = {
    for name in ["FeedbackReceived", "NotificationEventsDropped", "NotificationsSkipped"] :
    name => "SEARCH('{${local.metric_namespace},ProductCode,Environment,Reason} MetricName=\"${name}\" ProductCode=\"all\" Environment=\"${local.environment}\"', 'Sum', 300)"
  }

  # Whether buyers are told: what was sent, what was not, and whether anybody tries.
  buyers_told = [
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Notices in the last hour"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 3600
        stat      = "Sum"
        metrics = [
          concat(local.ours.NotificationsSent, [{ label = "sent" }]),
          concat(local.ours.NotificationsFailed, [{ label = "failed" }]),
        ]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Changes and events that were given up: buyers not told"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 300
        stat      = "Maximum"
        metrics = [
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${local.names.event_queue}-dlq", { label = "events in the DLQ" }],
          ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", local.names.contacts_failed, { label = "contacts given up" }],
        ]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Runs of the sender that came to their end"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 3600
        stat      = "Sum"
        metrics   = [concat(local.ours.NotificationSendRunsCompleted, [{ label = "in the last hour" }])]
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

  flow = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "From a change to a mail"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.NotificationsQueued, [{ label = "notices queued" }]),
          concat(local.ours.NotificationsSent, [{ label = "messages sent" }]),
          concat(local.ours.NotificationsSkipped, [{ label = "notices skipped" }]),
          concat(local.ours.NotificationEntriesFailed, [{ label = "notices failed", color = "#d62728" }]),
          concat(local.ours.NotificationEventsDropped, [{ label = "events that led to none" }]),
          concat(local.ours.NotificationClaimsRecovered, [{ label = "abandoned claims recovered" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Why notices were skipped"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.by_reason.NotificationsSkipped, id = "skipped", label = "" }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Why events led to no notice"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.by_reason.NotificationEventsDropped, id = "dropped", label = "" }]]
      })
    },
  ]

  contacts_and_feedback = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Addresses: links asked for, and contacts verified"
        view   = "timeSeries"
        region = local.region.id
        period = 3600
        stat   = "Sum"
        metrics = [
          concat(local.ours.AddressVerificationsRequested, [{ label = "links asked for" }]),
          concat(local.ours.AddressesVerified, [{ label = "contacts verified" }]),
          concat(local.ours.ContactsUnreadable, [{ label = "contacts that cannot be read", color = "#d62728" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title   = "Bounces and complaints by kind"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.by_reason.FeedbackReceived, id = "kinds", label = "" }]]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Feedback: taken in, refused, purged"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.FeedbackReceived, [{ label = "taken in" }]),
          concat(local.ours.FeedbackRefused, [{ label = "refused" }]),
          concat(local.ours.FeedbackConflict, [{ label = "came again with other content", color = "#d62728" }]),
          concat(local.ours.FeedbackPurged, [{ label = "purged" }]),
        ]
      })
    },
  ]

  # Queues as they are called here; those of feedback are there with SES only.
  queue_labels = merge(
    { (local.names.event_queue) = "events", "${local.names.event_queue}-dlq" = "events-dlq", (local.names.contacts_failed) = "contacts-failed" },
    { for name, label in { (local.names.feedback) = "feedback", "${local.names.feedback}-dlq" = "feedback-dlq" } : name => label if local.ses },
  )

  health = [
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title   = "Queues: messages waiting"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for name, label in local.queue_labels : ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", name, { label = label }]]
      })
    },
    {
      type = "metric", width = 6, height = 6
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
      type = "metric", width = 6, height = 6
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
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title  = "Calls and messages that AWS could not deliver"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = concat(
          [for key, name in local.names.rules : ["AWS/Events", "FailedInvocations", "EventBusName", local.names.bus, "RuleName", name, { label = "${key} rule" }]],
          [for key, name in local.names.schedules : ["AWS/Events", "FailedInvocations", "RuleName", name, { label = "${key} schedule" }]],
          [for name in local.ses ? [local.names.feedback] : [] : ["AWS/SNS", "NumberOfNotificationsFailed", "TopicName", name, { label = "feedback topic" }]],
          [["AWS/Lambda", "IteratorAge", "FunctionName", local.names.functions["notification-contacts"], { stat = "Maximum", label = "contacts: age of the oldest change, in ms", yAxis = "right" }]],
        )
      })
    },
  ]
}

module "dashboard" {
  source = "../dashboard"
  count  = var.create_dashboard ? 1 : 0

  name = "${module.naming.base}-notifications-${local.region.code}"
  rows = [local.buyers_told, local.flow, local.contacts_and_feedback, local.health]
}
