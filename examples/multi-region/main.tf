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

module "events" {
  source = "../../modules/events"
}

module "metering_use1" {
  source            = "../../modules/metering"
  product_code      = var.product_code
  subscribers_table = module.events.subscribers_table
  metering_mode     = var.metering_mode
}

module "metering_euw1" {
  source            = "../../modules/metering"
  providers         = { aws = aws.euw1 }
  product_code      = var.product_code
  subscribers_table = module.events.subscribers_table
  metering_mode     = var.metering_mode
}

module "metering_apse1" {
  source            = "../../modules/metering"
  providers         = { aws = aws.apse1 }
  product_code      = var.product_code
  subscribers_table = module.events.subscribers_table
  metering_mode     = var.metering_mode
}
