output "base" {
  description = "The part of a name before `-<thing>`: `<prefix>[-<environment>][-<productCode>]`."
  value       = local.base
}

output "metering_api_regions" {
  description = "Regions in which AWS Marketplace offers BatchMeterUsage and ResolveCustomer."
  value       = local.metering_api_regions
}

output "region_code" {
  description = "Short code of the Region, for example `euw1`."
  value       = local.region_code
}
