locals {
  s3        = try(var.lambda_package.s3, null)
  directory = local.s3 == null ? coalesce(try(var.lambda_package.directory, null), "${path.module}/../../lambda_dist") : null

  # The bytes in S3 are copies of the committed zips, so the committed manifest describes them as well. Signed copies have another hash in
  # Lambda, which the provider does not compare: a new release is seen by the committed one.
  manifest = jsondecode(file("${coalesce(local.directory, "${path.module}/../../lambda_dist")}/manifest.json"))

  names = {
    code         = "awsmp.zip"
    dependencies = "dependencies.zip"
  }

  packages = {
    for key, name in local.names : key => {
      name          = name
      path          = local.s3 == null ? "${local.directory}/${name}" : null
      s3_bucket     = try(local.s3.bucket, null)
      s3_key        = local.s3 == null ? null : "${local.s3.prefix}${name}"
      sha256        = local.manifest.packages[name].sha256
      sha256_base64 = local.manifest.packages[name].sha256_base64
    }
  }
}

# A layer version is replaced by any new `filename`, so a checkout in another folder would replace it. The path is
# taken over only when there are new bytes to upload.
resource "terraform_data" "dependencies" {
  input = local.packages.dependencies.path

  triggers_replace = {
    layer  = var.layer_name
    sha256 = local.packages.dependencies.sha256
    source = local.s3 == null ? "file" : "s3"
  }

  lifecycle {
    ignore_changes = [input]

    precondition {
      condition = alltrue([
        for package in local.packages :
        package.path == null ? true : filebase64sha256(package.path) == package.sha256_base64
      ])
      error_message = "A zip in ${coalesce(local.directory, "S3")} is not the one that its manifest.json describes. Build both together, or take them from one release."
    }
  }
}

resource "aws_lambda_layer_version" "dependencies" {
  layer_name               = var.layer_name
  description              = "Third-party Python packages, release ${local.manifest.version}"
  filename                 = local.s3 == null ? terraform_data.dependencies.output : null
  s3_bucket                = local.packages.dependencies.s3_bucket
  s3_key                   = local.packages.dependencies.s3_key
  source_code_hash         = local.packages.dependencies.sha256_base64
  compatible_architectures = [var.architecture]
  compatible_runtimes      = [var.runtime]

  lifecycle {
    # Functions move to the new version before the old one goes.
    create_before_destroy = true
  }
}
