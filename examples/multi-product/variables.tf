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

variable "product_codes" {
  description = "Product codes by a name of your choice, which Terraform keeps as the address: a product that is renamed here would be made anew."
  type        = map(string)
  default = {
    analytics = "1example2analytics3code45"
    backup    = "1example2backup3code45678"
  }
}
