data "aws_region" "current" {}

module "naming" {
  source = "../naming"

  name_prefix  = var.name_prefix
  environment  = var.environment
  product_code = var.product_code
  region       = data.aws_region.current.id
}

locals {
  full = var.deployment_mode == "full"

  function_keys         = ["aggregator", "cleanup", "discoverer", "expiry", "submitter"]
  deployed_function_set = toset(local.full ? local.function_keys : ["expiry", "submitter"])

  queue_keys = ["cleanup", "deprovision-work", "work"]

  names = {
    functions        = { for key in local.function_keys : key => "${module.naming.base}-${key}" }
    queues           = { for key in local.queue_keys : key => "${module.naming.base}-${key}" }
    rules            = { for key in keys(local.schedules) : key => "${module.naming.base}-${key}" }
    layer            = "${module.naming.base}-dependencies"
    usage            = "${module.naming.base}-usage"
    aggregated_usage = "${module.naming.base}-aggregated-usage"
    deployment_path  = join("/", compact(["/marketplace", var.name_prefix, var.environment, "metering", var.product_code]))
  }

  role_names = { for key in local.function_keys : key => "${module.naming.base}-${key}-${local.region.code}" }

  # What AWS would refuse at apply: every name against the limit of its kind, in both deployment modes, so that switching the mode
  # cannot fail on a name.
  name_lengths = [
    for entry in concat(
      [for key in local.function_keys : { kind = "function", limit = 64, name = local.names.functions[key] }],
      [for key in local.function_keys : { kind = "role", limit = 64, name = "${module.naming.base}-${key}-${module.naming.region_code}" }],
      [for key in local.queue_keys : { kind = "queue", limit = 80, name = "${local.names.queues[key]}-dlq" }],
      [for key in keys(local.schedules) : { kind = "rule", limit = 64, name = local.names.rules[key] }],
    ) : merge(entry, { over = length(entry.name) > entry.limit })
  ]

  region = terraform_data.region.output
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

module "queue" {
  source   = "../queue"
  for_each = toset(local.full ? local.queue_keys : [])

  name                       = local.names.queues[each.key]
  visibility_timeout_seconds = 6 * local.timeouts_seconds[each.key == "cleanup" ? "cleanup" : "aggregator"]
  # A licence in its last hour cannot wait for five time-outs before somebody is told.
  max_receive_count = each.key == "deprovision-work" ? 3 : 5
  kms_key           = var.kms_key
  tags              = var.tags
}

module "function" {
  source   = "../lambda_function"
  for_each = local.deployed_function_set

  name                      = local.names.functions[each.key]
  role_name                 = local.role_names[each.key]
  description               = local.descriptions[each.key]
  handler                   = "awsmp.handlers.${each.key}.handler"
  environment               = local.environments[each.key]
  statements                = local.permissions[each.key]
  event_sources             = local.event_sources[each.key]
  scheduled                 = contains(["discoverer", "expiry", "submitter"], each.key)
  timeout_seconds           = local.timeouts_seconds[each.key]
  memory_mib                = lookup(var.lambda.memory_mib, each.key, local.memory_mib[each.key])
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
  description = "AWS Marketplace metering of ${var.product_code}: what is deployed, for the operator CLI"
  type        = "String"
  tags        = var.tags

  value = jsonencode({
    schema                 = 1
    module                 = "metering"
    packageVersion         = module.package.version
    productCode            = var.product_code
    environment            = local.environment
    region                 = local.region.id
    marketplaceRegion      = local.marketplace_region
    meteringMode           = var.metering_mode
    deploymentMode         = var.deployment_mode
    meteringLockHours      = var.metering_lock_hours
    billableWindowHours    = var.billable_window_hours
    usageTableTtlDays      = var.usage_table_ttl_days
    aggregatedUsageTtlDays = var.aggregated_usage_table_ttl_days
    quantityType           = var.quantity_type
    usageTable             = aws_dynamodb_table.usage.name
    aggregatedUsageTable   = aws_dynamodb_table.aggregated_usage.name
    subscribersTable       = var.subscribers_table.name
    subscribersTableRegion = var.subscribers_table.region
    queues                 = { for key, queue in module.queue : key => queue.name }
    deadLetterQueues       = { for key, queue in module.queue : key => queue.dlq_name }
    functions              = { for key, function in module.function : key => function.name }
  })
}
