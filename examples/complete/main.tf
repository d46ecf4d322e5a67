provider "aws" {
  region = "us-east-1"

  default_tags {
    tags = {
      service = "marketplace-billing"
      owner   = var.owner
    }
  }
}

# Who bought what: once for the seller, in us-east-1.
module "events" {
  source            = "../../modules/events"
  product_codes     = [var.product_code]
  seller_account_id = var.account_id
  kms_key           = { arn = aws_kms_key.marketplace.arn }
  alarm_topic       = { arn = aws_sns_topic.alarms.arn }
  notice_topic      = { arn = aws_sns_topic.notices.arn }

  # Where buyers are told of changes.
  forward_event_buses = { us-east-1 = module.notifications.event_bus }
}

# What they used: from the usage table to AWS Marketplace.
module "metering" {
  source            = "../../modules/metering"
  product_code      = var.product_code
  subscribers_table = module.events.subscribers_table
  metering_mode     = var.metering_mode
  kms_key           = { arn = aws_kms_key.marketplace.arn }
  alarm_topic       = { arn = aws_sns_topic.alarms.arn }
  notice_topic      = { arn = aws_sns_topic.notices.arn }
}

# Who they are: the page that AWS Marketplace sends a new buyer to.
module "registration" {
  source                     = "../../modules/registration"
  product_code               = var.product_code
  subscribers_table          = module.events.subscribers_table
  stage_name                 = "prod"
  manage_api_gateway_account = var.manage_api_gateway_account
  promoted_profile_fields    = { email = {}, company = { range_key = "createdAt" } }
  address_verification       = { secret = { arn = aws_secretsmanager_secret.verification.arn, kms_key_arn = aws_kms_key.marketplace.arn } }
  kms_key                    = { arn = aws_kms_key.marketplace.arn }
  alarm_topic                = { arn = aws_sns_topic.alarms.arn }
  notice_topic               = { arn = aws_sns_topic.notices.arn }

  domain = {
    name        = var.domain_name
    certificate = { arn = aws_acm_certificate_validation.registration.certificate_arn }
  }

  page = {
    product_name  = "Example Analytics"
    seller_name   = "Example Corp."
    support_email = "support@example.com"
    support_url   = "https://example.com/support"
    success_url   = "https://example.com/welcome"
  }

  registration_fields = [
    { name = "email", label = "Work email", type = "email", required = true },
    { name = "name", label = "Your name", required = true },
    { name = "company", label = "Company" },
    { name = "size", label = "People in your company", type = "select", options = ["1 to 10", "11 to 100", "more than 100"] },
  ]
}

# For the role that your product runs under: it may write usage, and nothing else.
resource "aws_iam_policy" "usage_writer" {
  name        = "marketplace-usage-writer-${var.product_code}"
  description = "Writes the usage of ${var.product_code} that is billed through AWS Marketplace"
  policy      = module.metering.usage_writer_policy_json
}

# For the role that your billing runs under: it may send billing events, and nothing else.
resource "aws_iam_policy" "billing_event_writer" {
  name        = "marketplace-billing-event-writer"
  description = "Sends the billing events that buyers are notified of"
  policy      = module.notifications.billing_event_writer_policy_json
}
