output "customer_profile_tables" {
  description = "Table of the registered buyers by Region: each is in the one that the buyer chose, and in no other."
  value = {
    ap-southeast-1 = module.registration_apse1.customer_profile_table.name
    eu-west-1      = module.registration_euw1.customer_profile_table.name
    us-east-1      = module.registration_use1.customer_profile_table.name
  }
}

output "fulfillment_url" {
  description = "The fulfilment URL, for the product's listing in AWS Marketplace: a listing has one."
  value       = module.registration_use1.fulfillment_url
}
