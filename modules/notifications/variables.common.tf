variable "alarm_thresholds" {
  description = "Thresholds that replace the defaults, by alarm key (the keys of the output `alarm_arns`), in the metric's own unit."
  type        = map(number)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.alarm_thresholds), local.alarm_keys)) == 0
    error_message = "There is no alarm ${join(", ", setsubtract(keys(var.alarm_thresholds), local.alarm_keys))}. The keys are: ${join(", ", local.alarm_keys)}."
  }

  validation {
    condition     = alltrue([for value in values(var.alarm_thresholds) : value > 0])
    error_message = "A threshold is a number above 0: an alarm fires at or above it, month-end-wall at or below it, one on what did not run or has stalled below it; got ${jsonencode(var.alarm_thresholds)}."
  }
}

variable "alarm_topic" {
  description = "SNS topic, in the module's Region, for alarms that must wake somebody. Null: they go to `notice_topic`, if that is set."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.alarm_topic == null ? true : can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$", var.alarm_topic.arn))
    error_message = "alarm_topic.arn is the ARN of a standard SNS topic, such as arn:aws:sns:us-east-1:111122223333:alarms (CloudWatch cannot send to FIFO topics); got ${try(var.alarm_topic.arn, "null")}."
  }

  validation {
    condition     = var.alarm_topic == null ? true : split(":", "${var.alarm_topic.arn}::::")[3] == data.aws_region.current.id
    error_message = "CloudWatch alarms notify topics of their own Region only (${data.aws_region.current.id}); alarm_topic.arn is ${try(var.alarm_topic.arn, "null")}."
  }
}

variable "code_signing" {
  description = "Lambda code signing configuration that every function is checked against. Only with signed copies of the zips in S3 (`lambda_package.s3`): functions and layer are then both signed. Null: the zips' SHA-256 alone is checked."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.code_signing == null ? true : can(regex("^arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:code-signing-config:csc-[a-z0-9]{17}$", var.code_signing.arn))
    error_message = "code_signing.arn is the ARN of a code signing configuration, such as arn:aws:lambda:us-east-1:111122223333:code-signing-config:csc-0123456789abcdef0; got ${try(var.code_signing.arn, "null")}."
  }

  validation {
    condition     = var.code_signing == null || try(var.lambda_package.s3, null) != null
    error_message = "code_signing.arn = ${try(var.code_signing.arn, "null")} needs lambda_package.s3, because AWS Signer signs objects in S3 and Lambda refuses an unsigned zip."
  }
}

variable "deletion_protection" {
  description = "Whether DynamoDB refuses to delete the tables. To take a deployment down on purpose, apply with false first."
  type        = bool
  default     = true
  nullable    = false
}

variable "environment" {
  description = "Name of a deployment beside production, such as `sandbox`: it becomes part of every name and a dimension of every metric. Null for production (the metrics' dimension is then `default`)."
  type        = string
  default     = null

  validation {
    condition     = var.environment == null ? true : can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.environment)) && var.environment != "default"
    error_message = "environment is lowercase letters, digits and single hyphens, begins with a letter and is not \"default\" (what the metrics call an unset one); got \"${coalesce(var.environment, "null")}\"."
  }
}

variable "kms_key" {
  description = "Customer managed KMS key for tables, queues, log groups and function environments; its policy needs what the output `kms_key_policy_json` says. Null: keys that AWS owns. A table keeps its key when this is taken away again, so replace a key rather than remove it."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.kms_key == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.kms_key.arn))
    error_message = "kms_key.arn is the ARN of a key (not of an alias), such as arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab; got ${try(var.kms_key.arn, "null")}."
  }

  validation {
    condition     = var.kms_key == null ? true : split(":", "${var.kms_key.arn}::::")[3] == data.aws_region.current.id
    error_message = "Tables, queues and logs take a key of their own Region only (${data.aws_region.current.id}); kms_key.arn is ${try(var.kms_key.arn, "null")}."
  }
}

