variable "name" {
  description = "Name of the queue; its dead-letter queue is called `<name>-dlq`."
  type        = string
  nullable    = false
}

variable "visibility_timeout_seconds" {
  description = "How long a received message stays hidden, in seconds; at least six times the consumer's time-out, so that a throttled event source mapping does not hand a message out twice."
  type        = number
  nullable    = false
}

variable "event_rule" {
  description = "EventBridge rule that may send to the queue and dead-letter to its DLQ; null when only functions send."
  type        = object({ arn = string })
  default     = null
}

variable "kms_key" {
  description = "Customer managed KMS key of the queues; null for the keys that SQS manages."
  type        = object({ arn = string })
  default     = null
}

variable "max_receive_count" {
  description = "How often a message is tried before it goes to the dead-letter queue."
  type        = number
  default     = 5
  nullable    = false
}

variable "message_retention_seconds" {
  description = "How long the queue keeps a message, in seconds. The DLQ keeps its own for 14 days, SQS's maximum."
  type        = number
  default     = 345600
  nullable    = false
}

variable "tags" {
  description = "Tags of both queues."
  type        = map(string)
  default     = {}
  nullable    = false
}
