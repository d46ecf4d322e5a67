locals {
  # The value of the metrics' dimension, which cannot be empty.
  environment = coalesce(var.environment, "default")

  event_sources = concat(["aws.agreement-marketplace"], sort(tolist(var.sandbox_event_sources)))

  common_environment = {
    ENVIRONMENT                  = local.environment
    LOG_LEVEL                    = var.lambda.log_level
    POWERTOOLS_METRICS_NAMESPACE = "AWSMarketplaceMetering"
    SUBSCRIBERS_TABLE            = aws_dynamodb_table.subscribers.name
  }

  descriptions = {
    deprovision-cleanup  = "Ends the licences whose last hour of metering is over"
    subscriber-forwarder = "Forwards changes of subscriptions to the Regions that notify buyers"
    subscription         = "Applies agreement and licence events to the subscribers table"
  }

  timeouts_seconds = {
    deprovision-cleanup  = 120
    subscriber-forwarder = 60
    subscription         = 60
  }

  forward_event_buses_json = jsonencode({ for region, bus in var.forward_event_buses : region => bus.arn })
  forward_event_bus_arns   = [for region in sort(keys(var.forward_event_buses)) : var.forward_event_buses[region].arn]

  functions = {
    subscription = {
      handler    = "awsmp.handlers.subscription.handler"
      scheduled  = false
      statements = local.permissions.subscription

      environment = merge(local.common_environment, {
        EVENT_SOURCES                 = join(",", local.event_sources)
        FORWARD_EVENT_BUSES           = local.forward_event_buses_json
        PARKED_AGREEMENT_EVENTS_TABLE = aws_dynamodb_table.parked_agreement_events.name
        POWERTOOLS_SERVICE_NAME       = "subscription"
        PRODUCT_CODES                 = join(",", sort(tolist(var.product_codes)))
        SELLER_ACCOUNT_ID             = var.seller_account_id == null ? "" : var.seller_account_id
      })

      event_sources = {
        events = { queue_arn = module.queue.arn, batch_size = 10, maximum_concurrency = 2 }
      }
    }

    deprovision-cleanup = {
      handler       = "awsmp.handlers.deprovision_cleanup.handler"
      scheduled     = true
      statements    = local.permissions.deprovision-cleanup
      environment   = merge(local.common_environment, { POWERTOOLS_SERVICE_NAME = "deprovision-cleanup" })
      event_sources = {}
    }
  }

  # Every permission of this module's functions on data, in one place. Logs, queues and streams to read, VPC and KMS are added by the
  # function module.
  permissions = {
    subscription = concat(
      [
        {
          sid       = "Subscribers"
          actions   = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
          resources = [aws_dynamodb_table.subscribers.arn]
        },
        {
          sid     = "SubscribersIndexes"
          actions = ["dynamodb:Query"]
          resources = [
            "${aws_dynamodb_table.subscribers.arn}/index/agreementId-index",
            "${aws_dynamodb_table.subscribers.arn}/index/customerAWSAccountId-index",
          ]
        },
        {
          sid       = "ParkedAgreementEvents"
          actions   = ["dynamodb:Query", "dynamodb:UpdateItem"]
          resources = [aws_dynamodb_table.parked_agreement_events.arn]
        },
      ],
      [for arns in [local.forward_event_bus_arns] : {
        sid       = "ForwardEvents"
        actions   = ["events:PutEvents"]
        resources = arns
        condition = { StringEquals = { "events:source" = "awsmp.agreement-marketplace" } }
      } if local.forwarding],
    )

    subscriber-forwarder = [{
      sid       = "ForwardChanges"
      actions   = ["events:PutEvents"]
      resources = local.forward_event_bus_arns
      condition = { StringEquals = { "events:source" = "awsmp.subscribers" } }
    }]

    deprovision-cleanup = [
      {
        sid       = "Pending"
        actions   = ["dynamodb:Query"]
        resources = ["${aws_dynamodb_table.subscribers.arn}/index/deprovisioning-pending-index"]
      },
      {
        sid       = "Subscribers"
        actions   = ["dynamodb:UpdateItem"]
        resources = [aws_dynamodb_table.subscribers.arn]
      },
    ]
  }
}
