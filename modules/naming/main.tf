locals {
  base = join("-", compact([var.name_prefix, var.environment, var.product_code]))

  # Account-global names (roles, dashboards, buckets) end in this code, so that one account can hold the
  # same deployment in several Regions. Words that are not listed (partition and country codes) stay whole:
  # a Region that AWS opens tomorrow still gets a code of its own.
  abbreviations = {
    central   = "c"
    east      = "e"
    gov       = "g"
    north     = "n"
    northeast = "ne"
    northwest = "nw"
    south     = "s"
    southeast = "se"
    southwest = "sw"
    west      = "w"
  }

  region_code = join("", [for word in split("-", var.region) : lookup(local.abbreviations, word, word)])

  # The endpoint list of the AWS Marketplace Metering Service in the AWS General Reference and in botocore, November 2026. GovCloud's
  # endpoints are left out: they take MeterUsage only.
  metering_api_regions = [
    "af-south-1",
    "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2",
    "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4",
    "ca-central-1", "cn-northwest-1",
    "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "eusc-de-east-1",
    "il-central-1", "me-central-1", "me-south-1", "sa-east-1",
    "us-east-1", "us-east-2", "us-west-1", "us-west-2",
  ]
}
