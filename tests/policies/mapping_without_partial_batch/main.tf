resource "aws_sqs_queue" "batches_dlq" {
  name = "batches-dlq"
}

resource "aws_sqs_queue" "batches" {
  name           = "batches"
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.batches_dlq.arn, maxReceiveCount = 5 })
}

resource "aws_lambda_event_source_mapping" "all_or_nothing" {
  event_source_arn = aws_sqs_queue.batches.arn
  function_name    = "arn:aws:lambda:eu-west-1:111122223333:function:batches"
}
