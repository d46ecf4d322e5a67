# Wakes somebody: money is lost unless it is dealt with now.
resource "aws_sns_topic" "alarms" {
  name              = "marketplace-billing-alarms"
  display_name      = "Marketplace billing: act now"
  kms_master_key_id = aws_kms_key.marketplace.arn
}

# Can wait until morning.
resource "aws_sns_topic" "notices" {
  name              = "marketplace-billing-notices"
  display_name      = "Marketplace billing: have a look"
  kms_master_key_id = aws_kms_key.marketplace.arn
}

# AWS sends each address a mail that has to be confirmed. Replace `email` by your paging service's endpoint.
resource "aws_sns_topic_subscription" "mail" {
  for_each = { alarms = aws_sns_topic.alarms.arn, notices = aws_sns_topic.notices.arn }

  topic_arn = each.value
  protocol  = "email"
  endpoint  = var.on_call_email
}
