variable "architecture" {
  description = "Instruction set of the functions that use the layer: `arm64` or `x86_64`."
  type        = string
  nullable    = false
}

variable "lambda_package" {
  description = "Where the zips come from: null for the ones committed beside the modules, else a directory that holds `awsmp.zip`, `dependencies.zip` and `manifest.json`, or an S3 bucket and key prefix that hold copies of the committed zips. Exactly one of the two."
  type = object({
    directory = optional(string)
    s3        = optional(object({ bucket = string, prefix = string }))
  })
}

variable "layer_name" {
  description = "Name of the Lambda layer that carries the third-party dependencies."
  type        = string
  nullable    = false
}

variable "runtime" {
  description = "Lambda runtime of the functions that use the layer."
  type        = string
  nullable    = false
}
