provider "aws" {
  region = "us-east-1"
}

module "events" {
  source      = "../../modules/events"
  alarm_topic = var.alarm_topic
}

module "metering" {
  source                = "../../modules/metering"
  product_code          = var.product_code
  subscribers_table     = module.events.subscribers_table
  deployment_mode       = "direct-submit"
  metering_mode         = var.metering_mode
  quantity_type         = "decimal"
  writer_principal_arns = var.writer_principal_arns
  alarm_topic           = var.alarm_topic
}
