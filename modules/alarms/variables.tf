variable "alarms" {
  description = "Alarms by key. `severity` is `alarm` (money is lost unless somebody acts now) or `notice` (can wait until morning). The metric is compared as `value >= threshold`, or as `comparison_operator` says, over `evaluation_periods` periods of `period_seconds`. `runbook` names the runbook where it is not the key: alarms of the same kind share one."
  type = map(object({
    description         = string
    namespace           = string
    metric_name         = string
    dimensions          = map(string)
    severity            = string
    statistic           = optional(string, "Sum")
    threshold           = optional(number, 1)
    period_seconds      = optional(number, 300)
    comparison_operator = optional(string, "GreaterThanOrEqualToThreshold")
    evaluation_periods  = optional(number, 1)
    datapoints_to_alarm = optional(number)
    treat_missing_data  = optional(string, "notBreaching")
    runbook             = optional(string)
  }))
  nullable = false

  validation {
    condition     = alltrue([for alarm in var.alarms : contains(["alarm", "notice"], alarm.severity)])
    error_message = "The severity of an alarm is \"alarm\" or \"notice\", not: ${join(", ", setsubtract([for alarm in var.alarms : alarm.severity], ["alarm", "notice"]))}."
  }

  validation {
    condition     = alltrue([for alarm in var.alarms : contains(["breaching", "ignore", "missing", "notBreaching"], alarm.treat_missing_data)])
    error_message = "treat_missing_data is breaching, ignore, missing or notBreaching; got: ${join(", ", distinct([for alarm in var.alarms : alarm.treat_missing_data]))}."
  }

  validation {
    condition     = alltrue([for alarm in var.alarms : contains(["GreaterThanOrEqualToThreshold", "LessThanOrEqualToThreshold", "LessThanThreshold"], alarm.comparison_operator)])
    error_message = "comparison_operator is GreaterThanOrEqualToThreshold, LessThanOrEqualToThreshold or LessThanThreshold; got: ${join(", ", distinct([for alarm in var.alarms : alarm.comparison_operator]))}."
  }
}

variable "name_base" {
  description = "First part of every alarm's name; the key is the second."
  type        = string
  nullable    = false
}

variable "alarm_topic" {
  description = "SNS topic that wakes somebody; null sends the alarms to the notice topic, if there is one."
  type        = object({ arn = string })
  default     = null
}

variable "notice_topic" {
  description = "SNS topic for what can wait; null sends the notices to the alarm topic, if there is one."
  type        = object({ arn = string })
  default     = null
}

variable "runbook_base_url" {
  description = "Where the runbooks lie: every description ends in `Runbook: <runbook_base_url>/<runbook>.md`. Null leaves that out."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of every alarm."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "thresholds" {
  description = "Thresholds that replace the ones in `alarms`, by alarm key."
  type        = map(number)
  default     = {}
  nullable    = false
}
