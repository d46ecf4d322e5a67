data "aws_region" "current" {}

module "naming" {
  source = "../naming"

  name_prefix  = var.name_prefix
  environment  = var.environment
  product_code = var.product_code
  region       = data.aws_region.current.id
}

locals {
  cloudfront = var.delivery == "cloudfront"

  # Addresses are verified where the notifications module mails the links.
  verifying = var.address_verification != null

  function_keys         = ["page", "register", "verify"]
  deployed_function_set = toset([for key in local.function_keys : key if local.verifying || key != "verify"])

  # Without verify, whose being here depends on a secret that may be encrypted with the very key whose policy names the others.
  ordinary_function_keys = ["page", "register"]

  names = {
    functions        = { for key in local.function_keys : key => "${module.naming.base}-${key}" }
    api              = "${module.naming.base}-registration"
    customer_profile = "${module.naming.base}-customer-profile"
    layer            = "${module.naming.base}-registration-dependencies"
    deployment_path  = join("/", compact(["/marketplace", var.name_prefix, var.environment, "registration", var.product_code]))
  }

  role_names = { for key in local.function_keys : key => "${module.naming.base}-${key}-${local.region.code}" }

  # What is global to an account, or to all accounts, ends in the Region's code. Bucket names are lowercase, and the account id
  # keeps two accounts that sell one product apart.
  account_names = {
    api_logs_role = "${module.naming.base}-api-logs-${local.region.code}"
    bucket        = "${lower(replace(module.naming.base, "_", "-"))}-page-${local.account_id}-${local.region.code}"
    cloudfront    = "${module.naming.base}-registration-${local.region.code}"
  }

  # What AWS would refuse at apply: every name against the limit of its kind.
  name_lengths = [
    for entry in concat(
      [for key in local.function_keys : { kind = "function", limit = 64, name = local.names.functions[key] }],
      [for key in local.function_keys : { kind = "role", limit = 64, name = "${module.naming.base}-${key}-${module.naming.region_code}" }],
      [
        { kind = "role", limit = 64, name = "${module.naming.base}-api-logs-${module.naming.region_code}" },
        { kind = "CloudFront function", limit = 64, name = "${module.naming.base}-registration-${module.naming.region_code}" },
      ],
      local.cloudfront ? [{ kind = "bucket", limit = 63, name = "${module.naming.base}-page-<account id>-${module.naming.region_code}" }] : [],
    ) : merge(entry, { over = length(entry.name) > entry.limit })
  ]

  region = terraform_data.region.output

  # Account and partition come from a resource that lives as long as the deployment, not from a data source.
  table_arn_parts = split(":", aws_dynamodb_table.customer_profile.arn)
  partition       = local.table_arn_parts[1]
  account_id      = local.table_arn_parts[4]
}

# A data source is read late when the caller puts depends_on on this module and something there changes. A role named after
# such a value would be replaced; one that is named after this record, written once, is not.
resource "terraform_data" "region" {
  input = {
    code = module.naming.region_code
    id   = data.aws_region.current.id
  }

  triggers_replace = { base = module.naming.base }

  lifecycle {
    ignore_changes = [input]

    precondition {
      condition     = !anytrue(local.name_lengths[*].over)
      error_message = "Too long for AWS: ${join("; ", [for entry in local.name_lengths : "${entry.kind} ${entry.name} has ${length(entry.name)} characters of ${entry.limit}" if entry.over])}. Shorten name_prefix or environment."
    }
  }
}

module "package" {
  source = "../lambda_package"

  architecture   = var.lambda.architecture
  lambda_package = var.lambda_package
  layer_name     = local.names.layer
  runtime        = var.lambda.runtime
}

module "function" {
  source   = "../lambda_function"
  for_each = toset(local.ordinary_function_keys)

  name                      = local.names.functions[each.key]
  role_name                 = local.role_names[each.key]
  description               = local.descriptions[each.key]
  handler                   = "awsmp.handlers.${each.key}.handler"
  environment               = local.environments[each.key]
  statements                = local.permissions[each.key]
  timeout_seconds           = local.timeouts_seconds[each.key]
  memory_mib                = lookup(var.lambda.memory_mib, each.key, 512)
  runtime                   = var.lambda.runtime
  architecture              = var.lambda.architecture
  code                      = module.package.code
  layer_arns                = [module.package.layer_arn]
  kms_key                   = var.kms_key
  log_retention_days        = var.log_retention_days
  code_signing              = var.code_signing
  reserved_concurrency      = lookup(var.reserved_concurrency, each.key, null)
  role                      = lookup(var.roles, each.key, null)
  role_path                 = var.role_path
  role_permissions_boundary = var.role_permissions_boundary
  tags                      = var.tags
  tracing                   = var.tracing
  vpc                       = var.vpc
}

# Describes this deployment to the operator CLI and to other states. Parameter Store reserves names that begin with `aws`.
resource "aws_ssm_parameter" "deployment" {
  #checkov:skip=CKV2_AWS_34:names and settings, no secret; a SecureString would ask every reader for a KMS permission
  name        = local.names.deployment_path
  description = "AWS Marketplace registration for ${var.product_code}: what is deployed, for the operator CLI"
  type        = "String"
  tags        = var.tags

  value = jsonencode({
    schema                 = 1
    module                 = "registration"
    packageVersion         = module.package.version
    productCode            = var.product_code
    environment            = local.environment
    region                 = local.region.id
    marketplaceRegion      = local.marketplace_region
    delivery               = var.delivery
    restApiId              = aws_api_gateway_rest_api.this.id
    stageName              = var.stage_name
    fulfillmentUrl         = local.fulfillment_url
    registrationUrl        = local.registration_url
    pageUrl                = local.page_url
    verifyUrl              = local.verify_url
    customerProfileTable   = aws_dynamodb_table.customer_profile.name
    promotedProfileFields  = local.promoted_fields
    subscribersTable       = var.subscribers_table.name
    subscribersTableRegion = var.subscribers_table.region
    functions              = merge({ for key, function in module.function : key => function.name }, { for name in module.verify[*].name : "verify" => name })
  })
}
