# Everything that the policies ask for.

resource "aws_sqs_queue" "kept_dlq" {
  name = "kept-dlq"
}

resource "aws_sqs_queue" "kept" {
  name           = "kept"
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.kept_dlq.arn, maxReceiveCount = 5 })
}

resource "aws_lambda_function" "kept" {
  function_name = "kept"
  role          = aws_iam_role.kept.arn
  handler       = "handler"
  runtime       = "python3.13"
  filename      = "kept.zip"
}

resource "aws_lambda_event_source_mapping" "kept" {
  event_source_arn        = aws_sqs_queue.kept.arn
  function_name           = aws_lambda_function.kept.arn
  function_response_types = ["ReportBatchItemFailures"]
}

resource "aws_cloudwatch_metric_alarm" "kept_errors" {
  alarm_name          = "kept-errors"
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = "kept" }
  comparison_operator = "GreaterThanOrEqualToThreshold"
  evaluation_periods  = 1
}

resource "aws_cloudwatch_metric_alarm" "kept_dlq" {
  alarm_name          = "kept-dlq"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = "kept-dlq" }
  comparison_operator = "GreaterThanOrEqualToThreshold"
  evaluation_periods  = 1
}

resource "aws_dynamodb_table" "kept" {
  name                        = "kept"
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = true
  hash_key                    = "key"

  attribute {
    name = "key"
    type = "S"
  }
}

resource "aws_iam_role" "kept" {
  name               = "kept"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [] })
}

resource "aws_iam_role_policy" "kept" {
  role = aws_iam_role.kept.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["dynamodb:GetItem", "dynamodb:Query"]
      Resource = "arn:aws:dynamodb:eu-west-1:111122223333:table/kept"
    }]
  })
}

resource "aws_sqs_queue" "given_up" {
  name = "given-up"
}

resource "aws_cloudwatch_metric_alarm" "given_up" {
  alarm_name          = "given-up"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = "given-up" }
  comparison_operator = "GreaterThanOrEqualToThreshold"
  evaluation_periods  = 1
}

resource "aws_lambda_event_source_mapping" "stream" {
  event_source_arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/kept/stream/2026-11-10T00:00:00.000"
  function_name           = aws_lambda_function.kept.arn
  function_response_types = ["ReportBatchItemFailures"]

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.given_up.arn
    }
  }
}
