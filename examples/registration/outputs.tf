output "customer_profile_table" {
  description = "Table of the registered buyers and what they entered."
  value       = module.registration.customer_profile_table.name
}

output "fulfillment_url" {
  description = "The fulfilment URL, for the product's listing in AWS Marketplace."
  value       = module.registration.fulfillment_url
}

output "usage_table" {
  description = "Table that the product writes its usage to."
  value       = module.metering.usage_table.name
}
