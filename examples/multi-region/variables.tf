variable "metering_mode" {
  description = "`live` bills buyers; `dry-run` does everything but the call to AWS Marketplace."
  type        = string
  default     = "dry-run"
}

variable "product_code" {
  description = "Product code of the SaaS product, from the AWS Marketplace Management Portal."
  type        = string
  default     = "1example2product3code4567"
}
