# What buyers are told, and when: started, set to end, ended; and what your own billing reports.
module "notifications" {
  source                  = "../../modules/notifications"
  customer_profile_tables = { (var.product_code) = module.registration.customer_profile_table }
  subscribers_table       = module.events.subscribers_table
  sender                  = "billing@${var.sender_domain}"
  transport               = { type = "ses", ses = { identity_arn = aws_sesv2_email_identity.sender.arn } }
  portal_url              = "https://example.com/billing"
  pepper_secret           = { arn = aws_secretsmanager_secret.pepper.arn, kms_key_arn = aws_kms_key.marketplace.arn }
  verification_secret     = { arn = aws_secretsmanager_secret.verification.arn, kms_key_arn = aws_kms_key.marketplace.arn }
  kms_key                 = { arn = aws_kms_key.marketplace.arn }
  alarm_topic             = { arn = aws_sns_topic.alarms.arn }
  notice_topic            = { arn = aws_sns_topic.notices.arn }

  labels = {
    product = "Example Analytics"
    plan    = "Standard"
    seller  = "Example Corp."
    support = "support@example.com"
  }

  templates = {
    subscription_started = {
      en = { subject = "Welcome to {product}", text = "Your {plan} subscription is active. Questions? Write to {support}." }
    }
  }
}

# The domain that the messages come from, proved to SES through its zone.
resource "aws_sesv2_email_identity" "sender" {
  email_identity = var.sender_domain
}

resource "aws_route53_record" "dkim" {
  count = 3

  zone_id = var.hosted_zone_id
  name    = "${one(aws_sesv2_email_identity.sender.dkim_signing_attributes).tokens[count.index]}._domainkey.${var.sender_domain}"
  type    = "CNAME"
  records = ["${one(aws_sesv2_email_identity.sender.dkim_signing_attributes).tokens[count.index]}.dkim.amazonses.com"]
  ttl     = 300
}

# Both are empty until you fill them, so that no secret lies in the Terraform state.
resource "aws_secretsmanager_secret" "pepper" {
  #checkov:skip=CKV_AWS_149:encrypted with the key of this example, whose ARN a plan does not know yet
  #checkov:skip=CKV2_AWS_57:must never change: suppressions are found by the digests that it makes
  name        = "marketplace-notifications-pepper"
  description = "What addresses are digested with; never to be changed"
  kms_key_id  = aws_kms_key.marketplace.arn
}

resource "aws_secretsmanager_secret" "verification" {
  #checkov:skip=CKV_AWS_149:encrypted with the key of this example, whose ARN a plan does not know yet
  #checkov:skip=CKV2_AWS_57:rotated by hand, because the old key has to stay beside the new one for as long as its links are valid
  name        = "marketplace-notifications-verification"
  description = "Keys that sign the links which verify addresses"
  kms_key_id  = aws_kms_key.marketplace.arn
}
