# What AWS would answer: ARNs that the provider accepts as such, one for each of the things that a policy tells apart. All other
# computed attributes stay random, so that a test sees a resource that was replaced.

mock_data "aws_region" {
  defaults = { id = "eu-west-1" }
}

mock_resource "aws_cloudwatch_event_bus" {
  defaults = { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/awsmp-notifications" }
}

mock_resource "aws_cloudwatch_event_rule" {
  defaults = { arn = "arn:aws:events:eu-west-1:111122223333:rule/mock" }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:eu-west-1:111122223333:log-group:mock" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:eu-west-1:111122223333:key/feedback" }
}

mock_resource "aws_lambda_function" {
  defaults = { arn = "arn:aws:lambda:eu-west-1:111122223333:function:mock" }
}

mock_resource "aws_lambda_layer_version" {
  defaults = { arn = "arn:aws:lambda:eu-west-1:111122223333:layer:mock:1" }
}

mock_resource "aws_sesv2_configuration_set" {
  defaults = { arn = "arn:aws:ses:eu-west-1:111122223333:configuration-set/awsmp-notifications" }
}

mock_resource "aws_sns_topic" {
  defaults = { arn = "arn:aws:sns:eu-west-1:111122223333:notification-feedback" }
}

override_resource {
  target = aws_cloudwatch_event_rule.this["billing"]

  values = {
    arn = "arn:aws:events:eu-west-1:111122223333:rule/notifications/billing"
  }
}

override_resource {
  target = aws_cloudwatch_event_rule.this["events"]

  values = {
    arn = "arn:aws:events:eu-west-1:111122223333:rule/notifications/events"
  }
}

override_resource {
  target = aws_dynamodb_table.notifications

  values = {
    arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/notifications"
  }
}

override_resource {
  target = module.event_queue.aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:notification-events"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-events"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-events"
  }
}

override_resource {
  target = module.event_queue.aws_sqs_queue.dlq

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:notification-events-dlq"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-events-dlq"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-events-dlq"
  }
}

override_resource {
  target = module.feedback_queue[0].aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:notification-feedback"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-feedback"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-feedback"
  }
}

override_resource {
  target = module.feedback_queue[0].aws_sqs_queue.dlq

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:notification-feedback-dlq"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-feedback-dlq"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-feedback-dlq"
  }
}

override_resource {
  target = module.contacts_failed.aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:notification-contacts-failed"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-contacts-failed"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/notification-contacts-failed"
  }
}
