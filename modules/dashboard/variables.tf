variable "name" {
  description = "Name of the dashboard; it is global to the account, so it ends in a Region code."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,255}$", var.name))
    error_message = "A dashboard's name is 1 to 255 letters, digits, hyphens and underscores; got \"${var.name}\"."
  }
}

variable "rows" {
  description = "Rows of widgets from the top. A widget has a `type` (such as `metric`, `alarm` or `text`), a `width` of the 24 columns, a `height`, and its properties as JSON."
  type = list(list(object({
    type            = string
    width           = number
    height          = number
    properties_json = string
  })))
  nullable = false

  validation {
    condition     = alltrue([for row in var.rows : length(row) > 0 && sum(concat([0], row[*].width)) <= 24])
    error_message = "A row has at least one widget, and its widgets are at most 24 columns wide together; got widths of ${jsonencode([for row in var.rows : row[*].width])}."
  }
}
