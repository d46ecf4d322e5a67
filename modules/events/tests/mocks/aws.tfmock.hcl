# What AWS would answer: ARNs that the provider accepts as such, one for each of the things that a policy tells apart. All other
# computed attributes stay random, so that a test sees a resource that was replaced.

mock_data "aws_region" {
  defaults = { id = "us-east-1" }
}

mock_resource "aws_cloudwatch_event_rule" {
  defaults = { arn = "arn:aws:events:us-east-1:111122223333:rule/mock" }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:us-east-1:111122223333:log-group:mock" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
}

mock_resource "aws_lambda_function" {
  defaults = { arn = "arn:aws:lambda:us-east-1:111122223333:function:mock" }
}

mock_resource "aws_lambda_layer_version" {
  defaults = { arn = "arn:aws:lambda:us-east-1:111122223333:layer:mock:1" }
}

override_resource {
  target = aws_dynamodb_table.subscribers

  values = {
    arn        = "arn:aws:dynamodb:us-east-1:111122223333:table/subscribers"
    stream_arn = "arn:aws:dynamodb:us-east-1:111122223333:table/subscribers/stream/2026-11-10T00:00:00.000"
  }
}

override_resource {
  target = aws_dynamodb_table.parked_agreement_events

  values = {
    arn = "arn:aws:dynamodb:us-east-1:111122223333:table/parked-agreement-events"
  }
}

override_resource {
  target = module.queue.aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:us-east-1:111122223333:events"
    id  = "https://sqs.us-east-1.amazonaws.com/111122223333/events"
    url = "https://sqs.us-east-1.amazonaws.com/111122223333/events"
  }
}

override_resource {
  target = module.queue.aws_sqs_queue.dlq

  values = {
    arn = "arn:aws:sqs:us-east-1:111122223333:events-dlq"
    id  = "https://sqs.us-east-1.amazonaws.com/111122223333/events-dlq"
    url = "https://sqs.us-east-1.amazonaws.com/111122223333/events-dlq"
  }
}

override_resource {
  target = module.forward_failed[0].aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:us-east-1:111122223333:subscriber-forwarder-failed"
    id  = "https://sqs.us-east-1.amazonaws.com/111122223333/subscriber-forwarder-failed"
    url = "https://sqs.us-east-1.amazonaws.com/111122223333/subscriber-forwarder-failed"
  }
}
