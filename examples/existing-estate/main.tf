provider "aws" {
  region = "us-east-1"

  default_tags {
    tags = { cost-center = "4711" }
  }
}

# What every module of this estate is given.
locals {
  estate = {
    name_prefix               = "acme-mp"
    alarm_topic               = { arn = var.alarm_topic_arn }
    kms_key                   = { arn = var.kms_key_arn }
    role_path                 = "/workload/"
    role_permissions_boundary = { arn = var.permissions_boundary_arn }
    vpc                       = { subnet_ids = var.subnet_ids, security_group_ids = [var.security_group_id] }
    tags                      = { data-class = "billing" }
  }
}

module "events" {
  source                    = "../../modules/events"
  name_prefix               = local.estate.name_prefix
  alarm_topic               = local.estate.alarm_topic
  kms_key                   = local.estate.kms_key
  role_path                 = local.estate.role_path
  role_permissions_boundary = local.estate.role_permissions_boundary
  vpc                       = local.estate.vpc
  tags                      = local.estate.tags
  create_dashboard          = false
}

module "metering" {
  source                    = "../../modules/metering"
  product_code              = var.product_code
  subscribers_table         = module.events.subscribers_table
  metering_mode             = var.metering_mode
  name_prefix               = local.estate.name_prefix
  alarm_topic               = local.estate.alarm_topic
  kms_key                   = local.estate.kms_key
  role_path                 = local.estate.role_path
  role_permissions_boundary = local.estate.role_permissions_boundary
  vpc                       = local.estate.vpc
  tags                      = local.estate.tags
  create_dashboard          = false
  log_retention_days        = 731

  # The one function that talks to AWS Marketplace runs under a role that the security team owns.
  roles = { submitter = { arn = var.submitter_role_arn } }
}
