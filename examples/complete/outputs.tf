output "alarm_topics" {
  description = "ARNs of the topics: what wakes somebody, and what can wait."
  value = {
    alarms  = aws_sns_topic.alarms.arn
    notices = aws_sns_topic.notices.arn
  }
}

output "billing_event_queue" {
  description = "URL of the queue that takes the billing events of your own: failed payments, disputes, refunds."
  value       = module.notifications.event_queue.url
}

output "billing_event_writer_policy_arn" {
  description = "ARN of the policy to attach to whatever sends your billing events."
  value       = aws_iam_policy.billing_event_writer.arn
}

output "customer_profile_stream" {
  description = "ARN of the stream of new buyers: what your provisioning starts from."
  value       = module.registration.customer_profile_table.stream_arn
}

output "customer_profile_table" {
  description = "Table of the registered buyers and what they entered."
  value       = module.registration.customer_profile_table.name
}

output "dashboards" {
  description = "Names of the CloudWatch dashboards: start with metering's, whose first row says how much money is at risk."
  value = {
    events        = module.events.dashboard_name
    metering      = module.metering.dashboard_name
    notifications = module.notifications.dashboard_name
    registration  = module.registration.dashboard_name
  }
}

output "fulfillment_url" {
  description = "The fulfilment URL, for the product's listing in AWS Marketplace."
  value       = module.registration.fulfillment_url
}

output "registration_page" {
  description = "Address of the page that buyers register on."
  value       = module.registration.page_url
}

output "usage_table" {
  description = "Table that the product writes its usage to."
  value       = module.metering.usage_table.name
}

output "usage_writer_policy_arn" {
  description = "ARN of the policy to attach to whatever writes the usage."
  value       = aws_iam_policy.usage_writer.arn
}
