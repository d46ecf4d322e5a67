# AWS keeps `filename` in its state only: another checkout, another path, and every plan would show a change. The path is
# taken over only when there are new bytes to upload or the function is a new one.
resource "terraform_data" "code" {
  input = var.code.path

  triggers_replace = {
    function = var.name
    package  = var.code.name
    sha256   = var.code.sha256
    source   = var.code.path == null ? "s3" : "file"
  }

  lifecycle {
    ignore_changes = [input]
  }
}

resource "aws_cloudwatch_log_group" "this" {
  #checkov:skip=CKV_AWS_158:CloudWatch Logs encrypts with its own key unless kms_key is given; account ids and licence ARNs are masked before they are logged
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = try(var.kms_key.arn, null)
  tags              = var.tags
}

resource "aws_lambda_function" "this" {
  #checkov:skip=CKV_AWS_50:optional through tracing, because X-Ray needs a permission on every resource; each log line carries the record's key and each outcome is a metric
  #checkov:skip=CKV_AWS_115:optional through reserved_concurrency, because new accounts may have no concurrency to reserve; two runs at once are harmless by conditional writes
  #checkov:skip=CKV_AWS_116:queue-fed functions dead-letter in SQS; a scheduled run that fails is repeated by the next tick and alarms through Errors
  #checkov:skip=CKV_AWS_117:optional through vpc; the function calls only public AWS endpoints, over TLS, and listens to nothing
  #checkov:skip=CKV_AWS_173:Lambda encrypts the environment with its own key unless kms_key is given; it holds names and limits, no secret
  #checkov:skip=CKV_AWS_272:optional through code_signing; the zip's SHA-256 is pinned in source_code_hash and anybody can rebuild the same bytes from source
  function_name                  = var.name
  description                    = var.description
  role                           = var.role == null ? aws_iam_role.this[0].arn : var.role.arn
  handler                        = var.handler
  runtime                        = var.runtime
  architectures                  = [var.architecture]
  layers                         = var.layer_arns
  memory_size                    = var.memory_mib
  timeout                        = var.timeout_seconds
  reserved_concurrent_executions = var.reserved_concurrency
  kms_key_arn                    = try(var.kms_key.arn, null)
  code_signing_config_arn        = try(var.code_signing.arn, null)
  filename                       = var.code.path == null ? null : terraform_data.code.output
  s3_bucket                      = var.code.s3_bucket
  s3_key                         = var.code.s3_key
  source_code_hash               = var.code.sha256_base64
  tags                           = var.tags

  environment {
    variables = var.environment
  }

  # Set in full: AWS fills in what is missing and a later plan would show it. Text, because the function writes JSON lines
  # (logs and embedded metrics) itself.
  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.this.name
  }

  tracing_config {
    mode = var.tracing ? "Active" : "PassThrough"
  }

  dynamic "vpc_config" {
    for_each = var.vpc == null ? [] : [var.vpc]

    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids
    }
  }

  # The first invocation must not find a role that cannot do its work yet.
  depends_on = [aws_iam_role_policy.this]
}

resource "aws_lambda_function_event_invoke_config" "this" {
  count = var.scheduled ? 1 : 0

  function_name                = aws_lambda_function.this.function_name
  maximum_event_age_in_seconds = 300
  maximum_retry_attempts       = 0
}

resource "aws_lambda_event_source_mapping" "this" {
  for_each = var.event_sources

  event_source_arn        = each.value.queue_arn
  function_name           = aws_lambda_function.this.arn
  batch_size              = each.value.batch_size
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = var.tags

  scaling_config {
    maximum_concurrency = each.value.maximum_concurrency
  }

  # Creating a mapping is refused while the role cannot read the queue.
  depends_on = [aws_iam_role_policy.this]
}

resource "aws_lambda_event_source_mapping" "stream" {
  for_each = var.stream_sources

  event_source_arn                   = each.value.stream_arn
  function_name                      = aws_lambda_function.this.arn
  batch_size                         = each.value.batch_size
  bisect_batch_on_function_error     = true
  function_response_types            = ["ReportBatchItemFailures"]
  maximum_batching_window_in_seconds = 1
  maximum_record_age_in_seconds      = each.value.maximum_record_age_seconds
  maximum_retry_attempts             = each.value.maximum_retry_attempts
  parallelization_factor             = 1
  # From the beginning: a new mapping that started with the latest record would miss what changes while it is made.
  starting_position = "TRIM_HORIZON"
  tags              = var.tags

  destination_config {
    on_failure {
      destination_arn = each.value.on_failure_queue_arn
    }
  }

  # Creating a mapping is refused while the role cannot read the stream.
  depends_on = [aws_iam_role_policy.this]
}
