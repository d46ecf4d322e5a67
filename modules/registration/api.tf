locals {
  # Every route by what it is called with; the keys are addresses.
  ordinary_routes = {
    "GET /"               = { function = "page", resource = "/" }
    "HEAD /"              = { function = "page", resource = "/" }
    "GET /assets/{file}"  = { function = "page", resource = "/assets/{file}" }
    "HEAD /assets/{file}" = { function = "page", resource = "/assets/{file}" }
    "GET /fulfillment"    = { function = "page", resource = "/fulfillment" }
    "HEAD /fulfillment"   = { function = "page", resource = "/fulfillment" }
    "POST /fulfillment"   = { function = "page", resource = "/fulfillment" }
    "OPTIONS /register"   = { function = "register", resource = "/register" }
    "POST /register"      = { function = "register", resource = "/register" }
  }

  routes    = merge(local.ordinary_routes, { for key, route in local.verify_routes : key => route if local.verifying })
  top_parts = concat(["assets", "fulfillment", "register"], local.verifying ? ["verify"] : [])

  resource_ids = merge(
    {
      "/"              = aws_api_gateway_rest_api.this.root_resource_id
      "/assets/{file}" = aws_api_gateway_resource.asset.id
    },
    { for part in local.top_parts : "/${part}" => aws_api_gateway_resource.top[part].id if part != "assets" },
  )

  # What API Gateway answers by itself, in the words of the functions' own answers: a code, no id and no hint at what is behind.
  gateway_responses = {
    DEFAULT_5XX                  = { status = null, error = "Unavailable", headers = {} }
    MISSING_AUTHENTICATION_TOKEN = { status = "404", error = "NotFound", headers = {} }
    REQUEST_TOO_LARGE            = { status = "413", error = "TooLarge", headers = {} }
    THROTTLED                    = { status = "429", error = "Throttled", headers = { Retry-After = "5" } }
  }

  gateway_response_headers = {
    Cache-Control             = "no-store"
    Strict-Transport-Security = "max-age=31536000"
    X-Content-Type-Options    = "nosniff"
  }

  # Who, what and how it went: no token, body, query string, header, address or path that a caller made up.
  access_log_format = jsonencode({
    apiId             = "$context.apiId"
    error             = "$context.error.responseType"
    extendedRequestId = "$context.extendedRequestId"
    httpMethod        = "$context.httpMethod"
    integrationStatus = "$context.integration.integrationStatus"
    protocol          = "$context.protocol"
    requestId         = "$context.requestId"
    requestTime       = "$context.requestTime"
    resourcePath      = "$context.resourcePath"
    responseLatency   = "$context.responseLatency"
    responseLength    = "$context.responseLength"
    stage             = "$context.stage"
    status            = "$context.status"
    wafResponseCode   = "$context.wafResponseCode"
  })

  # Nothing tells a module the partition's domain but a data source, which would be read late; API ids are known from the API.
  dns_suffixes = {
    aws-cn    = "amazonaws.com.cn"
    aws-eusc  = "amazonaws.eu"
    aws-iso   = "c2s.ic.gov"
    aws-iso-b = "sc2s.sgov.gov"
    aws-iso-e = "cloud.adc-e.uk"
    aws-iso-f = "csp.hci.ic.gov"
  }

  # The URLs are made of the API's id, not of the stage: the stage depends on the functions, and through their settings on
  # allowed_origins and page_regions, which are made of other deployments' URLs.
  api_host = "${aws_api_gateway_rest_api.this.id}.execute-api.${local.region.id}.${lookup(local.dns_suffixes, local.partition, "amazonaws.com")}"

  regional_url   = var.domain == null ? "https://${local.api_host}/${var.stage_name}" : "https://${var.domain.name}"
  cloudfront_url = var.domain == null ? "https://${coalesce(one(aws_cloudfront_distribution.this[*].domain_name), "none")}" : "https://${var.domain.name}"
  base_url       = local.cloudfront ? local.cloudfront_url : local.regional_url

  fulfillment_url  = "${local.base_url}/fulfillment"
  registration_url = "${local.base_url}/register"
  verify_url       = local.verifying ? "${local.base_url}/verify" : null
  page_url         = var.page == null ? var.own_page_url : "${local.base_url}/"
  page_origin      = regex("^https://[^/?#]+", local.page_url)
}

