variable "customer_profile_tables" {
  description = "Where the recipients are: the output `customer_profile_table` of each registration deployment of this Region, under a key of your choice, such as the product code. With a `verify_url` (the registration module has `address_verification`) new addresses are verified by a mailed link; without, you verify them yourself."
  type = map(object({
    arn         = string
    name        = string
    region      = string
    stream_arn  = string
    kms_key_arn = optional(string)
    verify_url  = optional(string)
  }))
  nullable = false

  validation {
    condition     = length(var.customer_profile_tables) > 0 && alltrue([for key in keys(var.customer_profile_tables) : can(regex("^[A-Za-z0-9_-]{1,64}$", key))])
    error_message = "customer_profile_tables has at least one table, under keys of 1 to 64 letters, digits, hyphens and underscores; got the keys ${jsonencode(keys(var.customer_profile_tables))}."
  }

  validation {
    condition = alltrue([
      for table in values(var.customer_profile_tables) :
      can(regex("^arn:[a-z-]+:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[A-Za-z0-9_.-]+$", table.arn)) && endswith(table.arn, ":table/${table.name}") && startswith(table.stream_arn, "${table.arn}/stream/")
    ])
    error_message = "Each of customer_profile_tables has the ARN of a DynamoDB table, its name and the ARN of its stream; got ${jsonencode([for table in values(var.customer_profile_tables) : [table.arn, table.name, table.stream_arn]])}."
  }

  validation {
    condition     = alltrue([for table in values(var.customer_profile_tables) : table.region == data.aws_region.current.id && split(":", "${table.arn}::::")[3] == table.region])
    error_message = "Mail is sent where the buyers' data is: customer_profile_tables are in the module's own Region (${data.aws_region.current.id}); got ${jsonencode([for table in values(var.customer_profile_tables) : table.arn])}. Deploy this module in the other Regions too."
  }

  validation {
    condition     = alltrue([for table in values(var.customer_profile_tables) : table.verify_url == null ? true : can(regex("^https://[a-z0-9.-]+(:[0-9]+)?/([!-\"$-~]*/)?verify$", table.verify_url))])
    error_message = "A verify_url is the registration module's output of that name, such as https://buy.example.com/verify; got ${jsonencode([for table in values(var.customer_profile_tables) : table.verify_url])}."
  }
}

variable "labels" {
  description = "What every message is about, for products that are not in `product_labels`: the `product`, its `plan`, the `seller`, and `support` (an address or a URL)."
  type        = object({ product = string, plan = string, seller = string, support = string })
  nullable    = false

  validation {
    condition     = alltrue([for text in [var.labels.product, var.labels.plan, var.labels.seller] : can(regex("^[^\\x00-\\x1f\\x7f]{1,80}$", text)) && length(trimspace(text)) > 0 && !strcontains(text, "=?")])
    error_message = "labels.product, plan and seller are 1 to 80 characters on one line, without =?; got ${jsonencode(var.labels)}."
  }

  validation {
    condition     = can(regex("^[^\\x00-\\x1f\\x7f]+$", var.labels.support)) && length(trimspace(var.labels.support)) > 0 && length(var.labels.support) <= 1024 && !strcontains(var.labels.support, "=?")
    error_message = "labels.support has 1 to 1024 characters on one line, without =?; got ${jsonencode(var.labels.support)}."
  }
}

variable "pepper_secret" {
  description = "Secret in Secrets Manager with the pepper that addresses are digested with, `{\"pepper\": \"<base64 of at least 32 random bytes>\"}`; `kms_key_arn` when it has a key of yours. Never change it: suppressions are found by it."
  type        = object({ arn = string, kms_key_arn = optional(string) })
  nullable    = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.pepper_secret.arn))
    error_message = "pepper_secret.arn is the ARN of a secret, such as arn:aws:secretsmanager:eu-west-1:111122223333:secret:pepper-AbCdEf; got ${var.pepper_secret.arn}."
  }

  validation {
    condition     = var.pepper_secret.kms_key_arn == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.pepper_secret.kms_key_arn))
    error_message = "pepper_secret.kms_key_arn is the ARN of a key (not of an alias); got ${coalesce(var.pepper_secret.kms_key_arn, "null")}."
  }
}

