# Only AWS knows what it offers tomorrow, so a Region that is not listed is a warning and no error.
check "marketplace_offers_resolve_customer" {
  assert {
    condition     = contains(module.naming.metering_api_regions, var.marketplace_region == null ? data.aws_region.current.id : var.marketplace_region)
    error_message = "AWS Marketplace is not known to offer ResolveCustomer in ${var.marketplace_region == null ? data.aws_region.current.id : var.marketplace_region}, so no buyer can register there: set marketplace_region to one of ${join(", ", module.naming.metering_api_regions)} (of the same partition)."
  }
}
