variable "product_code" {
  description = "Product code of the SaaS product; it is part of every name, and a token of any other product is refused."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", var.product_code))
    error_message = "product_code is 1 to 64 letters, digits, hyphens and underscores; got \"${var.product_code}\"."
  }
}

variable "stage_name" {
  description = "Name of the API's stage, and without a domain of your own the path that every URL begins with, such as `prod`. There is no default, because the fulfilment URL in the listing depends on it."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,128}$", var.stage_name)) && var.stage_name != "test-invoke-stage"
    error_message = "stage_name is 1 to 128 letters, digits, hyphens and underscores, and not test-invoke-stage (API Gateway's own); got \"${var.stage_name}\"."
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

variable "address_verification" {
  description = "Has buyers' addresses verified by a link that the notifications module mails: `secret` is the secret in Secrets Manager that links are signed with, `{\"keys\": [\"<base64 of at least 32 random bytes>\", ...]}` (and its `kms_key_arn`, when it has a key of yours). Null: no such route."
  type        = object({ secret = object({ arn = string, kms_key_arn = optional(string) }) })
  default     = null

  validation {
    condition     = var.address_verification == null ? true : can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+$", var.address_verification.secret.arn))
    error_message = "address_verification.secret.arn is the ARN of a secret, such as arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf; got ${try(var.address_verification.secret.arn, "null")}."
  }
}

variable "allowed_origins" {
  description = "Origins of other pages whose script may call this API from a browser: the output `page_origin` of each deployment that offers this one in its `page_regions`. This deployment's own page and `own_page_url` need no entry."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for origin in var.allowed_origins : can(regex("^https://[a-z0-9.-]+(:[0-9]+)?$", origin))])
    error_message = "An origin is https:// and a host in lowercase, without a path, such as https://buy.example.com; got ${join(", ", var.allowed_origins)}."
  }

  validation {
    condition     = length(jsonencode(var.allowed_origins)) <= 512
    error_message = "allowed_origins take at most 512 bytes of the function's environment; got ${length(jsonencode(var.allowed_origins))} bytes."
  }
}

variable "cloudfront_web_acl" {
  description = "Web ACL of scope CLOUDFRONT (it lives in us-east-1) for the distribution of `delivery = \"cloudfront\"`. Null: none there; the API keeps its own."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.cloudfront_web_acl == null ? true : can(regex("^arn:[a-z-]+:wafv2:[a-z0-9-]+:[0-9]{12}:global/webacl/.+$", var.cloudfront_web_acl.arn))
    error_message = "cloudfront_web_acl.arn is the ARN of a web ACL of scope CLOUDFRONT, such as arn:aws:wafv2:us-east-1:111122223333:global/webacl/name/id; got ${try(var.cloudfront_web_acl.arn, "null")}."
  }

  validation {
    condition     = var.cloudfront_web_acl == null || var.delivery == "cloudfront"
    error_message = "cloudfront_web_acl needs delivery = \"cloudfront\" (web_acl is the one for the API); got ${try(var.cloudfront_web_acl.arn, "null")} with delivery = \"${var.delivery}\"."
  }
}

variable "create_web_acl" {
  description = "Whether to make the baseline web ACL for the API. False where AWS WAF is not to be had, or where an organisation's policy attaches one."
  type        = bool
  default     = true
  nullable    = false
}

variable "delivery" {
  description = "`regional`: API Gateway serves page and API on one host. `cloudfront`: the page lies in a private bucket behind CloudFront, which passes the buyer's form posts on to an API that nothing else may call."
  type        = string
  default     = "regional"
  nullable    = false

  validation {
    condition     = contains(["regional", "cloudfront"], var.delivery)
    error_message = "delivery is \"regional\" or \"cloudfront\"; got \"${var.delivery}\"."
  }

  validation {
    condition     = var.delivery != "cloudfront" || var.page != null
    error_message = "delivery = \"${var.delivery}\" puts this module's page behind CloudFront, and page is null."
  }

  validation {
    condition     = var.delivery != "cloudfront" || length(var.tags) <= 10
    error_message = "delivery = \"${var.delivery}\" makes S3 objects, which take at most 10 tags; got ${length(var.tags)}."
  }
}

