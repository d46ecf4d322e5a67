locals {
  # Metrics as a dashboard names them: namespace, name, dimensions.
  ours = {
    for name in [
      "AddressVerificationFailed",
      "AddressVerificationRefused",
      "AddressVerified",
      "BuyerAlreadyRegistered",
      "BuyerRegistered",
      "FulfillmentReceived",
      "FulfillmentWithoutToken",
      "RegistrationFailed",
      "RegistrationRejected",
      "TokenExpired",
      "TokenInvalid",
    ] : name => [local.metric_namespace, name, "ProductCode", var.product_code, "Environment", local.environment]
  }

  api_metrics = {
    for name in ["4XXError", "5XXError", "Count", "IntegrationLatency", "Latency"] :
    name => ["AWS/ApiGateway", name, "ApiName", local.names.api, "Stage", var.stage_name]
  }

  # The rules of the baseline web ACL, as they name their metrics; what an ACL of the caller's calls them cannot be known.
  web_acl_rules = { for rule in ["body-size", "common", "common-body-elsewhere", "rate"] : rule => "${local.names.api}-${rule}" }

  # Whichever codes there are, they are found by a search.
  refusals_by_code = "SEARCH('{${local.metric_namespace},ProductCode,Environment,Reason} MetricName=\"RegistrationRejected\" ProductCode=\"${var.product_code}\" Environment=\"${local.environment}\"', 'Sum', 300)"

  able_to_register = [
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Buyers who registered in the last hour"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 3600
        stat      = "Sum"
        metrics = [
          concat(local.ours.BuyerRegistered, [{ label = "registered" }]),
          concat(local.ours.BuyerAlreadyRegistered, [{ label = "once more" }]),
        ]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title   = "Refused registrations by code"
        view    = "timeSeries"
        stacked = true
        region  = local.region.id
        period  = 300
        metrics = [[{ expression = local.refusals_by_code, id = "codes", label = "" }]]
      })
    },
    {
      type = "metric", width = 6, height = 6
      properties_json = jsonencode({
        title     = "Buyers turned away by failures, in the last hour"
        view      = "singleValue"
        region    = local.region.id
        sparkline = true
        period    = 3600
        stat      = "Sum"
        metrics = [
          concat(local.ours.RegistrationFailed, [{ label = "failed registrations" }]),
          concat(local.api_metrics["5XXError"], [{ label = "server errors (5xx)" }]),
        ]
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

  on_the_way = [
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "From AWS Marketplace to registered"
        view   = "timeSeries"
        region = local.region.id
        period = 3600
        stat   = "Sum"
        metrics = [
          concat(local.ours.FulfillmentReceived, [{ label = "came from AWS Marketplace" }]),
          concat(local.ours.FulfillmentWithoutToken, [{ label = "came without a usable token" }]),
          concat(local.ours.BuyerRegistered, [{ label = "registered" }]),
          concat(local.ours.BuyerAlreadyRegistered, [{ label = "registered once more" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "Refused registrations: tokens, and all"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.ours.TokenExpired, [{ label = "token expired" }]),
          concat(local.ours.TokenInvalid, [{ label = "token invalid" }]),
          concat(local.ours.RegistrationRejected, [{ label = "all refusals" }]),
        ]
      })
    },
    {
      type = "metric", width = 8, height = 6
      properties_json = jsonencode({
        title  = "API: requests, and answers that are errors"
        view   = "timeSeries"
        region = local.region.id
        period = 300
        stat   = "Sum"
        metrics = [
          concat(local.api_metrics["Count"], [{ label = "requests" }]),
          concat(local.api_metrics["4XXError"], [{ label = "4xx" }]),
          concat(local.api_metrics["5XXError"], [{ label = "5xx", color = "#d62728" }]),
        ]
      })
    },
  ]

  # What stands before the functions. CloudFront has its metrics in us-east-1, whatever the module's Region.
  edge_width = floor(24 / (1 + (local.own_web_acl ? 1 : 0) + (local.cloudfront ? 1 : 0)))

  edge = concat(
    [
      for acl in aws_wafv2_web_acl.this[*].name : {
        type = "metric", width = local.edge_width, height = 6
        properties_json = jsonencode({
          title   = "Web ACL: requests blocked, by rule"
          view    = "timeSeries"
          stacked = true
          region  = local.region.id
          period  = 300
          stat    = "Sum"
          metrics = [for rule, metric in local.web_acl_rules : ["AWS/WAFV2", "BlockedRequests", "WebACL", acl, "Region", local.region.id, "Rule", metric, { label = rule }]]
        })
      }
    ],
    [
      {
        type = "metric", width = local.edge_width, height = 6
        properties_json = jsonencode({
          title  = "API: latency, in milliseconds"
          view   = "timeSeries"
          region = local.region.id
          period = 300
          metrics = [
            concat(local.api_metrics["Latency"], [{ stat = "p50", label = "median" }]),
            concat(local.api_metrics["Latency"], [{ stat = "p99", label = "99th percentile" }]),
            concat(local.api_metrics["IntegrationLatency"], [{ stat = "p99", label = "99th percentile, of it the functions" }]),
          ]
        })
      },
    ],
    [
      for distribution in aws_cloudfront_distribution.this[*].id : {
        type = "metric", width = local.edge_width, height = 6
        properties_json = jsonencode({
          title  = "CloudFront: answers that are errors, in percent"
          view   = "timeSeries"
          region = "us-east-1"
          period = 300
          stat   = "Average"
          yAxis  = { left = { min = 0 } }
          metrics = [
            for name, label in { "4xxErrorRate" = "4xx", "5xxErrorRate" = "5xx" } :
            ["AWS/CloudFront", name, "DistributionId", distribution, "Region", "Global", { label = label }]
          ]
        })
      }
    ],
  )

  # Only where links are mailed.
  verification = [
    {
      type = "metric", width = 24, height = 6
      properties_json = jsonencode({
        title  = "Links in mails: addresses verified, refused, failed"
        view   = "timeSeries"
        region = local.region.id
        period = 3600
        stat   = "Sum"
        metrics = [
          concat(local.ours.AddressVerified, [{ label = "verified" }]),
          concat(local.ours.AddressVerificationRefused, [{ label = "refused: expired, replaced or malformed" }]),
          concat(local.ours.AddressVerificationFailed, [{ label = "failed", color = "#d62728" }]),
        ]
      })
    },
  ]

  function_health = [
    {
      type = "metric", width = 12, height = 6
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
      type = "metric", width = 12, height = 6
      properties_json = jsonencode({
        title   = "Functions: longest run, in milliseconds"
        view    = "timeSeries"
        region  = local.region.id
        period  = 300
        stat    = "Maximum"
        metrics = [for key in local.deployed_function_set : ["AWS/Lambda", "Duration", "FunctionName", local.names.functions[key], { label = key }]]

        # API Gateway waits no longer.
        annotations = { horizontal = [{ color = "#d62728", label = "API Gateway gives up", value = 29000 }] }
      })
    },
  ]
}

module "dashboard" {
  source = "../dashboard"
  count  = var.create_dashboard ? 1 : 0

  name = "${module.naming.base}-registration-${local.region.code}"
  rows = concat(
    [local.able_to_register, local.on_the_way, local.edge],
    [for row in [local.verification] : row if local.verifying],
    [local.function_health],
  )
}
