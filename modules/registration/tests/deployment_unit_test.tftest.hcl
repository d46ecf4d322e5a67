# Applies the module against mocks, one deployment after another on the same state. `tests/terraform` reads the state that
# each run leaves (`terraform test -verbose`) and holds it against the rules.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic  = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  product_code = "1example2product3code4567"
  stage_name   = "prod"
  tags         = { team = "billing" }

  page = {
    product_name  = "Example Analytics"
    seller_name   = "Example & Co"
    support_email = "support@example.com"
  }

  subscribers_table = {
    arn    = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
    name   = "awsmp-subscribers"
    region = "us-east-1"
  }
}

run "regional" {
  assert {
    condition     = output.fulfillment_url == "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod/fulfillment"
    error_message = "The listing relies on the fulfilment URL; got ${output.fulfillment_url}."
  }

  assert {
    condition     = output.registration_url == "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod/register"
    error_message = "Other deployments' pages post to the registration URL; got ${output.registration_url}."
  }

  assert {
    condition     = output.page_url == "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod/" && output.page_origin == "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
    error_message = "The page lies beside the fulfilment URL, and its origin has no path; got ${output.page_url} and ${output.page_origin}."
  }

  assert {
    condition     = output.domain_target == null && output.customer_profile_table.region == "eu-west-1" && output.verify_url == null
    error_message = "Without a domain there is nothing to point at, profiles lie in the module's own Region, and without address_verification no link leads here; got ${jsonencode([output.domain_target, output.customer_profile_table, output.verify_url])}."
  }
}