variable "domain" {
  description = "Host name of your own, and its certificate: in the module's Region, or in us-east-1 with `delivery = \"cloudfront\"`. Point the name at the output `domain_target`. Null: the host name that AWS gives."
  type = object({
    name        = string
    certificate = object({ arn = string })
  })
  default = null

  validation {
    condition     = var.domain == null ? true : can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", var.domain.name))
    error_message = "domain.name is a host name in lowercase, such as buy.example.com; got \"${try(var.domain.name, "null")}\"."
  }

  validation {
    condition     = var.domain == null ? true : can(regex("^arn:[a-z-]+:acm:[a-z0-9-]+:[0-9]{12}:certificate/.+$", var.domain.certificate.arn))
    error_message = "domain.certificate.arn is the ARN of a certificate in ACM; got \"${try(var.domain.certificate.arn, "null")}\"."
  }

  validation {
    condition     = var.domain == null || var.delivery != "cloudfront" ? true : split(":", "${var.domain.certificate.arn}::::")[3] == "us-east-1"
    error_message = "CloudFront takes certificates of us-east-1 only; got \"${try(var.domain.certificate.arn, "null")}\"."
  }

  validation {
    condition     = var.domain == null ? true : length(var.domain.name) <= 253
    error_message = "domain.name has at most 253 characters; got ${try(length(var.domain.name), 0)}."
  }
}

variable "manage_api_gateway_account" {
  description = "Whether to make the role with which API Gateway writes access logs, and to set it for this account and Region. The setting is one for all APIs there: leave it false where it exists (AWS refuses the stage where it does not), and let one deployment of a Region own it."
  type        = bool
  default     = false
  nullable    = false
}

variable "marketplace_region" {
  description = "Region whose Marketplace endpoint resolves the buyers' tokens; null for the module's own."
  type        = string
  default     = null

  validation {
    condition     = var.marketplace_region == null ? true : can(regex("^[a-z]+(-[a-z]+)+-[0-9]+$", var.marketplace_region))
    error_message = "marketplace_region is a Region id, such as us-east-1; got \"${coalesce(var.marketplace_region, "null")}\"."
  }
}

variable "own_page_url" {
  description = "Only with `page = null`: address of a registration page of your own. The fulfilment URL sends buyers there with the token in the fragment (`#t=<base64url>`, and `&o=<offer type>` when there is one), and its script may call the API."
  type        = string
  default     = null

  validation {
    condition     = var.own_page_url == null ? true : can(regex("^https://[a-z0-9.-]+(:[0-9]+)?(/[!-\"$-~]*)?$", var.own_page_url))
    error_message = "own_page_url is an https address with a host in lowercase and without a fragment; got \"${coalesce(var.own_page_url, "null")}\"."
  }

  validation {
    condition     = var.own_page_url == null ? var.page != null : var.page == null
    error_message = "Exactly one of page and own_page_url says where a buyer registers; got ${var.page == null ? "neither" : "both, with own_page_url = \"${coalesce(var.own_page_url, "null")}\""}."
  }
}

variable "page" {
  description = "The registration page: `product_name`, `seller_name`, `support_email`, and optionally `support_url`, `logo_url`, `accent_color` (#rrggbb), `locale`, `success_url` (where a registered buyer goes on), `messages` (the page's texts by key) and `region_label` (this deployment's name beside `page_regions`; default its Region). Null: API only, for a page of your own at `own_page_url`."
  type = object({
    product_name  = string
    seller_name   = string
    support_email = string
    support_url   = optional(string)
    logo_url      = optional(string)
    accent_color  = optional(string, "#0f5ea8")
    locale        = optional(string, "en")
    success_url   = optional(string)
    messages      = optional(map(string), {})
    region_label  = optional(string)
  })
  default = null

  validation {
    condition     = var.page == null ? true : alltrue([for text in [var.page.product_name, var.page.seller_name] : length(trimspace(text)) > 0 && length(text) <= 100])
    error_message = "page.product_name and page.seller_name have 1 to 100 characters; got ${jsonencode([try(var.page.product_name, null), try(var.page.seller_name, null)])}."
  }

  validation {
    condition     = var.page == null ? true : can(regex("^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)+$", var.page.support_email))
    error_message = "page.support_email is an e-mail address, which AWS requires on the page; got \"${try(var.page.support_email, "null")}\"."
  }

  validation {
    condition = var.page == null ? true : alltrue([
      for url in [var.page.support_url, var.page.logo_url, var.page.success_url] : url == null ? true : can(regex("^https://[A-Za-z0-9.-]+(:[0-9]+)?([/?#][!#-;=?-~]*)?$", url))
    ])
    error_message = "page.support_url, .logo_url and .success_url are https addresses without blanks, quotes or angle brackets; got ${jsonencode([try(var.page.support_url, null), try(var.page.logo_url, null), try(var.page.success_url, null)])}."
  }

  validation {
    condition     = var.page == null ? true : can(regex("^#[0-9A-Fa-f]{6}$", var.page.accent_color))
    error_message = "page.accent_color is a colour such as #0f5ea8; got \"${try(var.page.accent_color, "null")}\"."
  }

  validation {
    condition     = var.page == null ? true : can(regex("^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$", var.page.locale))
    error_message = "page.locale is a language tag such as en, pt-BR or zh-Hant-TW; got \"${try(var.page.locale, "null")}\"."
  }
}

