variable "metering_mode" {
  description = "`live` sends to AWS Marketplace, which charges buyers. `dry-run` does everything but the call. There is no default, so that nobody bills, or fails to bill, by omission."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["live", "dry-run"], var.metering_mode)
    error_message = "metering_mode is \"live\" or \"dry-run\"; got \"${var.metering_mode}\"."
  }
}

variable "product_code" {
  description = "Product code of the SaaS product; it is part of every name."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", var.product_code))
    error_message = "product_code is 1 to 64 letters, digits, hyphens and underscores; got \"${var.product_code}\"."
  }
}

variable "subscribers_table" {
  description = "The output `subscribers_table` of the events module."
  type = object({
    arn         = string
    name        = string
    region      = string
    kms_key_arn = optional(string)
  })
  nullable = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[A-Za-z0-9_.-]+$", var.subscribers_table.arn))
    error_message = "subscribers_table.arn is the ARN of a DynamoDB table; got \"${var.subscribers_table.arn}\"."
  }

  validation {
    condition     = endswith(var.subscribers_table.arn, ":table/${var.subscribers_table.name}") && split(":", "${var.subscribers_table.arn}::::")[3] == var.subscribers_table.region
    error_message = "subscribers_table.name and .region are those of its ARN; got ${var.subscribers_table.name} in ${var.subscribers_table.region} with ${var.subscribers_table.arn}."
  }
}

variable "aggregated_usage_table_ttl_days" {
  description = "Days after its billing outcome that a billed record is kept; 0 keeps all of them. Only records with status Success ever expire."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.aggregated_usage_table_ttl_days == 0 || (var.aggregated_usage_table_ttl_days >= 10 && floor(var.aggregated_usage_table_ttl_days) == var.aggregated_usage_table_ttl_days)
    error_message = "aggregated_usage_table_ttl_days is 0 (off) or a whole number of at least 10 days; got ${var.aggregated_usage_table_ttl_days}."
  }
}

