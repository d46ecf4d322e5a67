provider "aws" {
  region = "us-east-1"
}

# Who bought what. Every change of a subscription is forwarded to the bus of each Region that notifies buyers.
module "events" {
  source              = "../../modules/events"
  forward_event_buses = { us-east-1 = module.notifications.event_bus }
  alarm_topic         = var.alarm_topic
}

# Who they are, and the page that a mailed link leads to.
module "registration" {
  source                     = "../../modules/registration"
  product_code               = var.product_code
  subscribers_table          = module.events.subscribers_table
  stage_name                 = "prod"
  manage_api_gateway_account = var.manage_api_gateway_account
  address_verification       = { secret = { arn = aws_secretsmanager_secret.verification.arn } }
  alarm_topic                = var.alarm_topic

  page = {
    product_name  = "Example Analytics"
    seller_name   = "Example Corp."
    support_email = "support@example.com"
  }
}

# What they are told.
module "notifications" {
  source                  = "../../modules/notifications"
  customer_profile_tables = { (var.product_code) = module.registration.customer_profile_table }
  subscribers_table       = module.events.subscribers_table
  sender                  = "billing@${var.sender_domain}"
  transport               = { type = "ses", ses = { identity_arn = aws_sesv2_email_identity.sender.arn } }
  portal_url              = var.portal_url
  pepper_secret           = { arn = aws_secretsmanager_secret.pepper.arn }
  verification_secret     = { arn = aws_secretsmanager_secret.verification.arn }
  alarm_topic             = var.alarm_topic

  labels = {
    product = "Example Analytics"
    plan    = "Standard"
    seller  = "Example Corp."
    support = "support@example.com"
  }
}

# The domain that the messages come from. SES sends once the records of the output `dkim_records` are in its zone.
resource "aws_sesv2_email_identity" "sender" {
  email_identity = var.sender_domain
}

# Both are empty until you fill them, so that no secret lies in the Terraform state.
resource "aws_secretsmanager_secret" "pepper" {
  #checkov:skip=CKV_AWS_149:encrypted with the account's key for Secrets Manager; the example "complete" has a key of its own
  #checkov:skip=CKV2_AWS_57:must never change: suppressions are found by the digests that it makes
  name        = "marketplace-notifications-pepper"
  description = "What addresses are digested with; never to be changed"
}

resource "aws_secretsmanager_secret" "verification" {
  #checkov:skip=CKV_AWS_149:encrypted with the account's key for Secrets Manager; the example "complete" has a key of its own
  #checkov:skip=CKV2_AWS_57:rotated by hand, because the old key has to stay beside the new one for as long as its links are valid
  name        = "marketplace-notifications-verification"
  description = "Keys that sign the links which verify addresses"
}
