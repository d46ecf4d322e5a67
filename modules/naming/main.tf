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
}