resource "aws_api_gateway_rest_api" "this" {
  # No minimum_compression_size: it would let callers send compressed bodies, which AWS WAF does not look into.
  name        = local.names.api
  description = "AWS Marketplace registration for ${var.product_code}"
  tags        = var.tags

  endpoint_configuration {
    types = ["REGIONAL"]
  }

  lifecycle {
    # Should anything ever replace the API, there is no moment without one.
    create_before_destroy = true
  }
}

resource "aws_api_gateway_resource" "top" {
  for_each = toset(local.top_parts)

  rest_api_id = aws_api_gateway_rest_api.this.id
  parent_id   = aws_api_gateway_rest_api.this.root_resource_id
  path_part   = each.key
}

resource "aws_api_gateway_resource" "asset" {
  rest_api_id = aws_api_gateway_rest_api.this.id
  parent_id   = aws_api_gateway_resource.top["assets"].id
  path_part   = "{file}"
}

resource "aws_api_gateway_method" "this" {
  #checkov:skip=CKV_AWS_59:buyers have no account yet when AWS Marketplace sends them here; what a token proves is asked of AWS Marketplace, and WAF, throttling and size limits hold strangers back
  #checkov:skip=CKV2_AWS_53:the functions validate: a model could not say in buyers' words what is wrong with a field, and a form post has none
  for_each = local.routes

  rest_api_id        = aws_api_gateway_rest_api.this.id
  resource_id        = local.resource_ids[each.value.resource]
  http_method        = split(" ", each.key)[0]
  authorization      = "NONE"
  api_key_required   = local.cloudfront
  request_parameters = endswith(each.key, "{file}") ? { "method.request.path.file" = true } : null
}

resource "aws_api_gateway_integration" "this" {
  for_each = local.routes

  rest_api_id             = aws_api_gateway_rest_api.this.id
  resource_id             = local.resource_ids[each.value.resource]
  http_method             = aws_api_gateway_method.this[each.key].http_method
  type                    = "AWS_PROXY"
  integration_http_method = "POST"
  uri                     = local.invoke_arns[each.value.function]
}

