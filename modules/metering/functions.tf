locals {
  # The value of the metrics' dimension, which cannot be empty.
  environment = coalesce(var.environment, "default")

  marketplace_region = var.marketplace_region == null ? local.region.id : var.marketplace_region

  descriptions = {
    aggregator = "Adds the raw rows of an hour up into one record"
    cleanup    = "Clears raw rows that have been added up"
    discoverer = "Finds hours with pending usage"
    expiry     = "Closes records that can no longer be billed"
    submitter  = "Sends records to AWS Marketplace"
  }

  # The scheduled ones stay below their five minutes, so that a run has ended, or was cut off, when the next begins.
  timeouts_seconds = {
    aggregator = var.aggregator.timeout_seconds
    cleanup    = var.cleanup.timeout_seconds
    discoverer = 280
    expiry     = 280
    submitter  = 280
  }

  memory_mib = {
    aggregator = 512
    cleanup    = 512
    discoverer = 512
    expiry     = 512
    submitter  = 1024
  }

  # Each queue is named: a reference to all of them waits for their policies as well, which the provider takes half a
  # minute to see, and no function needs.
  queue_arns = {
    for key, arn in {
      cleanup          = try(module.queue["cleanup"].arn, "")
      deprovision-work = try(module.queue["deprovision-work"].arn, "")
      work             = try(module.queue["work"].arn, "")
    } : key => arn if local.full
  }

  event_sources = {
    aggregator = {
      for key in local.full ? ["deprovision-work", "work"] : [] : key => {
        queue_arn           = local.queue_arns[key]
        batch_size          = var.aggregator.batch_size
        maximum_concurrency = var.aggregator.maximum_concurrency
      }
    }
    cleanup = {
      for key in local.full ? ["cleanup"] : [] : key => {
        queue_arn           = local.queue_arns[key]
        batch_size          = var.cleanup.batch_size
        maximum_concurrency = var.cleanup.maximum_concurrency
      }
    }
    discoverer = {}
    expiry     = {}
    submitter  = {}
  }

  # Every setting that any function may read, in one place.
  environment_values = {
    AGGREGATED_USAGE_TABLE        = aws_dynamodb_table.aggregated_usage.name
    AGGREGATED_USAGE_TTL_DAYS     = tostring(var.aggregated_usage_table_ttl_days)
    BILLABLE_WINDOW_HOURS         = tostring(var.billable_window_hours)
    CLEANUP_QUEUE_URL             = try(module.queue["cleanup"].url, "")
    DEPROVISION_WORK_QUEUE_URL    = try(module.queue["deprovision-work"].url, "")
    LEGACY_PRODUCT_CODE           = var.legacy_product == null ? "" : var.legacy_product.product_code
    MARKETPLACE_REGION            = local.marketplace_region
    METERING_LOCK_HOURS           = tostring(var.metering_lock_hours)
    METERING_MODE                 = var.metering_mode
    QUANTITY_TYPE                 = var.quantity_type
    SENDER_TIMEOUT_SECONDS        = tostring(local.timeouts_seconds.submitter + 20)
    SUBMITTER_MAX_RECORDS         = tostring(var.submitter.max_records)
    SUBMITTER_REQUESTS_PER_SECOND = tostring(var.submitter.requests_per_second)
    SUBSCRIBERS_TABLE             = var.subscribers_table.name
    SUBSCRIBERS_TABLE_REGION      = var.subscribers_table.region
    TEST_ACCOUNT_ALLOWLIST        = join(",", sort(tolist(var.test_account_allowlist)))
    USAGE_TABLE                   = aws_dynamodb_table.usage.name
    WORK_QUEUE_URL                = try(module.queue["work"].url, "")
  }

  # What each function reads beside the settings that all of them have.
  environment_keys = {
    aggregator = [
      "AGGREGATED_USAGE_TABLE",
      "BILLABLE_WINDOW_HOURS",
      "CLEANUP_QUEUE_URL",
      "LEGACY_PRODUCT_CODE",
      "METERING_LOCK_HOURS",
      "QUANTITY_TYPE",
      "USAGE_TABLE",
    ]
    cleanup = ["AGGREGATED_USAGE_TABLE", "USAGE_TABLE", "WORK_QUEUE_URL"]
    discoverer = [
      "AGGREGATED_USAGE_TABLE",
      "BILLABLE_WINDOW_HOURS",
      "DEPROVISION_WORK_QUEUE_URL",
      "LEGACY_PRODUCT_CODE",
      "METERING_LOCK_HOURS",
      "QUANTITY_TYPE",
      "SUBSCRIBERS_TABLE",
      "SUBSCRIBERS_TABLE_REGION",
      "USAGE_TABLE",
      "WORK_QUEUE_URL",
    ]
    expiry = [
      "AGGREGATED_USAGE_TABLE",
      "BILLABLE_WINDOW_HOURS",
      "LEGACY_PRODUCT_CODE",
      "METERING_LOCK_HOURS",
      "QUANTITY_TYPE",
    ]
    submitter = concat(
      [
        "AGGREGATED_USAGE_TABLE",
        "AGGREGATED_USAGE_TTL_DAYS",
        "BILLABLE_WINDOW_HOURS",
        "LEGACY_PRODUCT_CODE",
        "MARKETPLACE_REGION",
        "METERING_LOCK_HOURS",
        "METERING_MODE",
        "QUANTITY_TYPE",
        "SENDER_TIMEOUT_SECONDS",
        "SUBMITTER_MAX_RECORDS",
        "SUBMITTER_REQUESTS_PER_SECOND",
        "SUBSCRIBERS_TABLE",
        "SUBSCRIBERS_TABLE_REGION",
        "TEST_ACCOUNT_ALLOWLIST",
      ],
      # Without a queue the submitter knows that its records come from the seller.
      local.full ? ["WORK_QUEUE_URL"] : [],
    )
  }

  environments = {
    for function in local.function_keys : function => merge(
      {
        ENVIRONMENT                  = local.environment
        LOG_LEVEL                    = var.lambda.log_level
        POWERTOOLS_METRICS_NAMESPACE = "AWSMarketplaceMetering"
        POWERTOOLS_SERVICE_NAME      = function
        PRODUCT_CODE                 = var.product_code
      },
      { for key in local.environment_keys[function] : key => local.environment_values[key] },
    )
  }
}
