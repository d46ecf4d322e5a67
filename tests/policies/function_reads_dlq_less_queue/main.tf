# The source has no DLQ of its own: it is somebody else's.

resource "aws_sqs_queue" "leftovers" {
  name = "leftovers"
}

resource "aws_sqs_queue" "first" {
  name           = "first"
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.leftovers.arn, maxReceiveCount = 5 })
}

resource "aws_lambda_event_source_mapping" "reads_leftovers" {
  event_source_arn        = aws_sqs_queue.leftovers.arn
  function_name           = "arn:aws:lambda:eu-west-1:111122223333:function:leftovers"
  function_response_types = ["ReportBatchItemFailures"]
}
