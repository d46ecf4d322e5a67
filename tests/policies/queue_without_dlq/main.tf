resource "aws_sqs_queue" "lonely" {
  name = "lonely"
}
