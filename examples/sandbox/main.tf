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

module "sandbox_events" {
  source                = "../../modules/events"
  environment           = "sandbox"
  sandbox_event_sources = ["sandbox.agreement-marketplace"]
  deletion_protection   = false
}

module "sandbox_metering" {
  source                 = "../../modules/metering"
  environment            = "sandbox"
  product_code           = var.product_code
  subscribers_table      = module.sandbox_events.subscribers_table
  metering_mode          = "dry-run"
  test_account_allowlist = var.test_account_allowlist
  deletion_protection    = false
}
