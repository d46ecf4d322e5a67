# The host name that stands in the product's listing: it outlives any API behind it.
resource "aws_acm_certificate" "registration" {
  domain_name       = var.domain_name
  validation_method = "DNS"

  lifecycle {
    create_before_destroy = true
  }
}

locals {
  validation = one(aws_acm_certificate.registration.domain_validation_options)
}

resource "aws_route53_record" "validation" {
  zone_id         = var.hosted_zone_id
  name            = local.validation.resource_record_name
  type            = local.validation.resource_record_type
  records         = [local.validation.resource_record_value]
  ttl             = 300
  allow_overwrite = true
}

resource "aws_acm_certificate_validation" "registration" {
  certificate_arn         = aws_acm_certificate.registration.arn
  validation_record_fqdns = [aws_route53_record.validation.fqdn]
}

resource "aws_route53_record" "registration" {
  zone_id = var.hosted_zone_id
  name    = var.domain_name
  type    = "A"

  alias {
    name                   = module.registration.domain_target.name
    zone_id                = module.registration.domain_target.zone_id
    evaluate_target_health = false
  }
}
