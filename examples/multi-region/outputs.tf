output "usage_tables" {
  description = "Table that the product writes its usage to, by Region: each Region meters what was written in it."
  value = {
    ap-southeast-1 = module.metering_apse1.usage_table.name
    eu-west-1      = module.metering_euw1.usage_table.name
    us-east-1      = module.metering_use1.usage_table.name
  }
}
