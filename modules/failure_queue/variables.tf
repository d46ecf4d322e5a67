variable "name" {
  description = "Name of the queue."
  type        = string
  nullable    = false
}

variable "kms_key" {
  description = "Customer managed KMS key of the queue; null for the keys that SQS manages."
  type        = object({ arn = string })
  default     = null
}

variable "tags" {
  description = "Tags of the queue."
  type        = map(string)
  default     = {}
  nullable    = false
}
