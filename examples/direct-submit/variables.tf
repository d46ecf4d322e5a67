variable "alarm_topic" {
  description = "SNS topic in us-east-1 that wakes somebody when usage is about to be lost; null leaves the alarms silent, and Terraform warns about it."
  type        = object({ arn = string })
  default     = null
}

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

variable "writer_principal_arns" {
  description = "Roles of other accounts that write the hourly records, such as your rating system's."
  type        = list(string)
  default     = ["arn:aws:iam::444455556666:role/usage-rating"]
}
