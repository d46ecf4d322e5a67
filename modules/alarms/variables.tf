variable "alarms" {
  description = "Alarms by key. `severity` is `alarm` (money is lost unless somebody acts now) or `notice` (can wait until morning). The metric is compared as `value >= threshold` over `evaluation_periods` periods of `period_seconds`."
  type = map(object({
    description         = string
    namespace           = string
    metric_name         = string
    dimensions          = map(string)
    severity            = string
    statistic           = optional(string, "Sum")
    threshold           = optional(number, 1)
    period_seconds      = optional(number, 300)
    evaluation_periods  = optional(number, 1)
    datapoints_to_alarm = optional(number)
    treat_missing_data  = optional(string, "notBreaching")
  }))
  nullable = false

  validation {
    condition     = alltrue([for alarm in var.alarms : contains(["alarm", "notice"], alarm.severity)])
    error_message = "The severity of an alarm is \"alarm\" or \"notice\", not: ${join(", ", setsubtract([for alarm in var.alarms : alarm.severity], ["alarm", "notice"]))}."
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
