# What AWS would answer: ARNs that the provider accepts as such, one for each of the things that a policy tells apart. All other
# computed attributes stay random, so that a test sees a resource that was replaced.

mock_data "aws_region" {
  defaults = { id = "eu-west-1" }
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
  defaults = { arn = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
}

mock_resource "aws_lambda_function" {
  defaults = { arn = "arn:aws:lambda:eu-west-1:111122223333:function:mock" }
}

mock_resource "aws_lambda_layer_version" {
  defaults = { arn = "arn:aws:lambda:eu-west-1:111122223333:layer:mock:1" }
}

override_resource {
  target = aws_dynamodb_table.usage

  values = {
    arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/usage"
  }
}

override_resource {
  target = aws_dynamodb_table.aggregated_usage

  values = {
    arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/aggregated-usage"
  }
}

override_resource {
  target = module.queue["work"].aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:work"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/work"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/work"
  }
}

override_resource {
  target = module.queue["work"].aws_sqs_queue.dlq

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:work-dlq"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/work-dlq"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/work-dlq"
  }
}

override_resource {
  target = module.queue["deprovision-work"].aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:deprovision-work"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/deprovision-work"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/deprovision-work"
  }
}

override_resource {
  target = module.queue["deprovision-work"].aws_sqs_queue.dlq

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:deprovision-work-dlq"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/deprovision-work-dlq"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/deprovision-work-dlq"
  }
}

override_resource {
  target = module.queue["cleanup"].aws_sqs_queue.this

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:cleanup"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/cleanup"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/cleanup"
  }
}

override_resource {
  target = module.queue["cleanup"].aws_sqs_queue.dlq

  values = {
    arn = "arn:aws:sqs:eu-west-1:111122223333:cleanup-dlq"
    id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/cleanup-dlq"
    url = "https://sqs.eu-west-1.amazonaws.com/111122223333/cleanup-dlq"
  }
}
