resource "aws_lambda_function" "silent" {
  function_name = "silent"
  role          = "arn:aws:iam::111122223333:role/silent"
  handler       = "handler"
  runtime       = "python3.13"
  filename      = "silent.zip"
}

# An alarm on another of its metrics, and one on another function's errors, do not count.
resource "aws_cloudwatch_metric_alarm" "throttles" {
  alarm_name          = "silent-throttles"
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = "silent" }
  comparison_operator = "GreaterThanOrEqualToThreshold"
  evaluation_periods  = 1
}

resource "aws_cloudwatch_metric_alarm" "another_function" {
  alarm_name          = "another-errors"
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = "another" }
  comparison_operator = "GreaterThanOrEqualToThreshold"
  evaluation_periods  = 1
}
