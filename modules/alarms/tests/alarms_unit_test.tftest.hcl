mock_provider "aws" {}

variables {
  name_base    = "awsmp"
  alarm_topic  = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  notice_topic = { arn = "arn:aws:sns:eu-west-1:111122223333:notices" }

  alarms = {
    queue-dlq = {
      description = "Lost after a day."
      severity    = "alarm"
      namespace   = "AWS/SQS"
      metric_name = "ApproximateNumberOfMessagesVisible"
      dimensions  = { QueueName = "queue-dlq" }
    }
    rule-2-failed = {
      description         = "Lost after a day."
      severity            = "notice"
      namespace           = "AWS/Events"
      metric_name         = "FailedInvocations"
      dimensions          = { RuleName = "rule-2" }
      comparison_operator = "LessThanThreshold"
      evaluation_periods  = 3
      treat_missing_data  = "breaching"
      runbook             = "rule-failed"
    }
  }
}

run "a_description_ends_with_the_runbook" {
  variables {
    runbook_base_url = "https://example.com/runbooks"
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["queue-dlq"].alarm_description == "Lost after a day. Runbook: https://example.com/runbooks/queue-dlq.md"
    error_message = "An alarm's runbook has its key for a name; got ${aws_cloudwatch_metric_alarm.this["queue-dlq"].alarm_description}"
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["rule-2-failed"].alarm_description == "Lost after a day. Runbook: https://example.com/runbooks/rule-failed.md"
    error_message = "Alarms of a kind share a runbook; got ${aws_cloudwatch_metric_alarm.this["rule-2-failed"].alarm_description}"
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["rule-2-failed"].comparison_operator == "LessThanThreshold" && aws_cloudwatch_metric_alarm.this["rule-2-failed"].datapoints_to_alarm == 3
    error_message = "An alarm is compared as it says, over all of its periods."
  }
}

run "without_runbooks_a_description_stays_as_it_is" {
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["queue-dlq"].alarm_description == "Lost after a day."
    error_message = "No base, no runbook; got ${aws_cloudwatch_metric_alarm.this["queue-dlq"].alarm_description}"
  }
}

run "an_unknown_severity_is_refused" {
  command = plan

  variables {
    alarms = { x = { description = "x", severity = "page", namespace = "x", metric_name = "x", dimensions = {} } }
  }

  expect_failures = [var.alarms]
}

run "an_unknown_treatment_of_missing_data_is_refused" {
  command = plan

  variables {
    alarms = { x = { description = "x", severity = "alarm", namespace = "x", metric_name = "x", dimensions = {}, treat_missing_data = "quiet" } }
  }

  expect_failures = [var.alarms]
}

run "an_unknown_comparison_is_refused" {
  command = plan

  variables {
    alarms = { x = { description = "x", severity = "alarm", namespace = "x", metric_name = "x", dimensions = {}, comparison_operator = "Equal" } }
  }

  expect_failures = [var.alarms]
}