run "verifying" {
  variables {
    address_verification = { secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf" } }
  }

  assert {
    condition     = output.verify_url == "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod/verify" && output.customer_profile_table.verify_url == output.verify_url
    error_message = "Mailed links lead to the API; got ${jsonencode([output.verify_url, output.customer_profile_table])}."
  }
}

run "without_dashboard" {
  variables {
    address_verification = { secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf" } }
    create_dashboard     = false
  }

  assert {
    condition     = output.dashboard_name == null
    error_message = "Without a dashboard there is no name of one; got ${jsonencode(output.dashboard_name)}."
  }
}

run "cloudfront" {
  variables {
    delivery     = "cloudfront"
    page_regions = { "Asia Pacific" = { registration_url = "https://f6g7h8i9j0.execute-api.ap-southeast-1.amazonaws.com/prod/register" } }
  }

  assert {
    condition     = output.fulfillment_url == "https://d111111abcdef8.cloudfront.net/fulfillment" && output.registration_url == "https://d111111abcdef8.cloudfront.net/register"
    error_message = "With CloudFront every URL is the distribution's; got ${output.fulfillment_url} and ${output.registration_url}."
  }

  assert {
    condition     = output.page_url == "https://d111111abcdef8.cloudfront.net/" && output.page_origin == "https://d111111abcdef8.cloudfront.net"
    error_message = "With CloudFront the page is the distribution's; got ${output.page_url} and ${output.page_origin}."
  }
}

run "cloudfront_verifying" {
  variables {
    delivery = "cloudfront"

    address_verification = {
      secret = {
        arn         = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf"
        kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/secrets"
      }
    }
  }

  assert {
    condition     = output.verify_url == "https://d111111abcdef8.cloudfront.net/verify"
    error_message = "With CloudFront the link is the distribution's; got ${jsonencode(output.verify_url)}."
  }
}

run "regional_again" {}

# From here on each run has another web ACL or none: creating or destroying the baseline takes Terraform long, so what shares it
# comes before.
run "own_page" {
  variables {
    page         = null
    own_page_url = "https://app.example.com/signup?from=marketplace"
    web_acl      = { arn = "arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/own/5678" }
  }

  assert {
    condition     = output.page_url == "https://app.example.com/signup?from=marketplace" && output.page_origin == "https://app.example.com"
    error_message = "The page is the seller's own; got ${output.page_url} and ${output.page_origin}."
  }

  assert {
    condition     = output.fulfillment_url == "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod/fulfillment"
    error_message = "Form posts still come here; got ${output.fulfillment_url}."
  }

  assert {
    condition     = output.web_acl_arn == "arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/own/5678"
    error_message = "An ACL of one's own replaces the baseline; got ${output.web_acl_arn}."
  }
}

run "estate" {
  variables {
    alarm_thresholds           = { register-throttles = 5 }
    allowed_origins            = ["https://buy.example.com", "https://beta.example.com"]
    deletion_protection        = false
    domain                     = { name = "register.example.com", certificate = { arn = "arn:aws:acm:eu-west-1:111122223333:certificate/1234" } }
    environment                = "staging"
    kms_key                    = { arn = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
    lambda                     = { runtime = "python3.12", architecture = "x86_64", log_level = "DEBUG", memory_mib = { register = 1024 } }
    lambda_package             = { s3 = { bucket = "artefacts", prefix = "awsmp/0.1.0/" } }
    log_retention_days         = 731
    manage_api_gateway_account = true
    marketplace_region         = "us-east-1"
    notice_topic               = { arn = "arn:aws:sns:eu-west-1:111122223333:notices" }
    promoted_profile_fields    = { email = {}, company = { range_key = "createdAt" }, plan = { range_key = "email" } }
    rate_limit                 = 1000
    reserved_concurrency       = { register = 5, page = null }
    role_path                  = "/billing/"
    role_permissions_boundary  = { arn = "arn:aws:iam::111122223333:policy/boundary" }
    roles                      = { page = { arn = "arn:aws:iam::111122223333:role/own-page" } }
    runbook_base_url           = "https://example.com/your/mirror/blob/main/docs/runbooks"
    stage_name                 = "v1"
    throttling                 = { rate_limit = 5, burst_limit = 10 }
    vpc                        = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }

    page = {
      product_name  = "تحليلات <مثال>"
      seller_name   = "O'Hara \"&\" Söhne"
      support_email = "support@example.com"
      support_url   = "https://example.com/help?a=1&b=2"
      logo_url      = "https://cdn.example.com:8443/logo.svg?v=2"
      accent_color  = "#FFCC00"
      locale        = "ar-EG"
      success_url   = "https://app.example.com/welcome"
      messages      = { title = "التسجيل" }
      region_label  = "Ireland"
    }

    page_regions = {
      "Singapore" = { registration_url = "https://f6g7h8i9j0.execute-api.ap-southeast-1.amazonaws.com/prod/register" }
      "Frankfurt" = { registration_url = "https://k1l2m3n4o5.execute-api.eu-central-1.amazonaws.com/prod/register" }
    }

    registration_fields = [
      { name = "email", label = "Email", type = "email", required = true },
      { name = "company", label = "Company", max_length = 120 },
      { name = "plan", label = "Plan", type = "select", options = ["Starter", "Team"] },
      { name = "terms", label = "I accept <the terms>", type = "checkbox", required = true },
    ]

    subscribers_table = {
      arn         = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
      kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/subscribers"
      name        = "awsmp-subscribers"
      region      = "us-east-1"
    }
  }

  assert {
    condition     = output.role_arns["page"] == "arn:aws:iam::111122223333:role/own-page"
    error_message = "A role of one's own is used; got ${output.role_arns["page"]}."
  }

  assert {
    condition     = output.fulfillment_url == "https://register.example.com/fulfillment" && output.page_url == "https://register.example.com/" && output.page_origin == "https://register.example.com"
    error_message = "With a domain no URL has the stage in it; got ${output.fulfillment_url}, ${output.page_url}, ${output.page_origin}."
  }

  assert {
    condition     = output.domain_target != null
    error_message = "What the DNS record points at is an output."
  }
}

run "cloudfront_estate" {
  variables {
    cloudfront_web_acl = { arn = "arn:aws:wafv2:us-east-1:111122223333:global/webacl/edge/9abc" }
    create_web_acl     = false
    delivery           = "cloudfront"
    domain             = { name = "register.example.com", certificate = { arn = "arn:aws:acm:us-east-1:111122223333:certificate/1234" } }
    environment        = "edge"

    page = {
      product_name  = "Example Analytics"
      seller_name   = "Example & Co"
      support_email = "support@example.com"
      logo_url      = "https://cdn.example.com/logo.svg"
    }
  }

  assert {
    condition     = output.fulfillment_url == "https://register.example.com/fulfillment" && output.domain_target == { name = "d111111abcdef8.cloudfront.net", zone_id = "Z2FDTNDATAQYW2" }
    error_message = "The domain points at the distribution; got ${output.fulfillment_url} and ${jsonencode(output.domain_target)}."
  }

  assert {
    condition     = output.web_acl_arn == null
    error_message = "There may be no ACL where somebody else attaches one; got ${jsonencode(output.web_acl_arn)}."
  }
}