variable "lambda" {
  description = "How the functions run: `runtime`, `architecture`, `log_level`, and `memory_mib` by function key (in MiB) where the default does not fit."
  type = object({
    runtime      = optional(string, "python3.13")
    architecture = optional(string, "arm64")
    log_level    = optional(string, "INFO")
    memory_mib   = optional(map(number), {})
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["python3.11", "python3.12", "python3.13", "python3.14"], var.lambda.runtime)
    error_message = "lambda.runtime is python3.11, python3.12, python3.13 or python3.14; got \"${var.lambda.runtime}\"."
  }

  validation {
    condition     = contains(["arm64", "x86_64"], var.lambda.architecture)
    error_message = "lambda.architecture is arm64 or x86_64; got \"${var.lambda.architecture}\"."
  }

  validation {
    condition     = contains(["DEBUG", "INFO", "WARNING", "ERROR"], var.lambda.log_level)
    error_message = "lambda.log_level is DEBUG, INFO, WARNING or ERROR; got \"${var.lambda.log_level}\"."
  }

  validation {
    condition     = length(setsubtract(keys(var.lambda.memory_mib), local.function_keys)) == 0
    error_message = "lambda.memory_mib names no function of this module: ${join(", ", setsubtract(keys(var.lambda.memory_mib), local.function_keys))}. The keys are: ${join(", ", local.function_keys)}."
  }

  validation {
    condition     = alltrue([for value in values(var.lambda.memory_mib) : value >= 128 && value <= 10240 && floor(value) == value])
    error_message = "lambda.memory_mib is a whole number of MiB from 128 to 10240; got ${jsonencode(var.lambda.memory_mib)}."
  }
}

variable "lambda_package" {
  description = "Where the function zips come from. Null: the zips committed beside this module. Else exactly one of `directory` (holds `awsmp.zip`, `dependencies.zip` and their `manifest.json`) and `s3` (a bucket in the module's Region, and a key prefix under which copies of the committed zips lie)."
  type = object({
    directory = optional(string)
    s3        = optional(object({ bucket = string, prefix = string }))
  })
  default = null

  validation {
    condition     = var.lambda_package == null ? true : (var.lambda_package.directory == null) != (var.lambda_package.s3 == null)
    error_message = "lambda_package has exactly one of directory and s3; got ${var.lambda_package == null ? "null" : var.lambda_package.directory == null ? "neither" : "both"}."
  }

  validation {
    condition     = try(var.lambda_package.s3, null) == null ? true : can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.lambda_package.s3.bucket)) && length(var.lambda_package.s3.prefix) <= 1000
    error_message = "lambda_package.s3 has the name of a bucket (3 to 63 lowercase letters, digits, dots and hyphens) and a prefix of at most 1000 characters; got ${jsonencode(try(var.lambda_package.s3, null))}."
  }
}

variable "log_retention_days" {
  description = "How long the functions' logs are kept, in days; 0 keeps them for ever."
  type        = number
  default     = 365
  nullable    = false

  validation {
    condition     = contains([0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "CloudWatch Logs takes 0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653 days; got ${var.log_retention_days}."
  }
}

variable "name_prefix" {
  description = "First part of every name."
  type        = string
  default     = "awsmp"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.name_prefix))
    error_message = "name_prefix is lowercase letters, digits and single hyphens, and begins with a letter; got \"${var.name_prefix}\"."
  }
}

variable "notice_topic" {
  description = "SNS topic, in the module's Region, for alarms that can wait until morning. Null: they go to `alarm_topic`, if that is set."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.notice_topic == null ? true : can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$", var.notice_topic.arn))
    error_message = "notice_topic.arn is the ARN of a standard SNS topic, such as arn:aws:sns:us-east-1:111122223333:notices (CloudWatch cannot send to FIFO topics); got ${try(var.notice_topic.arn, "null")}."
  }

  validation {
    condition     = var.notice_topic == null ? true : split(":", "${var.notice_topic.arn}::::")[3] == data.aws_region.current.id
    error_message = "CloudWatch alarms notify topics of their own Region only (${data.aws_region.current.id}); notice_topic.arn is ${try(var.notice_topic.arn, "null")}."
  }
}

