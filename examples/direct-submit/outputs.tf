output "record_table" {
  description = "Table that the hourly records are written to."
  value       = module.metering.aggregated_usage_table.name
}

output "record_writer_policy_json" {
  description = "IAM policy for whatever writes the records: in this account, and for the roles of other accounts beside the table's own policy."
  value       = module.metering.usage_writer_policy_json
}
