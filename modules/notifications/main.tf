data "aws_region" "current" {}

module "naming" {
  source = "../naming"

  name_prefix = var.name_prefix
  environment = var.environment
  region      = data.aws_region.current.id
}

locals {
  ses = var.transport.type == "ses"

  function_keys = [
    "notification-admin",
    "notification-contacts",
    "notification-feedback",
    "notification-intake",
    "notification-maintenance",
    "notification-sender",
  ]

  # Feedback about mail comes from SES; a mail server of one's own sends none here.
  deployed_function_set = toset([for key in local.function_keys : key if local.ses || key != "notification-feedback"])

  names = {
    functions         = { for key in local.function_keys : key => "${module.naming.base}-${key}" }
    bus               = "${module.naming.base}-notifications"
    configuration_set = "${module.naming.base}-notifications"
    contacts_failed   = "${module.naming.base}-notification-contacts-failed"
    event_queue       = "${module.naming.base}-notification-events"
    feedback          = "${module.naming.base}-notification-feedback"
    layer             = "${module.naming.base}-notifications-dependencies"
    table             = "${module.naming.base}-notifications"
    deployment_path   = join("/", compact(["/marketplace", var.name_prefix, var.environment, "notifications"]))

    rules     = { for key in ["billing", "events"] : key => "${module.naming.base}-notification-${key}" }
    schedules = { for key in ["maintenance", "sender"] : key => "${module.naming.base}-notification-${key}" }
  }

  role_names = { for key in local.function_keys : key => "${module.naming.base}-${key}-${local.region.code}" }

  # What AWS would refuse at apply: every name against the limit of its kind, with both transports, so that changing the transport
  # cannot fail on a name.
  name_lengths = [
    for entry in concat(
      [for key in local.function_keys : { kind = "function", limit = 64, name = local.names.functions[key] }],
      [for key in local.function_keys : { kind = "role", limit = 64, name = "${module.naming.base}-${key}-${module.naming.region_code}" }],
      [for name in [local.names.event_queue, local.names.feedback] : { kind = "queue", limit = 80, name = "${name}-dlq" }],
      [for name in concat(values(local.names.rules), values(local.names.schedules)) : { kind = "rule", limit = 64, name = name }],
      [
        { kind = "queue", limit = 80, name = local.names.contacts_failed },
        { kind = "configuration set", limit = 64, name = local.names.configuration_set },
      ],
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

module "function" {
  source   = "../lambda_function"
  for_each = local.deployed_function_set

  name                      = local.names.functions[each.key]
  role_name                 = local.role_names[each.key]
  description               = local.descriptions[each.key]
  handler                   = "awsmp.handlers.${replace(each.key, "-", "_")}.handler"
  environment               = local.environments[each.key]
  statements                = local.permissions[each.key]
  event_sources             = local.event_sources[each.key]
  stream_sources            = local.stream_sources[each.key]
  scheduled                 = contains(["notification-maintenance", "notification-sender"], each.key)
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
  description = "AWS Marketplace notifications: what is deployed, for the operator CLI"
  type        = "String"
  tags        = var.tags

  value = jsonencode({
    schema                  = 1
    module                  = "notifications"
    packageVersion          = module.package.version
    environment             = local.environment
    region                  = local.region.id
    transport               = var.transport.type
    notificationsTable      = aws_dynamodb_table.notifications.name
    eventBus                = aws_cloudwatch_event_bus.this.name
    eventQueue              = module.event_queue.name
    eventDeadLetterQueue    = module.event_queue.dlq_name
    feedbackQueue           = one(module.feedback_queue[*].name)
    feedbackDeadLetterQueue = one(module.feedback_queue[*].dlq_name)
    contactsFailedQueue     = module.contacts_failed.name
    configurationSet        = one(aws_sesv2_configuration_set.this[*].configuration_set_name)
    customerProfileTables   = { for key, table in var.customer_profile_tables : key => table.name }
    subscribersTable        = var.subscribers_table.name
    subscribersTableRegion  = var.subscribers_table.region
    functions               = { for key, function in module.function : key => function.name }
  })
}