variable "reserved_concurrency" {
  description = "Reserved concurrent executions by function key; a function that is not named, or is null, shares the account's pool. Nothing's correctness depends on it."
  type        = map(number)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.reserved_concurrency), local.function_keys)) == 0
    error_message = "There is no function ${join(", ", setsubtract(keys(var.reserved_concurrency), local.function_keys))}. The keys are: ${join(", ", local.function_keys)}."
  }

  validation {
    condition     = alltrue([for value in values(var.reserved_concurrency) : value == null ? true : value >= 1 && floor(value) == value])
    error_message = "A reserved concurrency is a whole number of at least 1 (0 would stop the function), or null; got ${jsonencode(var.reserved_concurrency)}."
  }
}

variable "role_path" {
  description = "Path of the roles that are made here."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([!-.0-~]+/)*$", var.role_path)) && length(var.role_path) <= 512
    error_message = "role_path begins and ends with / and has at most 512 characters; got \"${var.role_path}\"."
  }
}

variable "role_permissions_boundary" {
  description = "Managed policy that bounds every role made here; null for none."
  type        = object({ arn = string })
  default     = null

  validation {
    condition     = var.role_permissions_boundary == null ? true : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", var.role_permissions_boundary.arn))
    error_message = "role_permissions_boundary.arn is the ARN of a managed policy, such as arn:aws:iam::111122223333:policy/boundary; got ${try(var.role_permissions_boundary.arn, "null")}."
  }
}

variable "roles" {
  description = "Roles of your own by function key, instead of the ones made here. Each must trust lambda.amazonaws.com and have, before the function is made, the policy that the output `role_policies_json` shows for its key."
  type        = map(object({ arn = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = length(setsubtract(keys(var.roles), local.function_keys)) == 0
    error_message = "There is no function ${join(", ", setsubtract(keys(var.roles), local.function_keys))}. The keys are: ${join(", ", local.function_keys)}."
  }

  validation {
    condition     = alltrue([for role in values(var.roles) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/.+$", role.arn))])
    error_message = "A role is given by its ARN, such as arn:aws:iam::111122223333:role/metering; got ${join(", ", [for role in values(var.roles) : role.arn])}."
  }
}

variable "tags" {
  description = "Tags of everything made here."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for key in keys(var.tags) : !startswith(lower(key), "aws:") && length(key) <= 128]) && length(var.tags) <= 50
    error_message = "At most 50 tags, keys of at most 128 characters that do not begin with aws: (reserved by AWS); got the keys ${join(", ", keys(var.tags))}."
  }

  validation {
    condition     = alltrue([for text in concat(keys(var.tags), values(var.tags)) : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]*$", text)) && length(text) <= 256]) && alltrue([for key in keys(var.tags) : length(key) > 0])
    error_message = "Tags are letters, digits, blanks and _ . : / = + - @, values of at most 256 characters and keys that are not empty; got ${jsonencode(var.tags)}."
  }
}

variable "tracing" {
  description = "Whether AWS X-Ray records the functions' runs. Their roles then have two X-Ray permissions, which have no resource level, so they are on every resource."
  type        = bool
  default     = false
  nullable    = false
}

variable "vpc" {
  description = "Subnets and security groups for the functions; they must reach DynamoDB (also in the subscribers table's Region), SQS, EventBridge, CloudWatch Logs and the Marketplace metering endpoint. Null: no VPC of yours."
  type        = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default     = null

  validation {
    condition     = var.vpc == null ? true : length(var.vpc.subnet_ids) > 0 && length(var.vpc.security_group_ids) > 0
    error_message = "vpc has at least one subnet and one security group; got ${try(length(var.vpc.subnet_ids), 0)} and ${try(length(var.vpc.security_group_ids), 0)}."
  }

  validation {
    condition     = var.vpc == null ? true : length(var.vpc.subnet_ids) <= 16 && length(var.vpc.security_group_ids) <= 5
    error_message = "Lambda takes at most 16 subnets and 5 security groups; got ${try(length(var.vpc.subnet_ids), 0)} and ${try(length(var.vpc.security_group_ids), 0)}."
  }

  validation {
    condition     = var.vpc == null ? true : alltrue([for id in var.vpc.subnet_ids : can(regex("^subnet-[0-9a-f]+$", id))]) && alltrue([for id in var.vpc.security_group_ids : can(regex("^sg-[0-9a-f]+$", id))])
    error_message = "vpc has ids such as subnet-0a1b2c3d and sg-0a1b2c3d; got ${jsonencode(var.vpc)}."
  }
}
