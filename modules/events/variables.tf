variable "forward_event_buses" {
  description = "Event buses that receive the changes of subscriptions and the cancellation-request events, by Region (`us-east-1` included): the output `event_bus` of the notifications module in each Region where it runs. Without any, nothing is forwarded."
  type        = map(object({ arn = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for region in keys(var.forward_event_buses) : can(regex("^[a-z]+(-[a-z]+)+-[0-9]+$", region))])
    error_message = "The keys of forward_event_buses are Region ids, such as eu-west-1; got ${join(", ", keys(var.forward_event_buses))}."
  }

  validation {
    condition = alltrue([
      for region, bus in var.forward_event_buses : can(regex("^arn:[a-z-]+:events:${region}:[0-9]{12}:event-bus/.+$", bus.arn))
    ])
    error_message = "A forward event bus is given by its ARN, in the Region that is its key, such as eu-west-1 = { arn = \"arn:aws:events:eu-west-1:111122223333:event-bus/name\" }; got ${jsonencode({ for region, bus in var.forward_event_buses : region => bus.arn })}."
  }

  validation {
    condition     = length(jsonencode({ for region, bus in var.forward_event_buses : region => bus.arn })) <= 1500
    error_message = "forward_event_buses take at most 1500 characters of a function's environment, which AWS limits to 4 KB; ${length(var.forward_event_buses)} buses take ${length(jsonencode({ for region, bus in var.forward_event_buses : region => bus.arn }))}."
  }
}

variable "product_codes" {
  description = "Product codes whose licences are followed; empty follows every product of the seller."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for code in var.product_codes : can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", code))])
    error_message = "A product code is 1 to 64 letters, digits, hyphens and underscores; got ${join(", ", var.product_codes)}."
  }

  validation {
    condition     = length(join(",", var.product_codes)) <= 1500
    error_message = "product_codes take at most 1500 characters of a function's environment, which AWS limits to 4 KB; ${length(var.product_codes)} codes take ${length(join(",", var.product_codes))}. Leave it empty to follow every product."
  }
}

variable "sandbox_event_sources" {
  description = "Event sources that are treated like `aws.agreement-marketplace`, so that a sandbox can send lifecycle events (AWS refuses `aws.*` from callers). Whoever may put events on the default bus could then forge a subscription, so leave it empty in production."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for source in var.sandbox_event_sources : can(regex("^[A-Za-z0-9._-]{1,256}$", source)) && !startswith(source, "aws.")])
    error_message = "A sandbox event source is letters, digits, dots, hyphens and underscores, and does not begin with aws.; got ${join(", ", var.sandbox_event_sources)}."
  }

  validation {
    condition     = length(var.sandbox_event_sources) == 0 || var.environment != null
    error_message = "sandbox_event_sources needs an environment (such as \"sandbox\"): a production deployment takes events from AWS Marketplace only. Got ${join(", ", var.sandbox_event_sources)} with environment = null."
  }

  validation {
    condition     = length(join(",", var.sandbox_event_sources)) <= 1000
    error_message = "sandbox_event_sources take at most 1000 characters, because an event pattern has 2048; got ${length(join(",", var.sandbox_event_sources))}."
  }
}

variable "seller_account_id" {
  description = "AWS account of the seller: events of other accounts are then refused. Null accepts what the default bus delivers."
  type        = string
  default     = null

  validation {
    condition     = var.seller_account_id == null ? true : can(regex("^[0-9]{12}$", var.seller_account_id))
    error_message = "seller_account_id is twelve digits; got \"${coalesce(var.seller_account_id, "null")}\"."
  }
}
