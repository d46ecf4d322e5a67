locals {
  # The value of the metrics' dimension, which cannot be empty.
  environment = coalesce(var.environment, "default")

  descriptions = {
    notification-admin       = "Lists, requeues and purges notices, and clears suppressions, for operators"
    notification-contacts    = "Has the addresses of new contacts verified, and tells when they are"
    notification-feedback    = "Takes bounces and complaints, and suppresses who must not be written to"
    notification-intake      = "Turns changes of subscriptions and billing events into notices"
    notification-maintenance = "Recovers abandoned claims, requeues what failed and purges old feedback"
    notification-sender      = "Sends the notices that are due"
  }

  # A run of the sender ends before its claims go stale, and no send begins that could outlast the run.
  sender_timeout_seconds = max(55, var.send_timeout_seconds + 25)

  timeouts_seconds = {
    notification-admin       = 60
    notification-contacts    = 60
    notification-feedback    = 30
    notification-intake      = 30
    notification-maintenance = 240
    notification-sender      = local.sender_timeout_seconds
  }

  event_sources = {
    notification-admin       = {}
    notification-contacts    = {}
    notification-feedback    = { for arn in module.feedback_queue[*].arn : "feedback" => { queue_arn = arn, batch_size = 10, maximum_concurrency = 2 } }
    notification-intake      = { events = { queue_arn = module.event_queue.arn, batch_size = 10, maximum_concurrency = 2 } }
    notification-maintenance = {}
    notification-sender      = {}
  }

  stream_sources = {
    notification-admin = {}
    notification-contacts = {
      for key, table in var.customer_profile_tables : key => {
        stream_arn = table.stream_arn
        batch_size = 25
        # Half of what the stream keeps: what waits behind a record that is given up still has as long.
        maximum_record_age_seconds = 43200
        maximum_retry_attempts     = -1
        on_failure_queue_arn       = module.contacts_failed.arn
      }
    }
    notification-feedback    = {}
    notification-intake      = {}
    notification-maintenance = {}
    notification-sender      = {}
  }

  # One order for all functions, whatever the keys are.
  profile_tables   = [for key in sort(keys(var.customer_profile_tables)) : var.customer_profile_tables[key]]
  verifying_tables = [for table in local.profile_tables : table if table.verify_url != null]

  profile_tables_json = jsonencode([for table in local.profile_tables : { name = table.name, verifyUrl = table.verify_url }])

  message_context = {
    product   = var.labels.product
    plan      = var.labels.plan
    seller    = var.labels.seller
    support   = var.labels.support
    portalUrl = var.portal_url
  }

  message_contexts = {
    for code, labels in var.product_labels : code => {
      product   = labels.product
      plan      = coalesce(labels.plan, var.labels.plan)
      seller    = coalesce(labels.seller, var.labels.seller)
      support   = coalesce(labels.support, var.labels.support)
      portalUrl = coalesce(labels.portal_url, var.portal_url)
    }
  }

  transport = local.ses ? jsonencode({ type = "ses", configurationSet = local.names.configuration_set }) : jsonencode({
    type                 = "smtp"
    host                 = try(var.transport.smtp.host, "")
    port                 = try(var.transport.smtp.port, 0)
    security             = try(var.transport.smtp.security, "")
    credentialsSecretArn = try(var.smtp_credentials_secret.arn, null)
  })

  common_environment = {
    ENVIRONMENT                  = local.environment
    LOG_LEVEL                    = var.lambda.log_level
    NOTIFICATIONS_TABLE          = aws_dynamodb_table.notifications.name
    POWERTOOLS_METRICS_NAMESPACE = "AWSMarketplaceMetering"
  }

  limits_environment = {
    BATCH_SIZE              = tostring(var.run_batch_size)
    FEEDBACK_RETENTION_DAYS = tostring(var.feedback_retention_days)
    MAX_AGE_DAYS            = tostring(var.notification_max_age_days)
    MAX_ATTEMPTS            = tostring(var.notification_max_attempts)
    SEND_TIMEOUT_SECONDS    = tostring(var.send_timeout_seconds)
    SENDER_TIMEOUT_SECONDS  = tostring(local.sender_timeout_seconds)
    STALE_AFTER_MINUTES     = tostring(var.stale_claim_minutes)
  }

  environments = {
    notification-admin = merge(local.common_environment, local.limits_environment, {
      POWERTOOLS_SERVICE_NAME = "notification-admin"
    })

    notification-contacts = merge(local.common_environment, {
      CUSTOMER_PROFILE_TABLES = local.profile_tables_json
      EVENT_BUS_ARN           = aws_cloudwatch_event_bus.this.arn
      POWERTOOLS_SERVICE_NAME = "notification-contacts"
    })

    notification-feedback = merge(local.common_environment, {
      FEEDBACK_TOPIC_ARN      = join("", aws_sns_topic.feedback[*].arn)
      POWERTOOLS_SERVICE_NAME = "notification-feedback"
    })

    notification-intake = merge(local.common_environment, {
      CUSTOMER_PROFILE_TABLES  = local.profile_tables_json
      POWERTOOLS_SERVICE_NAME  = "notification-intake"
      SUBSCRIBERS_TABLE        = var.subscribers_table.name
      SUBSCRIBERS_TABLE_REGION = var.subscribers_table.region
    })

    notification-maintenance = merge(local.common_environment, local.limits_environment, {
      POWERTOOLS_SERVICE_NAME = "notification-maintenance"
    })

    notification-sender = merge(local.common_environment, local.limits_environment, {
      CUSTOMER_PROFILE_TABLES     = local.profile_tables_json
      MESSAGE_CONTEXT             = jsonencode(local.message_context)
      MESSAGE_CONTEXTS            = jsonencode(local.message_contexts)
      PEPPER_SECRET_ARN           = var.pepper_secret.arn
      POWERTOOLS_SERVICE_NAME     = "notification-sender"
      SENDER                      = var.sender
      TRANSPORT                   = local.transport
      VERIFICATION_LIFETIME_HOURS = tostring(var.verification_lifetime_hours)
      VERIFICATION_SECRET_ARN     = try(var.verification_secret.arn, "")
    })
  }
}

# Lambda refuses an environment of more than 4 KB, which the sender's is nearest to.
resource "terraform_data" "environment_limits" {
  lifecycle {
    precondition {
      condition     = local.sender_environment_bytes <= local.sender_environment_limit
      error_message = "labels, product_labels, customer_profile_tables, sender and transport do not fit into the sender's environment, which AWS limits to 4 KB: they take ${local.sender_environment_bytes} bytes of ${local.sender_environment_limit}. Shorten labels, or leave to labels and portal_url what is alike for all products."
    }
  }
}

locals {
  # UTF-8 bytes, at most two too many: Terraform's length() counts characters, Lambda's 4 KB are bytes. What the limit leaves is for
  # names of variables, limits and the two secrets' ARNs.
  sender_environment_bytes = floor(length(base64encode(join("", [
    local.profile_tables_json, jsonencode(local.message_context), jsonencode(local.message_contexts), var.sender, local.transport,
  ]))) * 3 / 4)
  sender_environment_limit = 2900
}
