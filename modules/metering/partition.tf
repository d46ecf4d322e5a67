# Only AWS knows what it offers tomorrow, so a Region that is not listed is a warning and no error.
check "marketplace_offers_batch_meter_usage" {
  assert {
    condition     = contains(module.naming.metering_api_regions, var.marketplace_region == null ? data.aws_region.current.id : var.marketplace_region)
    error_message = "AWS Marketplace is not known to offer BatchMeterUsage in ${var.marketplace_region == null ? data.aws_region.current.id : var.marketplace_region}, so no usage can be billed from there: set marketplace_region to one of ${join(", ", module.naming.metering_api_regions)} (of the same partition)."
  }
}
