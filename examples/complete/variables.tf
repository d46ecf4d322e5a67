variable "account_id" {
  description = "AWS account of the seller, which all of this is deployed in: its administrators manage the key, and events of other accounts are refused."
  type        = string
  default     = "111122223333"
}

variable "domain_name" {
  description = "Host name of the registration page, in the zone `hosted_zone_id`."
  type        = string
  default     = "buy.example.com"
}

variable "hosted_zone_id" {
  description = "Id of the public Route 53 zone that `domain_name` belongs to."
  type        = string
  default     = "Z0123456789EXAMPLE"
}

variable "manage_api_gateway_account" {
  description = "Whether to make the role with which API Gateway writes access logs in this account and Region; false where there is one."
  type        = bool
  default     = true
}

variable "metering_mode" {
  description = "`live` bills buyers; `dry-run` does everything but the call to AWS Marketplace."
  type        = string
  default     = "dry-run"
}

variable "on_call_email" {
  description = "Where alarms and notices are mailed to."
  type        = string
  default     = "on-call@example.com"
}

variable "owner" {
  description = "Team that owns the deployment, for the tag `owner`."
  type        = string
  default     = "billing-team"
}

variable "product_code" {
  description = "Product code of the SaaS product, from the AWS Marketplace Management Portal."
  type        = string
  default     = "1example2product3code4567"
}

variable "sender_domain" {
  description = "Domain that the messages to buyers come from, in the zone `hosted_zone_id`."
  type        = string
  default     = "example.com"
}
