variable "name_prefix" {
  description = "First part of every name."
  type        = string
  nullable    = false
}

variable "region" {
  description = "AWS Region id, for example `eu-west-1`."
  type        = string
  nullable    = false
}

variable "environment" {
  description = "Second part of every name; null leaves it out."
  type        = string
  default     = null
}

variable "product_code" {
  description = "Third part of every name of a per-product module; null leaves it out."
  type        = string
  default     = null
}
