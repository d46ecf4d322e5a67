variable "manage_api_gateway_account" {
  description = "Whether to make the role with which API Gateway writes access logs, in each of the Regions; false where there is one."
  type        = bool
  default     = true
}

variable "product_code" {
  description = "Product code of the SaaS product, from the AWS Marketplace Management Portal."
  type        = string
  default     = "1example2product3code4567"
}
