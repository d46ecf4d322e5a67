# Inputs that every module with alarms and a dashboard has alike, beside those of variables.common.tf.

variable "create_dashboard" {
  description = "Whether to create a CloudWatch dashboard: its first row tells whether money is at risk, or buyers are turned away, the others why and how the parts do."
  type        = bool
  default     = true
  nullable    = false
}

variable "runbook_base_url" {
  description = "Where your people find the runbooks: every alarm's description ends in `Runbook: <runbook_base_url>/<runbook>.md`. The default is their path in this repository."
  type        = string
  default     = "docs/runbooks"
  nullable    = false

  validation {
    condition     = length(var.runbook_base_url) <= 200 && can(regex("^(https?://[A-Za-z0-9.-]+(:[0-9]+)?(/[!-.0-~]+)*|[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*)$", var.runbook_base_url))
    error_message = "runbook_base_url is a URL such as https://example.com/your/mirror/blob/main/docs/runbooks, or a path such as docs/runbooks, without a slash at its end and of at most 200 characters; got \"${var.runbook_base_url}\"."
  }
}
