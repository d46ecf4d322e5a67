locals {
  attach_web_acl = var.create_web_acl || var.web_acl != null
  own_web_acl    = var.create_web_acl && var.web_acl == null

  web_acl_arn = var.web_acl == null ? one(aws_wafv2_web_acl.this[*].arn) : var.web_acl.arn

  # Rules of AWSManagedRulesCommonRuleSet that read the body, with the labels that they leave. A token is random text of up to 4,096
  # characters, about 12 KB once a form has escaped it: it is over their 8 KB, and may look like anything.
  managed_body_rules = {
    CrossSiteScripting_BODY = "awswaf:managed:aws:core-rule-set:CrossSiteScripting_Body"
    EC2MetaDataSSRF_BODY    = "awswaf:managed:aws:core-rule-set:EC2MetaDataSSRF_Body"
    GenericLFI_BODY         = "awswaf:managed:aws:core-rule-set:GenericLFI_Body"
    GenericRFI_BODY         = "awswaf:managed:aws:core-rule-set:GenericRFI_Body"
    SizeRestrictions_BODY   = "awswaf:managed:aws:core-rule-set:SizeRestrictions_Body"
  }

  # The routes that a token is posted to.
  token_paths = concat(["/fulfillment", "/register"], local.verifying ? ["/verify"] : [])

  # What AWS WAF reads of a body that goes to API Gateway, unless an ACL pays for more.
  inspected_body_bytes = 16384

  # Behind CloudFront every request comes from one of its addresses; the function at its edge says which buyer's it is.
  viewer_address_header = "x-viewer-address"
}

resource "aws_wafv2_web_acl" "this" {
  #checkov:skip=CKV_AWS_192:the functions are Python, without Log4j, and the rule group for it would also judge random tokens by their body
  #checkov:skip=CKV2_AWS_31:a WAF log would hold buyers' addresses and headers; each rule has a metric and samples of what it matched
  count = local.own_web_acl ? 1 : 0

  name        = local.names.api
  description = "AWS Marketplace registration for ${var.product_code}"
  scope       = "REGIONAL"
  tags        = var.tags

  default_action {
    allow {}
  }

  # Sentences, because a buyer's form post may get them; the page goes by the status.
  custom_response_body {
    key          = "throttled"
    content_type = "TEXT_PLAIN"
    content      = "Too many requests from your network. Wait five minutes, then choose \"Set up your account\" in AWS Marketplace again."
  }

  custom_response_body {
    key          = "too-large"
    content_type = "TEXT_PLAIN"
    content      = "This request is larger than a registration can be."
  }

  rule {
    name     = "rate"
    priority = 10

    action {
      block {
        custom_response {
          response_code            = 429
          custom_response_body_key = "throttled"

          response_header {
            name  = "Retry-After"
            value = "300"
          }
        }
      }
    }

    statement {
      rate_based_statement {
        limit                 = var.rate_limit
        evaluation_window_sec = 300
        aggregate_key_type    = local.cloudfront ? "FORWARDED_IP" : "IP"

        dynamic "forwarded_ip_config" {
          for_each = local.cloudfront ? [local.viewer_address_header] : []

          content {
            header_name = forwarded_ip_config.value
            # Without the header a request did not come through CloudFront.
            fallback_behavior = "MATCH"
          }
        }
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${local.names.api}-rate"
      sampled_requests_enabled   = true
    }
  }

  # A longer body could hide from the other rules behind what is read of it. AWS WAF measures only what it reads, so the comparison
  # alone would never be true: MATCH makes it so for a body that goes on.
  rule {
    name     = "body-size"
    priority = 20

    action {
      block {
        custom_response {
          response_code            = 413
          custom_response_body_key = "too-large"
        }
      }
    }

    statement {
      size_constraint_statement {
        comparison_operator = "GT"
        size                = local.inspected_body_bytes

        field_to_match {
          body {
            oversize_handling = "MATCH"
          }
        }

        text_transformation {
          priority = 0
          type     = "NONE"
        }
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${local.names.api}-body-size"
      sampled_requests_enabled   = true
    }
  }

  rule {
    name     = "common"
    priority = 30

    override_action {
      none {}
    }

    statement {
      managed_rule_group_statement {
        vendor_name = "AWS"
        name        = "AWSManagedRulesCommonRuleSet"

        dynamic "rule_action_override" {
          for_each = local.managed_body_rules

          content {
            name = rule_action_override.key

            action_to_use {
              count {}
            }
          }
        }
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${local.names.api}-common"
      sampled_requests_enabled   = true
    }
  }

  # Where no token is posted, what those rules only counted is blocked after all.
  rule {
    name     = "common-body-elsewhere"
    priority = 40

    action {
      block {}
    }

    statement {
      and_statement {
        statement {
          or_statement {
            dynamic "statement" {
              for_each = local.managed_body_rules

              content {
                label_match_statement {
                  scope = "LABEL"
                  key   = statement.value
                }
              }
            }
          }
        }

        statement {
          not_statement {
            statement {
              or_statement {
                dynamic "statement" {
                  for_each = local.token_paths

                  content {
                    # The path may begin with the stage.
                    byte_match_statement {
                      positional_constraint = "ENDS_WITH"
                      search_string         = statement.value

                      field_to_match {
                        uri_path {}
                      }

                      text_transformation {
                        priority = 0
                        type     = "NONE"
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${local.names.api}-common-body-elsewhere"
      sampled_requests_enabled   = true
    }
  }

  visibility_config {
    cloudwatch_metrics_enabled = true
    metric_name                = local.names.api
    sampled_requests_enabled   = true
  }
}

resource "aws_wafv2_web_acl_association" "this" {
  count = local.attach_web_acl ? 1 : 0

  resource_arn = aws_api_gateway_stage.this.arn
  web_acl_arn  = local.web_acl_arn
}
