output "code" {
  description = "The function zip: its local path or its place in S3, and its SHA-256 in both spellings."
  value = {
    name          = local.packages.code.name
    path          = local.packages.code.path
    s3_bucket     = local.packages.code.s3_bucket
    s3_key        = local.packages.code.s3_key
    sha256        = local.packages.code.sha256
    sha256_base64 = local.packages.code.sha256_base64
  }
}

output "layer_arn" {
  description = "ARN of the layer version with the third-party dependencies."
  value       = aws_lambda_layer_version.dependencies.arn
}

output "version" {
  description = "Release that the zips belong to, from their manifest."
  value       = local.manifest.version
}