variable "page_regions" {
  description = "Deployments in other Regions that a buyer may choose instead of this one, by the label that the page shows: `registration_url` is that deployment's output of this name, and its `allowed_origins` needs this one's `page_origin`. Empty: no choice."
  type        = map(object({ registration_url = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for region in values(var.page_regions) : can(regex("^https://[a-z0-9.-]+(:[0-9]+)?/[A-Za-z0-9/_.-]*$", region.registration_url))])
    error_message = "page_regions[...].registration_url is the https address of another deployment's API; got ${jsonencode({ for label, region in var.page_regions : label => region.registration_url })}."
  }

  validation {
    condition     = length(var.page_regions) == 0 || var.page != null
    error_message = "page_regions are offered by this module's page, and page is null; got ${join(", ", keys(var.page_regions))}."
  }

  validation {
    condition     = alltrue([for label in keys(var.page_regions) : length(trimspace(label)) > 0 && length(label) <= 60])
    error_message = "The keys of page_regions are labels of 1 to 60 characters that buyers read; got ${jsonencode(keys(var.page_regions))}."
  }
}

variable "promoted_profile_fields" {
  description = "Fields of the form that profiles are looked up by, each with an index `<field>-index`; `range_key` sorts it (another field, or createdAt, customerAWSAccountId or licenseArn)."
  type        = map(object({ range_key = optional(string) }))
  default     = {}
  nullable    = false

  validation {
    condition     = length(var.promoted_profile_fields) <= 20
    error_message = "DynamoDB allows a table 20 indexes; got ${length(var.promoted_profile_fields)} promoted fields."
  }

  validation {
    condition = alltrue([
      for name in concat(keys(var.promoted_profile_fields), compact([for field in values(var.promoted_profile_fields) : field.range_key])) :
      contains(local.range_key_attributes, name) || contains([for field in var.registration_fields : field.name if field.type != "checkbox"], name)
    ])
    error_message = "A promoted field, and the range_key of one, is a field of registration_fields that holds text (not a checkbox), or as a range_key one of ${join(", ", local.range_key_attributes)}; got ${jsonencode(var.promoted_profile_fields)}."
  }

  validation {
    condition     = length(setintersection(keys(var.promoted_profile_fields), local.profile_attributes)) == 0
    error_message = "The profile table has attributes of its own with these names, so they cannot be promoted: ${join(", ", setintersection(keys(var.promoted_profile_fields), local.profile_attributes))}."
  }

  validation {
    condition     = length(setintersection(compact([for field in values(var.promoted_profile_fields) : field.range_key]), setsubtract(local.profile_attributes, local.range_key_attributes))) == 0
    error_message = "The profile table has attributes of its own with these names, which no index may be sorted by: ${join(", ", setintersection(compact([for field in values(var.promoted_profile_fields) : field.range_key]), setsubtract(local.profile_attributes, local.range_key_attributes)))}."
  }

  validation {
    condition     = alltrue([for name, field in var.promoted_profile_fields : field.range_key == null ? true : field.range_key != name])
    error_message = "An index cannot be sorted by the field that it is keyed by; got ${jsonencode(var.promoted_profile_fields)}."
  }

  # DynamoDB refuses an item whose index key is over 2048 bytes (hash) or 1024 (range), and a character can take four.
  validation {
    condition = alltrue([
      for field in var.registration_fields :
      coalesce(field.max_length, lookup(local.default_max_lengths, field.type, 200)) <= (contains(compact([for promoted in values(var.promoted_profile_fields) : promoted.range_key]), field.name) ? 256 : 512)
      if contains(concat(keys(var.promoted_profile_fields), compact([for promoted in values(var.promoted_profile_fields) : promoted.range_key])), field.name)
    ])
    error_message = "A promoted field has a max_length of at most 512, and of 256 where an index is sorted by it, because DynamoDB refuses longer keys; got ${jsonencode({ for field in var.registration_fields : field.name => coalesce(field.max_length, lookup(local.default_max_lengths, field.type, 200)) })}."
  }
}

variable "rate_limit" {
  description = "Requests that the baseline web ACL allows one address in five minutes."
  type        = number
  default     = 300
  nullable    = false

  validation {
    condition     = var.rate_limit >= 10 && var.rate_limit <= 2000000000 && floor(var.rate_limit) == var.rate_limit
    error_message = "rate_limit is a whole number from 10 (AWS WAF's least) to 2000000000; got ${var.rate_limit}."
  }
}

