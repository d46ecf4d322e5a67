output "usage_tables" {
  description = "Table that each product writes its usage to."
  value       = { for name, product in module.metering : name => product.usage_table.name }
}