variable "portal_url" {
  description = "Where a buyer manages the subscription: your portal, over https, without credentials or a fragment. Every message names it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^https://[A-Za-z0-9.-]+(:[0-9]+)?(/[!$-;=?-\\[\\]_a-z~]*)?$", var.portal_url)) && length(var.portal_url) <= 1024
    error_message = "portal_url is an https address of at most 1024 characters, without credentials or a fragment; got \"${var.portal_url}\"."
  }
}

variable "sender" {
  description = "Address that the messages come from, of the identity that `transport` sends as."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", var.sender)) && length(var.sender) <= 254
    error_message = "sender is a plain e-mail address, its domain in lowercase, such as billing@example.com; got \"${var.sender}\"."
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

variable "transport" {
  description = "What sends the mail. `type = \"ses\"` with `ses`: the ARN of the verified identity (address or domain) in the module's Region, and `require_tls` (default true: SES then delivers over TLS or not at all). `type = \"smtp\"` with `smtp`: `host`, `port` and `security` (`implicit` or `starttls`; certificates are verified); the login is `smtp_credentials_secret`."
  type = object({
    type = string
    ses  = optional(object({ identity_arn = string, require_tls = optional(bool, true) }))
    smtp = optional(object({
      host     = string
      port     = number
      security = string
    }))
  })
  nullable = false

  validation {
    condition     = contains(["ses", "smtp"], var.transport.type)
    error_message = "transport.type is \"ses\" or \"smtp\"; got \"${var.transport.type}\"."
  }

  validation {
    condition     = contains(["ses", "smtp"], var.transport.type) ? (var.transport.type == "ses") == (var.transport.ses != null) && (var.transport.type == "smtp") == (var.transport.smtp != null) : true
    error_message = "transport has the part that its type names, and only that; got type = \"${var.transport.type}\" with ${var.transport.ses == null ? "" : "ses "}${var.transport.smtp == null ? "" : "smtp "}${var.transport.ses == null && var.transport.smtp == null ? "neither" : ""}."
  }

  validation {
    condition     = var.transport.ses == null ? true : can(regex("^arn:[a-z-]+:ses:${data.aws_region.current.id}:[0-9]{12}:identity/.+$", var.transport.ses.identity_arn))
    error_message = "transport.ses.identity_arn is the ARN of an SES identity in the module's Region (${data.aws_region.current.id}), such as arn:aws:ses:${data.aws_region.current.id}:111122223333:identity/example.com; got ${try(var.transport.ses.identity_arn, "null")}."
  }

  validation {
    condition     = var.transport.smtp == null ? true : can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.transport.smtp.host)) && length(var.transport.smtp.host) <= 253
    error_message = "transport.smtp.host is a host name in lowercase, such as smtp.example.com; got \"${try(var.transport.smtp.host, "null")}\"."
  }

  validation {
    condition     = var.transport.smtp == null ? true : var.transport.smtp.port >= 1 && var.transport.smtp.port <= 65535 && floor(var.transport.smtp.port) == var.transport.smtp.port && var.transport.smtp.port != 25
    error_message = "transport.smtp.port is a whole number from 1 to 65535, and not 25, which Lambda cannot reach; got ${try(var.transport.smtp.port, "null")}."
  }

  validation {
    condition     = var.transport.smtp == null ? true : contains(["implicit", "starttls"], var.transport.smtp.security)
    error_message = "transport.smtp.security is \"implicit\" (TLS from the first byte, often port 465) or \"starttls\" (often port 587); got \"${try(var.transport.smtp.security, "null")}\"."
  }
}

variable "billing_event_principal_arns" {
  description = "Roles or accounts in other accounts that may send the seller's billing events: to the queue, and to the bus under a source of their own. In this account the output `billing_event_writer_policy_json` is enough."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.billing_event_principal_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(root|role/.+|user/.+)$", arn))])
    error_message = "A principal is given by its ARN, such as arn:aws:iam::444455556666:role/billing or arn:aws:iam::444455556666:root; got ${join(", ", var.billing_event_principal_arns)}."
  }
}

