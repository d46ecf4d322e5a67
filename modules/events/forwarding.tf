# Tells the Regions that notify buyers what has changed. All of it is there only where somebody listens.

# The forwarder's names are the longest here. A deployment without it may have a longer environment.
resource "terraform_data" "forwarding" {
  count = local.forwarding ? 1 : 0

  lifecycle {
    precondition {
      condition     = length("${module.naming.base}-subscriber-forwarder-${module.naming.region_code}") <= 64
      error_message = "Too long for AWS: role ${module.naming.base}-subscriber-forwarder-${module.naming.region_code} has ${length("${module.naming.base}-subscriber-forwarder-${module.naming.region_code}")} characters of 64. Shorten name_prefix or environment."
    }
  }
}

module "forwarder" {
  source = "../lambda_function"
  count  = local.forwarding ? 1 : 0

  name                      = local.names.functions["subscriber-forwarder"]
  role_name                 = local.role_names["subscriber-forwarder"]
  description               = local.descriptions.subscriber-forwarder
  handler                   = "awsmp.handlers.subscriber_forwarder.handler"
  statements                = local.permissions.subscriber-forwarder
  timeout_seconds           = local.timeouts_seconds.subscriber-forwarder
  memory_mib                = lookup(var.lambda.memory_mib, "subscriber-forwarder", 256)
  runtime                   = var.lambda.runtime
  architecture              = var.lambda.architecture
  code                      = module.package.code
  layer_arns                = [module.package.layer_arn]
  kms_key                   = var.kms_key
  log_retention_days        = var.log_retention_days
  code_signing              = var.code_signing
  reserved_concurrency      = lookup(var.reserved_concurrency, "subscriber-forwarder", null)
  role                      = lookup(var.roles, "subscriber-forwarder", null)
  role_path                 = var.role_path
  role_permissions_boundary = var.role_permissions_boundary
  tags                      = var.tags
  tracing                   = var.tracing
  vpc                       = var.vpc

  environment = merge(local.common_environment, {
    FORWARD_EVENT_BUSES     = local.forward_event_buses_json
    POWERTOOLS_SERVICE_NAME = "subscriber-forwarder"
  })

  stream_sources = {
    subscribers = {
      stream_arn = aws_dynamodb_table.subscribers.stream_arn
      batch_size = 25
      # Half of what the stream keeps: what waits behind a record that is given up still has as long.
      maximum_record_age_seconds = 43200
      maximum_retry_attempts     = -1
      on_failure_queue_arn       = module.forward_failed[0].arn
    }
  }
}

module "forward_failed" {
  source = "../failure_queue"
  count  = local.forwarding ? 1 : 0

  name    = local.names.forward_failed
  kms_key = var.kms_key
  tags    = var.tags
}