resource "aws_lambda_permission" "api" {
  for_each = local.deployed_function_set

  statement_id  = "api"
  action        = "lambda:InvokeFunction"
  function_name = local.callables[each.key]
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_api_gateway_rest_api.this.execution_arn}/${var.stage_name}/*"
}

resource "aws_api_gateway_gateway_response" "this" {
  for_each = local.gateway_responses

  rest_api_id        = aws_api_gateway_rest_api.this.id
  response_type      = each.key
  status_code        = each.value.status
  response_templates = { "application/json" = jsonencode({ error = each.value.error }) }
  response_parameters = {
    for name, value in merge(local.gateway_response_headers, each.value.headers) : "gatewayresponse.header.${name}" => "'${value}'"
  }
}

resource "aws_api_gateway_deployment" "this" {
  rest_api_id = aws_api_gateway_rest_api.this.id

  # A deployment is a snapshot: it is taken anew when anything of the API that it shows changes.
  triggers = {
    api = sha256(jsonencode({
      api_key_required  = local.cloudfront
      functions         = { for key in local.deployed_function_set : key => local.names.functions[key] }
      gateway_responses = local.gateway_responses
      headers           = local.gateway_response_headers
      routes            = local.routes
    }))
  }

  depends_on = [
    aws_api_gateway_gateway_response.this,
    aws_api_gateway_integration.this,
    aws_api_gateway_method.this,
  ]

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudwatch_log_group" "access" {
  #checkov:skip=CKV_AWS_158:CloudWatch Logs encrypts with its own key unless kms_key is given; no line names a buyer
  name              = "/aws/apigateway/${local.names.api}"
  retention_in_days = var.log_retention_days
  kms_key_id        = try(var.kms_key.arn, null)
  tags              = var.tags
}

resource "aws_api_gateway_stage" "this" {
  #checkov:skip=CKV_AWS_73:no tracing of the API whatever tracing says, because X-Ray would keep buyers' addresses; access log and metrics name the route and the outcome
  #checkov:skip=CKV_AWS_120:nothing here may be cached: every answer is one buyer's
  #checkov:skip=CKV2_AWS_51:browsers of buyers have no client certificate
  #checkov:skip=CKV2_AWS_4:no execution log, because at its levels it may hold headers and bodies; the access log has the outcome of every request
  #checkov:skip=CKV2_AWS_77:the functions are Python, without Log4j, and the rule group for it would also judge random tokens by their body
  #checkov:skip=CKV2_AWS_29:the web ACL is attached by aws_wafv2_web_acl_association unless create_web_acl is false
  rest_api_id   = aws_api_gateway_rest_api.this.id
  deployment_id = aws_api_gateway_deployment.this.id
  stage_name    = var.stage_name
  description   = "AWS Marketplace registration for ${var.product_code}"
  tags          = var.tags

  access_log_settings {
    destination_arn = aws_cloudwatch_log_group.access.arn
    format          = local.access_log_format
  }

  # AWS refuses an access log while the account has no role to write it.
  depends_on = [aws_api_gateway_account.this]
}

resource "aws_api_gateway_method_settings" "this" {
  #checkov:skip=CKV_AWS_225:nothing here may be cached: every answer is one buyer's
  #checkov:skip=CKV_AWS_308:there is no cache to encrypt
  rest_api_id = aws_api_gateway_rest_api.this.id
  stage_name  = aws_api_gateway_stage.this.stage_name
  method_path = "*/*"

  settings {
    caching_enabled        = false
    data_trace_enabled     = false
    logging_level          = "OFF"
    metrics_enabled        = false
    throttling_burst_limit = var.throttling.burst_limit
    throttling_rate_limit  = var.throttling.rate_limit
  }
}

# One role for all APIs of the account in this Region.
resource "aws_iam_role" "api_logs" {
  count = var.manage_api_gateway_account ? 1 : 0

  name                 = local.account_names.api_logs_role
  path                 = var.role_path
  description          = "Writes the access logs of API Gateway"
  permissions_boundary = try(var.role_permissions_boundary.arn, null)
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "apigateway.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

# API Gateway checks for this policy's permissions, on every log group, when the role is set.
resource "aws_iam_role_policy_attachment" "api_logs" {
  count = var.manage_api_gateway_account ? 1 : 0

  role       = aws_iam_role.api_logs[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
}

resource "aws_api_gateway_account" "this" {
  count = var.manage_api_gateway_account ? 1 : 0

  cloudwatch_role_arn = aws_iam_role.api_logs[0].arn

  depends_on = [aws_iam_role_policy_attachment.api_logs]
}

# --- Host name of one's own, without CloudFront -------------------------------------------------------------------------------

resource "aws_api_gateway_domain_name" "this" {
  count = var.domain != null && !local.cloudfront ? 1 : 0

  domain_name              = var.domain.name
  regional_certificate_arn = var.domain.certificate.arn
  security_policy          = "TLS_1_2"
  tags                     = var.tags

  endpoint_configuration {
    types = ["REGIONAL"]
  }

  lifecycle {
    precondition {
      condition     = split(":", "${var.domain.certificate.arn}::::")[3] == data.aws_region.current.id
      error_message = "API Gateway takes certificates of its own Region (${data.aws_region.current.id}) only; domain.certificate.arn is ${var.domain.certificate.arn}."
    }
  }
}

resource "aws_api_gateway_base_path_mapping" "this" {
  count = var.domain != null && !local.cloudfront ? 1 : 0

  api_id      = aws_api_gateway_rest_api.this.id
  stage_name  = aws_api_gateway_stage.this.stage_name
  domain_name = aws_api_gateway_domain_name.this[0].domain_name
}
