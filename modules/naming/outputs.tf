output "base" {
  description = "The part of a name before `-<thing>`: `<prefix>[-<environment>][-<productCode>]`."
  value       = local.base
}

output "region_code" {
  description = "Short code of the Region, for example `euw1`."
  value       = local.region_code
}
