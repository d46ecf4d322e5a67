provider "aws" {
  region = "us-east-1"
}

module "events" {
  source      = "../../modules/events"
  alarm_topic = var.alarm_topic
}

module "metering" {
  source            = "../../modules/metering"
  product_code      = var.product_code
  subscribers_table = module.events.subscribers_table
  metering_mode     = var.metering_mode
  alarm_topic       = var.alarm_topic
}

module "registration" {
  source                     = "../../modules/registration"
  product_code               = var.product_code
  subscribers_table          = module.events.subscribers_table
  stage_name                 = "prod"
  manage_api_gateway_account = var.manage_api_gateway_account
  promoted_profile_fields    = { email = {} }
  alarm_topic                = var.alarm_topic

  page = {
    product_name  = "Example Analytics"
    seller_name   = "Example Corp."
    support_email = "support@example.com"
  }
}
