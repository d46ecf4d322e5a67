output "admin_function" {
  description = "Function that lists, requeues and purges notices and clears suppressions, for whoever may invoke it."
  value       = module.notifications.admin_function.name
}

output "billing_event_queue" {
  description = "URL of the queue that takes the billing events of your own."
  value       = module.notifications.event_queue.url
}

output "dkim_records" {
  description = "CNAME records that prove the sender's domain to SES: name and value of each."
  value = {
    for token in aws_sesv2_email_identity.sender.dkim_signing_attributes[0].tokens :
    "${token}._domainkey.${var.sender_domain}" => "${token}.dkim.amazonses.com"
  }
}

output "fulfillment_url" {
  description = "The fulfilment URL, for the product's listing in AWS Marketplace."
  value       = module.registration.fulfillment_url
}

output "secrets" {
  description = "Names of the two secrets to fill before the first mail."
  value = {
    pepper       = aws_secretsmanager_secret.pepper.name
    verification = aws_secretsmanager_secret.verification.name
  }
}