variable "event_forwarder_principal_arns" {
  description = "Roles or accounts in other accounts that may put the forwarded changes on the bus: only where the events module runs in another account than this one. In one account, whatever the Regions, none is needed."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.event_forwarder_principal_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(root|role/.+)$", arn))])
    error_message = "A principal is given by its ARN, such as arn:aws:iam::444455556666:role/awsmp-subscriber-forwarder-use1; got ${join(", ", var.event_forwarder_principal_arns)}."
  }
}

variable "feedback_retention_days" {
  description = "How long reports of bounces and complaints are kept, in days. Suppressions outlive them."
  type        = number
  default     = 365
  nullable    = false

  validation {
    condition     = var.feedback_retention_days >= 1 && var.feedback_retention_days <= 3650 && floor(var.feedback_retention_days) == var.feedback_retention_days
    error_message = "feedback_retention_days is a whole number from 1 to 3650; got ${var.feedback_retention_days}."
  }
}

variable "notification_max_age_days" {
  description = "Age of an event, in days, from which its notice is no longer sent."
  type        = number
  default     = 7
  nullable    = false

  validation {
    condition     = var.notification_max_age_days >= 1 && var.notification_max_age_days <= 30 && floor(var.notification_max_age_days) == var.notification_max_age_days
    error_message = "notification_max_age_days is a whole number from 1 to 30; got ${var.notification_max_age_days}."
  }
}

variable "notification_max_attempts" {
  description = "How often a notice is tried before it is left to an operator."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.notification_max_attempts >= 1 && var.notification_max_attempts <= 100 && floor(var.notification_max_attempts) == var.notification_max_attempts
    error_message = "notification_max_attempts is a whole number from 1 to 100; got ${var.notification_max_attempts}."
  }
}

variable "product_labels" {
  description = "What messages about a product say, by product code, where it is not what `labels` and `portal_url` say: `product`, and optionally `plan`, `seller`, `support` and `portal_url`."
  type = map(object({
    product    = string
    plan       = optional(string)
    seller     = optional(string)
    support    = optional(string)
    portal_url = optional(string)
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for code in keys(var.product_labels) : can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", code))])
    error_message = "The keys of product_labels are product codes: 1 to 64 letters, digits, hyphens and underscores; got ${join(", ", keys(var.product_labels))}."
  }

  validation {
    condition = alltrue(flatten([
      for labels in values(var.product_labels) : [
        for text in [labels.product, labels.plan, labels.seller] : text == null ? true : can(regex("^[^\\x00-\\x1f\\x7f]{1,80}$", text)) && length(trimspace(text)) > 0 && !strcontains(text, "=?")
      ]
    ]))
    error_message = "product, plan and seller of product_labels are 1 to 80 characters on one line, without =?; got ${jsonencode(var.product_labels)}."
  }

  validation {
    condition     = alltrue([for labels in values(var.product_labels) : labels.support == null ? true : can(regex("^[^\\x00-\\x1f\\x7f]+$", labels.support)) && length(trimspace(labels.support)) > 0 && length(labels.support) <= 1024 && !strcontains(labels.support, "=?")])
    error_message = "support of product_labels has 1 to 1024 characters on one line, without =?; got ${jsonencode({ for code, labels in var.product_labels : code => labels.support })}."
  }

  validation {
    condition     = alltrue([for labels in values(var.product_labels) : labels.portal_url == null ? true : can(regex("^https://[A-Za-z0-9.-]+(:[0-9]+)?(/[!$-;=?-\\[\\]_a-z~]*)?$", labels.portal_url)) && length(labels.portal_url) <= 1024])
    error_message = "portal_url of product_labels is an https address of at most 1024 characters, without credentials or a fragment; got ${jsonencode({ for code, labels in var.product_labels : code => labels.portal_url })}."
  }
}

variable "run_batch_size" {
  description = "Most notices, suppressions or reports that one run handles."
  type        = number
  default     = 100
  nullable    = false

  validation {
    condition     = var.run_batch_size >= 1 && var.run_batch_size <= 1000 && floor(var.run_batch_size) == var.run_batch_size
    error_message = "run_batch_size is a whole number from 1 to 1000; got ${var.run_batch_size}."
  }
}

variable "send_timeout_seconds" {
  description = "How long one message may take to be handed over, in seconds; SES may need 26. The sender's own time-out follows from it."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.send_timeout_seconds >= 6 && var.send_timeout_seconds <= 120 && floor(var.send_timeout_seconds) == var.send_timeout_seconds
    error_message = "send_timeout_seconds is a whole number from 6 to 120; got ${var.send_timeout_seconds}."
  }

  validation {
    condition     = var.transport.type != "ses" || var.send_timeout_seconds >= 26
    error_message = "With transport.type = \"${var.transport.type}\", send_timeout_seconds is at least 26: the SDK waits 25 seconds for SES. Got ${var.send_timeout_seconds}."
  }
}

variable "smtp_credentials_secret" {
  description = "Secret in Secrets Manager with the login of the mail server, `{\"username\": ..., \"password\": ...}` (and its `kms_key_arn`, when it has a key of yours). Only with `transport.type = \"smtp\"`; null sends without a login. It is no part of `transport`, so that it may be encrypted with `kms_key`."
  type        = object({ arn = string, kms_key_arn = optional(string) })
  default     = null

  validation {
    condition     = var.smtp_credentials_secret == null ? true : can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.smtp_credentials_secret.arn))
    error_message = "smtp_credentials_secret.arn is the ARN of a secret, such as arn:aws:secretsmanager:eu-west-1:111122223333:secret:smtp-AbCdEf; got ${try(var.smtp_credentials_secret.arn, "null")}."
  }

  validation {
    condition     = var.smtp_credentials_secret == null || var.transport.type != "ses"
    error_message = "smtp_credentials_secret is for transport.type = \"smtp\"; got ${try(var.smtp_credentials_secret.arn, "null")} with transport.type = \"${var.transport.type}\"."
  }
}

