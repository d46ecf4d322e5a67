variable "alarm_topic" {
  description = "SNS topic in us-east-1 that wakes somebody when a buyer is turned away or not told; null leaves the alarms silent, and Terraform warns about it."
  type        = object({ arn = string })
  default     = null
}

variable "manage_api_gateway_account" {
  description = "Whether to make the role with which API Gateway writes access logs in this account and Region; false where there is one."
  type        = bool
  default     = true
}

variable "portal_url" {
  description = "Where a buyer manages the subscription."
  type        = string
  default     = "https://app.example.com/billing"
}

variable "product_code" {
  description = "Product code of the SaaS product, from the AWS Marketplace Management Portal."
  type        = string
  default     = "1example2product3code4567"
}

variable "sender_domain" {
  description = "Domain that the messages come from; you can put records into its zone."
  type        = string
  default     = "example.com"
}
