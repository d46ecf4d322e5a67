variable "code" {
  description = "The function zip, as `lambda_package` describes it: a local `path`, or `s3_bucket` and `s3_key`."
  type = object({
    name          = string
    path          = string
    s3_bucket     = string
    s3_key        = string
    sha256        = string
    sha256_base64 = string
  })
  nullable = false
}

variable "description" {
  description = "What the function does, in a few words."
  type        = string
  nullable    = false
}

variable "environment" {
  description = "Environment variables."
  type        = map(string)
  nullable    = false
}

variable "handler" {
  description = "Dotted path of the handler."
  type        = string
  nullable    = false
}

variable "layer_arns" {
  description = "Layer versions, in order."
  type        = list(string)
  nullable    = false
}

variable "name" {
  description = "Name of the function; its log group is `/aws/lambda/<name>`."
  type        = string
  nullable    = false
}

variable "role_name" {
  description = "Name of the role that is created when `role` is null. IAM names are global to the account, so it carries a Region code."
  type        = string
  nullable    = false
}

variable "runtime" {
  description = "Lambda runtime."
  type        = string
  nullable    = false
}

variable "statements" {
  description = "What the function may do beside logging: one IAM statement each, with its `condition` (operator, key, value) if it has one. Reading its queues and streams, its VPC, its KMS key and tracing are added here."
  type = list(object({
    sid       = string
    actions   = list(string)
    resources = list(string)
    condition = optional(map(map(string)), {})
  }))
  nullable = false
}

variable "timeout_seconds" {
  description = "Time-out of one invocation, in seconds."
  type        = number
  nullable    = false
}

variable "architecture" {
  description = "Instruction set: `arm64` or `x86_64`."
  type        = string
  default     = "arm64"
  nullable    = false
}

variable "code_signing" {
  description = "Code signing configuration that the code must satisfy; null for none."
  type        = object({ arn = string })
  default     = null
}

variable "event_sources" {
  description = "SQS queues that feed the function, by a name of the caller's choice."
  type = map(object({
    queue_arn           = string
    batch_size          = number
    maximum_concurrency = number
  }))
  default  = {}
  nullable = false
}

variable "kms_key" {
  description = "Customer managed KMS key of the log group, the environment and the data that the function uses; null for AWS's own keys."
  type        = object({ arn = string })
  default     = null
}

variable "log_retention_days" {
  description = "How long the log group keeps its events, in days."
  type        = number
  default     = 365
  nullable    = false
}

variable "memory_mib" {
  description = "Memory, in MiB."
  type        = number
  default     = 256
  nullable    = false
}

variable "reserved_concurrency" {
  description = "Reserved concurrent executions; null shares the account's pool."
  type        = number
  default     = null
}

variable "role" {
  description = "Role to use instead of one made here; it needs the policy that `role_policy_json` returns."
  type        = object({ arn = string })
  default     = null
}

variable "role_path" {
  description = "Path of the role."
  type        = string
  default     = "/"
  nullable    = false
}

variable "role_permissions_boundary" {
  description = "Permissions boundary of the role; null for none."
  type        = object({ arn = string })
  default     = null
}

variable "scheduled" {
  description = "True when EventBridge invokes the function on a schedule: an invocation is then dropped after 300 seconds and never retried, because the next tick does the same work."
  type        = bool
  default     = false
  nullable    = false
}

variable "stream_sources" {
  description = "DynamoDB streams that feed the function, by a name of the caller's choice. A record that fails `maximum_retry_attempts` times (-1: without end) or grows older than `maximum_record_age_seconds` is given up: the queue is told which one, and the records after it go on."
  type = map(object({
    stream_arn                 = string
    batch_size                 = number
    maximum_record_age_seconds = number
    maximum_retry_attempts     = number
    on_failure_queue_arn       = string
  }))
  default  = {}
  nullable = false
}

variable "tags" {
  description = "Tags of everything made here."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "tracing" {
  description = "Whether AWS X-Ray records the function's runs."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups; null runs the function outside any VPC of yours."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null
}
