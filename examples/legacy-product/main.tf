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

  # Records without a licence ARN are sent with this product code, in requests of their own.
  legacy_product = { product_code = var.product_code }
}