variable "stale_claim_minutes" {
  description = "How long a run's claim of a notice stands before it is taken for abandoned, in minutes. It outlasts the sender's time-out, or two runs could send one message."
  type        = number
  default     = 15
  nullable    = false

  validation {
    condition     = var.stale_claim_minutes >= 1 && var.stale_claim_minutes <= 1440 && floor(var.stale_claim_minutes) == var.stale_claim_minutes
    error_message = "stale_claim_minutes is a whole number from 1 to 1440; got ${var.stale_claim_minutes}."
  }

  validation {
    condition     = 60 * var.stale_claim_minutes > max(55, var.send_timeout_seconds + 25)
    error_message = "stale_claim_minutes outlasts the sender's time-out, which is ${max(55, var.send_timeout_seconds + 25)} seconds with send_timeout_seconds = ${var.send_timeout_seconds}; got ${60 * var.stale_claim_minutes} seconds."
  }
}

variable "template_details" {
  description = "The sentence of each message that says what is affected and where to manage it, by locale, instead of the built-in one. It holds {product}, {plan} and {portal_url}."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for locale in keys(var.template_details) : can(regex("^[a-z]{2,8}(-[a-z0-9]{1,8}){0,7}$", locale))])
    error_message = "The keys of template_details are locales in lowercase, such as en or pt-br; got ${join(", ", keys(var.template_details))}."
  }

  validation {
    condition = alltrue([
      for text in values(var.template_details) :
      alltrue([for name in ["{product}", "{plan}", "{portal_url}"] : strcontains(text, name)]) && length(setsubtract(regexall("[{][^{}]*[}]?|[}]", replace(replace(text, "{{", ""), "}}", "")), ["{product}", "{plan}", "{seller}", "{support}", "{portal_url}"])) == 0 && length(text) <= 16384
    ])
    error_message = "A text of template_details holds {product}, {plan} and {portal_url}, no other placeholder than {seller} and {support} (a literal brace is doubled), and at most 16384 characters; got ${jsonencode(var.template_details)}."
  }
}

