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

variable "dlq_message_retention_seconds" {
  description = "How long the dead-letter queue keeps a message, in seconds; the default is SQS's maximum of 14 days. SQS counts from when the message was first sent, so it is longer than `message_retention_seconds`."
  type        = number
  default     = 1209600
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
  description = "How long the queue keeps a message, in seconds."
  type        = number
  default     = 345600
  nullable    = false
}

variable "senders" {
  description = "AWS services that may send on behalf of one resource, by a statement id of the caller's choice: which of the two queues (`queue`, `dlq`) each may send to."
  type = map(object({
    queues     = set(string)
    service    = string
    source_arn = string
  }))
  default  = {}
  nullable = false
}

variable "tags" {
  description = "Tags of both queues."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "writer_principal_arns" {
  description = "Roles or accounts that may send to the queue from other accounts; within this account a role's own policy is enough."
  type        = list(string)
  default     = []
  nullable    = false
}