variable "aggregator" {
  description = "The aggregator: `timeout_seconds` of one run, `batch_size` (groups a run), and `maximum_concurrency` of each of its two queues."
  type = object({
    timeout_seconds     = optional(number, 120)
    batch_size          = optional(number, 10)
    maximum_concurrency = optional(number, 5)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.aggregator.timeout_seconds >= 30 && var.aggregator.timeout_seconds <= 300 && floor(var.aggregator.timeout_seconds) == var.aggregator.timeout_seconds
    error_message = "aggregator.timeout_seconds is a whole number from 30 to 300 (a message is hidden for six times as long, and the last hour of a licence is one hour); got ${var.aggregator.timeout_seconds}."
  }

  validation {
    condition     = var.aggregator.batch_size >= 1 && var.aggregator.batch_size <= 10 && floor(var.aggregator.batch_size) == var.aggregator.batch_size
    error_message = "aggregator.batch_size is a whole number from 1 to 10; got ${var.aggregator.batch_size}."
  }

  validation {
    condition     = var.aggregator.maximum_concurrency >= 2 && var.aggregator.maximum_concurrency <= 1000 && floor(var.aggregator.maximum_concurrency) == var.aggregator.maximum_concurrency
    error_message = "aggregator.maximum_concurrency is a whole number from 2 (Lambda's least for SQS) to 1000; got ${var.aggregator.maximum_concurrency}."
  }

  validation {
    condition     = lookup(var.reserved_concurrency, "aggregator", null) == null ? true : var.reserved_concurrency["aggregator"] >= 2 * var.aggregator.maximum_concurrency
    error_message = "reserved_concurrency[\"aggregator\"] must hold both queues at their maximum_concurrency, else throttled messages end in the DLQ: at least ${2 * var.aggregator.maximum_concurrency}, got ${coalesce(lookup(var.reserved_concurrency, "aggregator", null), 0)}."
  }
}

variable "billable_window_hours" {
  description = "Age, in hours, from which AWS Marketplace refuses a usage record."
  type        = number
  default     = 24
  nullable    = false

  validation {
    condition     = var.billable_window_hours >= 2 && var.billable_window_hours <= 24 && floor(var.billable_window_hours) == var.billable_window_hours
    error_message = "billable_window_hours is a whole number from 2 to 24 (AWS accepts nothing older than 24 hours); got ${var.billable_window_hours}."
  }
}

variable "cleanup" {
  description = "The cleanup function: `timeout_seconds`, `batch_size` (messages a run) and `maximum_concurrency`: runs that may write to one licence's partition at once, which takes about 1,000 writes a second."
  type = object({
    timeout_seconds     = optional(number, 60)
    batch_size          = optional(number, 10)
    maximum_concurrency = optional(number, 2)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.cleanup.timeout_seconds >= 15 && var.cleanup.timeout_seconds <= 900 && floor(var.cleanup.timeout_seconds) == var.cleanup.timeout_seconds
    error_message = "cleanup.timeout_seconds is a whole number from 15 to 900; got ${var.cleanup.timeout_seconds}."
  }

  validation {
    condition     = var.cleanup.batch_size >= 1 && var.cleanup.batch_size <= 10 && floor(var.cleanup.batch_size) == var.cleanup.batch_size
    error_message = "cleanup.batch_size is a whole number from 1 to 10; got ${var.cleanup.batch_size}."
  }

  validation {
    condition     = var.cleanup.maximum_concurrency >= 2 && var.cleanup.maximum_concurrency <= 20 && floor(var.cleanup.maximum_concurrency) == var.cleanup.maximum_concurrency
    error_message = "cleanup.maximum_concurrency is a whole number from 2 (Lambda's least for SQS) to 20 (more only throttles itself); got ${var.cleanup.maximum_concurrency}."
  }

  validation {
    condition     = lookup(var.reserved_concurrency, "cleanup", null) == null ? true : var.reserved_concurrency["cleanup"] >= var.cleanup.maximum_concurrency
    error_message = "reserved_concurrency[\"cleanup\"] must be at least cleanup.maximum_concurrency, else throttled messages end in the DLQ: at least ${var.cleanup.maximum_concurrency}, got ${coalesce(lookup(var.reserved_concurrency, "cleanup", null), 0)}."
  }
}

variable "deployment_mode" {
  description = "`full`: you write raw rows to the usage table and the pipeline adds them up by the hour. `direct-submit`: you write finished hourly records to the aggregated-usage table. Both tables exist in both modes, so that switching destroys nothing."
  type        = string
  default     = "full"
  nullable    = false

  validation {
    condition     = contains(["full", "direct-submit"], var.deployment_mode)
    error_message = "deployment_mode is \"full\" or \"direct-submit\"; got \"${var.deployment_mode}\"."
  }
}

variable "legacy_product" {
  description = "For a product that also has subscriptions from before Concurrent Agreements: the product code that their records are sent with. Null: every record carries a licence ARN."
  type        = object({ product_code = string })
  default     = null

  validation {
    condition     = var.legacy_product == null ? true : can(regex("^[-a-zA-Z0-9/=:_.@]{1,255}$", var.legacy_product.product_code))
    error_message = "legacy_product.product_code is 1 to 255 characters of a-z, A-Z, 0-9 and - / = : _ . @; got \"${try(var.legacy_product.product_code, "null")}\"."
  }
}

variable "marketplace_region" {
  description = "Region whose metering endpoint is called; null for the module's own. AWS de-duplicates usage per Region: never change it while usage is pending."
  type        = string
  default     = null

  validation {
    condition     = var.marketplace_region == null ? true : can(regex("^[a-z]+(-[a-z]+)+-[0-9]+$", var.marketplace_region))
    error_message = "marketplace_region is a Region id, such as us-east-1; got \"${coalesce(var.marketplace_region, "null")}\"."
  }
}

variable "metering_lock_hours" {
  description = "Complete hours that must pass before an hour of usage is added up, so that late rows still join it."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.metering_lock_hours >= 1 && var.metering_lock_hours <= 20 && floor(var.metering_lock_hours) == var.metering_lock_hours
    error_message = "metering_lock_hours is a whole number from 1 to 20; got ${var.metering_lock_hours}."
  }

  validation {
    condition     = var.metering_lock_hours < var.billable_window_hours
    error_message = "metering_lock_hours must be below billable_window_hours (${var.billable_window_hours}), else no hour could ever be billed; got ${var.metering_lock_hours}."
  }
}

variable "quantity_type" {
  description = "`integer` sends whole quantities; `decimal` sends up to six decimals (QuantityAsDecimal)."
  type        = string
  default     = "integer"
  nullable    = false

  validation {
    condition     = contains(["integer", "decimal"], var.quantity_type)
    error_message = "quantity_type is \"integer\" or \"decimal\"; got \"${var.quantity_type}\"."
  }
}

variable "submitter" {
  description = "The submitter: `max_records` a run, and `requests_per_second` (AWS allows an account 10 BatchMeterUsage requests a second and Region, which all your products share)."
  type = object({
    max_records         = optional(number, 20000)
    requests_per_second = optional(number, 5)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.submitter.max_records >= 25 && var.submitter.max_records <= 100000 && floor(var.submitter.max_records) == var.submitter.max_records
    error_message = "submitter.max_records is a whole number from 25 (one request) to 100000; got ${var.submitter.max_records}."
  }

  validation {
    condition     = var.submitter.requests_per_second > 0 && var.submitter.requests_per_second <= 10
    error_message = "submitter.requests_per_second is above 0 and at most 10 (the quota of an account and Region); got ${var.submitter.requests_per_second}."
  }
}

variable "test_account_allowlist" {
  description = "Buyer accounts that a dry run may report as submitted; usage of other accounts is surfaced as not billed."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for account in var.test_account_allowlist : can(regex("^[0-9]{12}$", account))])
    error_message = "An account id is twelve digits; got ${join(", ", var.test_account_allowlist)}."
  }

  validation {
    condition     = length(join(",", var.test_account_allowlist)) <= 2048
    error_message = "At most 157 accounts fit in a function's environment; got ${length(var.test_account_allowlist)}."
  }
}

variable "usage_table_ttl_days" {
  description = "Days that raw rows are kept: the writer sets each row's `ttl` from it. 0 switches expiry off."
  type        = number
  default     = 365
  nullable    = false

  validation {
    condition     = var.usage_table_ttl_days == 0 || (var.usage_table_ttl_days >= 10 && floor(var.usage_table_ttl_days) == var.usage_table_ttl_days)
    error_message = "usage_table_ttl_days is 0 (off) or a whole number of at least 10 days (a row must outlive the billing window and the week in which it is still swept); got ${var.usage_table_ttl_days}."
  }
}

variable "writer_principal_arns" {
  description = "IAM principals of other accounts that may write usage (to the usage table, or in direct-submit mode to the aggregated-usage table); principals of this account take the output `usage_writer_policy_json` instead. With a KMS key, its policy must allow them as well."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.writer_principal_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(root|role/.+|user/.+)$", arn))])
    error_message = "A writer is the ARN of a role, a user or an account's root, such as arn:aws:iam::444455556666:role/usage-writer; got ${join(", ", var.writer_principal_arns)}."
  }

  validation {
    condition     = length(jsonencode(var.writer_principal_arns)) <= 18000
    error_message = "writer_principal_arns take at most 18000 characters, because a table's policy has 20 KB: give an account's root instead of its roles; got ${length(jsonencode(var.writer_principal_arns))}."
  }
}