variable "templates" {
  description = "Texts of your own, by kind and locale: `subject` and `text`, with the placeholders {product}, {plan}, {seller}, {support} and {portal_url} (a literal brace is doubled). The kinds are the eleven notices, and `address_verification`, whose text holds {link} once."
  type        = map(map(object({ subject = string, text = string })))
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.templates), local.template_kinds)) == 0
    error_message = "There is no kind of message called ${join(", ", setsubtract(keys(var.templates), local.template_kinds))}. The kinds are: ${join(", ", local.template_kinds)}."
  }

  validation {
    condition     = alltrue(flatten([for locales in values(var.templates) : [for locale in keys(locales) : can(regex("^[a-z]{2,8}(-[a-z0-9]{1,8}){0,7}$", locale))]]))
    error_message = "Under each kind, templates have locales in lowercase, such as en or pt-br; got ${jsonencode({ for kind, locales in var.templates : kind => keys(locales) })}."
  }

  validation {
    condition = alltrue(flatten([
      for locales in values(var.templates) : [
        for template in values(locales) :
        can(regex("^[^\\x00-\\x1f\\x7f]+$", template.subject)) && length(trimspace(template.subject)) > 0 && !strcontains(template.subject, "=?") && length(replace(replace(replace(replace(replace(template.subject, "{product}", local.longest_label), "{plan}", local.longest_label), "{seller}", local.longest_label), "{support}", local.longest_contact), "{portal_url}", local.longest_contact)) <= 256
      ]
    ]))
    error_message = "A template's subject is one line without =?, of at most 256 characters with its placeholders filled ({product}, {plan} and {seller} with up to 80, {support} and {portal_url} with up to 1024); got ${jsonencode({ for kind, locales in var.templates : kind => values(locales)[*].subject })}."
  }

  validation {
    condition = alltrue(flatten([
      for locales in values(var.templates) : [for template in values(locales) : length(trimspace(template.text)) > 0 && length(template.text) <= 16384]
    ]))
    error_message = "A template's text has 1 to 16384 characters; got ${jsonencode({ for kind, locales in var.templates : kind => [for template in values(locales) : length(template.text)] })}."
  }

  validation {
    condition = alltrue(flatten([
      for kind, locales in var.templates : [
        for template in values(locales) : [
          for text in [template.subject, template.text] :
          length(setsubtract(regexall("[{][^{}]*[}]?|[}]", replace(replace(text, "{{", ""), "}}", "")), concat(["{product}", "{plan}", "{seller}", "{support}", "{portal_url}"], kind == "address_verification" && text == template.text ? ["{link}"] : []))) == 0
        ]
      ]
    ]))
    error_message = "The placeholders of templates are {product}, {plan}, {seller}, {support} and {portal_url}, and {link} in the text of address_verification; a literal brace is doubled. Got ${jsonencode(var.templates)}."
  }

  validation {
    condition = alltrue([
      for template in values(lookup(var.templates, "address_verification", {})) : length(regexall("[{]link[}]", template.text)) == 1
    ])
    error_message = "The text of a template of address_verification holds {link} exactly once; got ${jsonencode(lookup(var.templates, "address_verification", {}))}."
  }
}

variable "verification_lifetime_hours" {
  description = "How long a link that verifies an address is valid, in hours."
  type        = number
  default     = 24
  nullable    = false

  validation {
    condition     = var.verification_lifetime_hours >= 1 && var.verification_lifetime_hours <= 168 && floor(var.verification_lifetime_hours) == var.verification_lifetime_hours
    error_message = "verification_lifetime_hours is a whole number from 1 to 168; got ${var.verification_lifetime_hours}."
  }
}

variable "verification_secret" {
  description = "Secret in Secrets Manager that links are signed with, `{\"keys\": [\"<base64 of at least 32 random bytes>\", ...]}`: the first key signs, all are accepted. The same one as the registration module's `address_verification.secret`, and needed with it."
  type        = object({ arn = string, kms_key_arn = optional(string) })
  default     = null

  validation {
    condition     = var.verification_secret == null ? true : can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.verification_secret.arn))
    error_message = "verification_secret.arn is the ARN of a secret, such as arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf; got ${try(var.verification_secret.arn, "null")}."
  }

  validation {
    condition     = var.verification_secret != null || alltrue([for table in values(var.customer_profile_tables) : table.verify_url == null])
    error_message = "verification_secret is needed, because a customer profile table has a verify_url: ${jsonencode([for table in values(var.customer_profile_tables) : table.verify_url])}; got null."
  }
}
