output "sandbox_usage_table" {
  description = "Table that a test version of the product writes its usage to."
  value       = module.sandbox_metering.usage_table.name
}

output "usage_table" {
  description = "Table that the product writes its usage to."
  value       = module.metering.usage_table.name
}
