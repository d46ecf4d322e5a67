data "aws_region" "current" {}

module "naming" {
  source = "../naming"

  name_prefix = var.name_prefix
  environment = var.environment
  region      = data.aws_region.current.id
}

locals {
  # Somebody listens to changes of subscriptions only where the notifications module runs.
  forwarding = length(var.forward_event_buses) > 0

  function_keys         = ["deprovision-cleanup", "subscriber-forwarder", "subscription"]
  deployed_function_set = toset([for key in local.function_keys : key if local.forwarding || key != "subscriber-forwarder"])

  # Without the forwarder, whose being here depends on buses that may be encrypted with the very key whose policy names the others.
  ordinary_function_keys = ["deprovision-cleanup", "subscription"]

  names = {
    functions       = { for key in local.function_keys : key => "${module.naming.base}-${key}" }
    layer           = "${module.naming.base}-events-dependencies"
    subscribers     = "${module.naming.base}-subscribers"
    parked          = "${module.naming.base}-parked-agreement-events"
    queue           = "${module.naming.base}-events"
    event_rule      = "${module.naming.base}-events"
    schedule_rule   = "${module.naming.base}-deprovision-cleanup"
    forward_failed  = "${module.naming.base}-subscriber-forwarder-failed"
    alarms          = "${module.naming.base}-events"
    deployment_path = join("/", compact(["/marketplace", var.name_prefix, var.environment, "events"]))
  }

  # What AWS would refuse at apply: the longest name of each kind against its limit.
  name_lengths = [
    for entry in concat(
      [for key in local.ordinary_function_keys : { kind = "function", limit = 64, name = local.names.functions[key] }],
      [for key in local.ordinary_function_keys : { kind = "role", limit = 64, name = "${module.naming.base}-${key}-${module.naming.region_code}" }],
      [
        { kind = "queue", limit = 80, name = "${local.names.queue}-dlq" },
        { kind = "rule", limit = 64, name = local.names.schedule_rule },
      ],
    ) : merge(entry, { over = length(entry.name) > entry.limit })
  ]

  role_names = { for key in local.function_keys : key => "${module.naming.base}-${key}-${local.region.code}" }

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
      condition     = data.aws_region.current.id == "us-east-1" || startswith(data.aws_region.current.id, "cn-") || startswith(data.aws_region.current.id, "eusc-")
      error_message = "AWS Marketplace sends its agreement and licence events to us-east-1 only (outside the China and European Sovereign partitions), and this module's provider is in ${data.aws_region.current.id}: it would wait for events that never come. Pass providers = { aws = aws.<alias of us-east-1> }."
    }

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
  handler                   = local.functions[each.key].handler
  environment               = local.functions[each.key].environment
  statements                = local.functions[each.key].statements
  event_sources             = local.functions[each.key].event_sources
  scheduled                 = local.functions[each.key].scheduled
  timeout_seconds           = local.timeouts_seconds[each.key]
  memory_mib                = lookup(var.lambda.memory_mib, each.key, 256)
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
  description = "AWS Marketplace events: what is deployed, for the operator CLI"
  type        = "String"
  tags        = var.tags

  value = jsonencode({
    schema                     = 1
    module                     = "events"
    packageVersion             = module.package.version
    environment                = local.environment
    region                     = local.region.id
    productCodes               = sort(tolist(var.product_codes))
    subscribersTable           = aws_dynamodb_table.subscribers.name
    subscribersTableArn        = aws_dynamodb_table.subscribers.arn
    parkedAgreementEventsTable = aws_dynamodb_table.parked_agreement_events.name
    eventQueue                 = module.queue.name
    eventDeadLetterQueue       = module.queue.dlq_name
    functions                  = merge({ for key, function in module.function : key => function.name }, { for name in module.forwarder[*].name : "subscriber-forwarder" => name })
    forwardEventBuses          = { for region, bus in var.forward_event_buses : region => bus.arn }
  })
}
