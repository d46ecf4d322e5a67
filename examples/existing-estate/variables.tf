variable "alarm_topic_arn" {
  description = "SNS topic in us-east-1 of the people on call."
  type        = string
  default     = "arn:aws:sns:us-east-1:111122223333:on-call"
}

variable "kms_key_arn" {
  description = "KMS key in us-east-1 whose policy allows what the output `kms_key_statements` says."
  type        = string
  default     = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
}

variable "metering_mode" {
  description = "`live` bills buyers; `dry-run` does everything but the call to AWS Marketplace."
  type        = string
  default     = "dry-run"
}

variable "permissions_boundary_arn" {
  description = "Managed policy that must bound every role of the account."
  type        = string
  default     = "arn:aws:iam::111122223333:policy/workload-boundary"
}

variable "product_code" {
  description = "Product code of the SaaS product, from the AWS Marketplace Management Portal."
  type        = string
  default     = "1example2product3code4567"
}

variable "security_group_id" {
  description = "Security group of the functions: HTTPS to the outside, nothing from it."
  type        = string
  default     = "sg-0123456789abcdef0"
}

variable "submitter_role_arn" {
  description = "Role that trusts lambda.amazonaws.com and has the policy that the output `submitter_policy_json` shows."
  type        = string
  default     = "arn:aws:iam::111122223333:role/security/marketplace-submitter"
}

variable "subnet_ids" {
  description = "Private subnets with a way to DynamoDB, SQS, EventBridge, CloudWatch Logs and the Marketplace metering endpoint."
  type        = list(string)
  default     = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
}
