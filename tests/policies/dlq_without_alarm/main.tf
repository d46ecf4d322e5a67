resource "aws_sqs_queue" "unwatched_dlq" {
  name = "unwatched-dlq"
}

resource "aws_sqs_queue" "watched" {
  name           = "watched"
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.unwatched_dlq.arn, maxReceiveCount = 5 })
}

# Watches the queue itself, not what it gives up.
resource "aws_cloudwatch_metric_alarm" "watched" {
  alarm_name          = "watched"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = "watched" }
  comparison_operator = "GreaterThanOrEqualToThreshold"
  evaluation_periods  = 1
}