variable "registration_fields" {
  description = "The fields of the form, in order: `name`, `label`, `type` (text, email, tel, textarea, select, checkbox), `max_length` (in characters; by default 200, for email 254, tel 32, textarea 2000), `required`, and `options` of a select. One of them is the required field `email` of type email, which AWS asks for. Page and function judge by this one list."
  type = list(object({
    name       = string
    label      = string
    type       = optional(string, "text")
    max_length = optional(number)
    required   = optional(bool, false)
    options    = optional(list(string), [])
  }))
  nullable = false
  default = [
    { name = "email", label = "Email", type = "email", required = true },
    { name = "name", label = "Name" },
    { name = "company", label = "Company" },
  ]

  validation {
    condition     = alltrue([for field in var.registration_fields : can(regex("^[A-Za-z][A-Za-z0-9_]{0,63}$", field.name))]) && length(distinct(var.registration_fields[*].name)) == length(var.registration_fields)
    error_message = "The names in registration_fields are letters, digits and underscores, at most 64, begin with a letter and differ from each other; got ${join(", ", var.registration_fields[*].name)}."
  }

  validation {
    condition     = alltrue([for field in var.registration_fields : contains(["text", "email", "tel", "textarea", "select", "checkbox"], field.type)])
    error_message = "The type of a registration field is text, email, tel, textarea, select or checkbox; got ${join(", ", [for field in var.registration_fields : "${field.name} = ${field.type}"])}."
  }

  validation {
    condition     = length([for field in var.registration_fields : field if field.name == "email" && field.type == "email" && field.required]) == 1
    error_message = "registration_fields has one required field named email of type email (AWS requires it on the page); got ${jsonencode([for field in var.registration_fields : { name = field.name, type = field.type, required = field.required }])}."
  }

  validation {
    condition = alltrue([
      for limit in [for field in var.registration_fields : { given = coalesce(field.max_length, 1), most = lookup({ email = 254, tel = 32 }, field.type, 4000) }] :
      limit.given >= 1 && limit.given <= limit.most && floor(limit.given) == limit.given
    ])
    error_message = "The max_length of a registration field is a whole number from 1 to 4000 (254 for an email, 32 for a tel); got ${jsonencode([for field in var.registration_fields : { name = field.name, max_length = field.max_length }])}."
  }

  validation {
    condition = alltrue([
      for field in var.registration_fields :
      (field.type == "select") == (length(field.options) > 0) && length(distinct(field.options)) == length(field.options) && alltrue([for option in field.options : length(trimspace(option)) > 0 && length(option) <= 200])
    ])
    error_message = "A select, and nothing else, has options: different texts of 1 to 200 characters; got ${jsonencode({ for field in var.registration_fields : "${field.name} (${field.type})" => field.options })}."
  }

  validation {
    condition     = alltrue([for field in var.registration_fields : length(trimspace(field.label)) > 0 && length(field.label) <= 200])
    error_message = "The label of a registration field has 1 to 200 characters; got ${jsonencode(var.registration_fields[*].label)}."
  }
}

variable "throttling" {
  description = "What the stage admits from all callers together: `rate_limit` requests a second, and a burst of `burst_limit`."
  type = object({
    rate_limit  = optional(number, 20)
    burst_limit = optional(number, 40)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.throttling.rate_limit >= 1 && var.throttling.rate_limit <= 10000
    error_message = "throttling.rate_limit is from 1 to 10000 requests a second (an account's quota in a Region); got ${var.throttling.rate_limit}."
  }

  validation {
    condition     = var.throttling.burst_limit >= var.throttling.rate_limit && var.throttling.burst_limit <= 5000 && floor(var.throttling.burst_limit) == var.throttling.burst_limit
    error_message = "throttling.burst_limit is a whole number from throttling.rate_limit to 5000 (an account's quota in a Region); got ${var.throttling.burst_limit}."
  }
}

variable "web_acl" {
  description = "Web ACL of scope REGIONAL, in the module's Region, that replaces the baseline one. It must let form posts of 16 KB through to `/fulfillment`."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.web_acl == null ? true : can(regex("^arn:[a-z-]+:wafv2:[a-z0-9-]+:[0-9]{12}:regional/webacl/.+$", var.web_acl.arn))
    error_message = "web_acl.arn is the ARN of a web ACL of scope REGIONAL, such as arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/name/id; got ${try(var.web_acl.arn, "null")}."
  }
}
