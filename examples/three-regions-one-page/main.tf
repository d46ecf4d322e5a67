provider "aws" {
  region = "us-east-1"
}

provider "aws" {
  alias  = "euw1"
  region = "eu-west-1"
}

provider "aws" {
  alias  = "apse1"
  region = "ap-southeast-1"
}

locals {
  page = {
    product_name  = "Example Analytics"
    seller_name   = "Example Corp."
    support_email = "support@example.com"
  }
}

module "events" {
  source = "../../modules/events"
}

# The deployment whose fulfilment URL is in the listing: its page offers the other two.
module "registration_use1" {
  source                     = "../../modules/registration"
  product_code               = var.product_code
  subscribers_table          = module.events.subscribers_table
  stage_name                 = "prod"
  manage_api_gateway_account = var.manage_api_gateway_account
  page                       = merge(local.page, { region_label = "United States" })

  page_regions = {
    "Asia Pacific"   = { registration_url = module.registration_apse1.registration_url }
    "European Union" = { registration_url = module.registration_euw1.registration_url }
  }
}

module "registration_euw1" {
  source                     = "../../modules/registration"
  providers                  = { aws = aws.euw1 }
  product_code               = var.product_code
  subscribers_table          = module.events.subscribers_table
  stage_name                 = "prod"
  manage_api_gateway_account = var.manage_api_gateway_account
  page                       = local.page
  allowed_origins            = [module.registration_use1.page_origin]
}

module "registration_apse1" {
  source                     = "../../modules/registration"
  providers                  = { aws = aws.apse1 }
  product_code               = var.product_code
  subscribers_table          = module.events.subscribers_table
  stage_name                 = "prod"
  manage_api_gateway_account = var.manage_api_gateway_account
  page                       = local.page
  allowed_origins            = [module.registration_use1.page_origin]
}
