# The link in a mail leads to a page with a button: what scanners of mail only look at verifies nothing. All of it is there only where
# somebody mails links.
module "verify" {
  source = "../lambda_function"
  count  = local.verifying ? 1 : 0

  name                      = local.names.functions["verify"]
  role_name                 = local.role_names["verify"]
  description               = local.descriptions["verify"]
  handler                   = "awsmp.handlers.verify.handler"
  environment               = local.environments["verify"]
  statements                = local.permissions["verify"]
  timeout_seconds           = local.timeouts_seconds["verify"]
  memory_mib                = lookup(var.lambda.memory_mib, "verify", 512)
  runtime                   = var.lambda.runtime
  architecture              = var.lambda.architecture
  code                      = module.package.code
  layer_arns                = [module.package.layer_arn]
  kms_key                   = var.kms_key
  log_retention_days        = var.log_retention_days
  code_signing              = var.code_signing
  reserved_concurrency      = lookup(var.reserved_concurrency, "verify", null)
  role                      = lookup(var.roles, "verify", null)
  role_path                 = var.role_path
  role_permissions_boundary = var.role_permissions_boundary
  tags                      = var.tags
  tracing                   = var.tracing
  vpc                       = var.vpc
}

locals {
  verify_routes = {
    "GET /verify"  = { function = "verify", resource = "/verify" }
    "HEAD /verify" = { function = "verify", resource = "/verify" }
    "POST /verify" = { function = "verify", resource = "/verify" }
  }

  # What API Gateway calls each function by, and by its name.
  invoke_arns = merge({ for key, function in module.function : key => function.invoke_arn }, { for arn in module.verify[*].invoke_arn : "verify" => arn })
  callables   = merge({ for key, function in module.function : key => function.name }, { for name in module.verify[*].name : "verify" => name })
}
