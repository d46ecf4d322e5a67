output "arns" {
  description = "ARNs of the alarms, by alarm key."
  value       = { for key, alarm in aws_cloudwatch_metric_alarm.this : key => alarm.arn }
}
