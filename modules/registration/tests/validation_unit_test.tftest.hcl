# Each rule refuses what AWS would refuse at apply, or what would turn buyers away. A variable with several rules has one wrong value
# a run, so that each rule is seen to fail; a rule that looks at another variable needs that one to be right.

mock_provider "aws" {
  source = "./tests/mocks"
}

# No run looks at the baseline ACL, whose rules take longer to plan than everything else.
variables {
  alarm_topic    = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  create_web_acl = false
  product_code   = "1example2product3code4567"
  stage_name     = "prod"

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

run "first_rule" {
  command = plan

  variables {
    alarm_thresholds          = { no-such-alarm = 1 }
    alarm_topic               = { arn = "arn:aws:sns:us-east-1:111122223333:alarms.fifo" }
    environment               = "Sandbox"
    kms_key                   = { arn = "arn:aws:kms:us-east-1:111122223333:alias/key" }
    lambda                    = { runtime = "python3.9" }
    lambda_package            = {}
    log_retention_days        = 100
    name_prefix               = "-awsmp"
    notice_topic              = { arn = "notices" }
    role_path                 = "billing"
    role_permissions_boundary = { arn = "boundary" }
    roles                     = { no-such-function = { arn = "arn:aws:iam::111122223333:role/own" } }
    runbook_base_url          = "docs/runbooks/"
    tags                      = { "aws:team" = "billing" }
    vpc                       = { subnet_ids = [], security_group_ids = ["sg-0a"] }
    address_verification      = { secret = { arn = "verification" } }
    allowed_origins           = ["https://buy.example.com/page"]
    marketplace_region        = "Virginia"
    page                      = { product_name = " ", seller_name = "Example", support_email = "support@example.com" }
    product_code              = "a/b"
    rate_limit                = 9
    registration_fields       = [{ name = "email", label = "Email", type = "email", required = true }, { name = "first-name", label = "Name" }]
    stage_name                = "prod/v1"
    subscribers_table         = { arn = "arn:aws:s3:::bucket", name = "bucket", region = "us-east-1" }
    throttling                = { rate_limit = 0.5 }
    web_acl                   = { arn = "arn:aws:wafv2:us-east-1:111122223333:global/webacl/edge/1234" }
  }

  expect_failures = [
    var.alarm_thresholds,
    var.alarm_topic,
    var.environment,
    var.kms_key,
    var.lambda,
    var.lambda_package,
    var.log_retention_days,
    var.name_prefix,
    var.notice_topic,
    var.role_path,
    var.role_permissions_boundary,
    var.roles,
    var.runbook_base_url,
    var.tags,
    var.vpc,
    var.address_verification,
    var.allowed_origins,
    var.marketplace_region,
    var.page,
    var.product_code,
    var.rate_limit,
    var.registration_fields,
    var.stage_name,
    var.subscribers_table,
    var.throttling,
    var.web_acl,
  ]
}

run "second_rule" {
  command = plan

  variables {
    alarm_thresholds    = { page-errors = 0 }
    environment         = "default"
    lambda              = { architecture = "arm" }
    lambda_package      = { directory = "dist", s3 = { bucket = "artefacts", prefix = "" } }
    roles               = { register = { arn = "own" } }
    vpc                 = { subnet_ids = ["subnet-0a"], security_group_ids = [] }
    allowed_origins     = [for n in range(20) : "https://page-number-${n}.example.com"]
    page                = { product_name = "Example", seller_name = "Example", support_email = "support" }
    registration_fields = [{ name = "email", label = "Email", type = "email", required = true }, { name = "age", label = "Age", type = "number" }]
    subscribers_table   = { arn = "arn:aws:dynamodb:us-east-1:111122223333:table/t", name = "t", region = "eu-west-1" }
    throttling          = { rate_limit = 20, burst_limit = 10 }
  }

  expect_failures = [
    var.alarm_thresholds,
    var.environment,
    var.lambda,
    var.lambda_package,
    var.roles,
    var.vpc,
    var.allowed_origins,
    var.page,
    var.registration_fields,
    var.subscribers_table,
    var.throttling,
  ]
}

run "third_rule" {
  command = plan

  variables {
    lambda              = { log_level = "TRACE" }
    page                = { product_name = "Example", seller_name = "Example", support_email = "support@example.com", logo_url = "http://example.com/logo.svg" }
    registration_fields = [{ name = "email", label = "Email", type = "email" }]
  }

  expect_failures = [
    var.lambda,
    var.page,
    var.registration_fields,
  ]
}

run "fourth_rule" {
  command = plan

  variables {
    reserved_concurrency = { no-such-function = 1 }
    lambda               = { memory_mib = { no-such-function = 256 } }
    page                 = { product_name = "Example", seller_name = "Example", support_email = "support@example.com", accent_color = "blue" }
    registration_fields  = [{ name = "email", label = "Email", type = "email", required = true, max_length = 255 }]
  }

  expect_failures = [
    var.lambda,
    var.reserved_concurrency,
    var.page,
    var.registration_fields,
  ]
}

run "fifth_rule" {
  command = plan

  variables {
    reserved_concurrency = { register = 0 }
    lambda               = { memory_mib = { register = 64 } }
    page                 = { product_name = "Example", seller_name = "Example", support_email = "support@example.com", locale = "en_US" }
    registration_fields  = [{ name = "email", label = "Email", type = "email", required = true }, { name = "plan", label = "Plan", type = "select" }]
  }

  expect_failures = [
    var.lambda,
    var.reserved_concurrency,
    var.page,
    var.registration_fields,
  ]
}

run "sixth_rule" {
  command = plan

  variables {
    delivery            = "edge"
    registration_fields = [{ name = "email", label = "", type = "email", required = true }]
  }

  expect_failures = [
    var.delivery,
    var.registration_fields,
  ]
}

run "what_cloudfront_needs" {
  command = plan

  variables {
    cloudfront_web_acl      = { arn = "arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/own/1234" }
    delivery                = "cloudfront"
    domain                  = { name = "Register", certificate = { arn = "arn:aws:acm:us-east-1:111122223333:certificate/1234" } }
    page_regions            = { Frankfurt = { registration_url = "register" } }
    promoted_profile_fields = { for n in range(21) : "field${n}" => {} }
    registration_fields     = concat([{ name = "email", label = "Email", type = "email", required = true }], [for n in range(21) : { name = "field${n}", label = "Field" }])
  }

  expect_failures = [
    var.cloudfront_web_acl,
    var.domain,
    var.page_regions,
    var.promoted_profile_fields,
  ]
}

run "what_belongs_together" {
  command = plan

  variables {
    cloudfront_web_acl      = { arn = "arn:aws:wafv2:us-east-1:111122223333:global/webacl/edge/1234" }
    domain                  = { name = "register.example.com", certificate = { arn = "register.example.com" } }
    own_page_url            = "https://app.example.com/"
    page_regions            = { " " = { registration_url = "https://k1l2m3n4o5.execute-api.eu-central-1.amazonaws.com/prod/register" } }
    promoted_profile_fields = { phone = {} }
  }

  expect_failures = [
    var.cloudfront_web_acl,
    var.domain,
    var.own_page_url,
    var.page_regions,
    var.promoted_profile_fields,
  ]
}

run "certificates_of_cloudfront_are_in_us_east_1" {
  command = plan

  variables {
    delivery                = "cloudfront"
    domain                  = { name = "register.example.com", certificate = { arn = "arn:aws:acm:eu-west-1:111122223333:certificate/1234" } }
    promoted_profile_fields = { offerType = {} }
    registration_fields     = [{ name = "email", label = "Email", type = "email", required = true }, { name = "offerType", label = "Offer" }]
  }

  expect_failures = [
    var.domain,
    var.promoted_profile_fields,
  ]
}

run "an_own_page_is_an_https_address_and_offers_regions_itself" {
  command = plan

  variables {
    own_page_url            = "http://app.example.com/"
    page                    = null
    page_regions            = { Frankfurt = { registration_url = "https://k1l2m3n4o5.execute-api.eu-central-1.amazonaws.com/prod/register" } }
    promoted_profile_fields = { company = { range_key = "productCode" } }
    registration_fields     = [{ name = "email", label = "Email", type = "email", required = true }, { name = "company", label = "Company" }, { name = "productCode", label = "Product" }]
  }

  expect_failures = [
    var.own_page_url,
    var.page_regions,
    var.promoted_profile_fields,
  ]
}

run "there_is_a_page" {
  command = plan

  variables {
    page                    = null
    promoted_profile_fields = { company = { range_key = "company" } }
  }

  expect_failures = [
    var.own_page_url,
    var.promoted_profile_fields,
  ]
}

run "cloudfront_delivers_this_modules_page" {
  command = plan

  variables {
    delivery                = "cloudfront"
    own_page_url            = "https://app.example.com/"
    page                    = null
    promoted_profile_fields = { email = { range_key = "company" } }
    registration_fields     = [{ name = "email", label = "Email", type = "email", required = true }, { name = "company", label = "Company", max_length = 257 }]
  }

  expect_failures = [
    var.delivery,
    var.promoted_profile_fields,
  ]
}

run "a_checkbox_cannot_be_promoted" {
  command = plan

  variables {
    promoted_profile_fields = { terms = {} }
    registration_fields     = [{ name = "email", label = "Email", type = "email", required = true }, { name = "terms", label = "Terms", type = "checkbox" }]
  }

  expect_failures = [var.promoted_profile_fields]
}

run "bounds_are_inclusive" {
  command = plan

  variables {
    promoted_profile_fields = { email = { range_key = "createdAt" }, company = { range_key = "plan" } }
    rate_limit              = 10
    reserved_concurrency    = { page = null, register = 1 }
    throttling              = { rate_limit = 5000, burst_limit = 5000 }

    registration_fields = [
      { name = "email", label = "Email", type = "email", required = true, max_length = 254 },
      { name = "company", label = "Company", max_length = 512 },
      { name = "plan", label = "Plan", type = "select", options = ["Team"], max_length = 256 },
      { name = "note", label = "Note", type = "textarea", max_length = 4000 },
    ]
  }
}

run "names_fit" {
  command = plan

  variables {
    environment = "so-long-that-no-name-fits-it"
  }

  expect_failures = [terraform_data.region]
}

run "a_buckets_name_fits" {
  command = plan

  variables {
    delivery    = "cloudfront"
    environment = "fifteen-letters"
  }

  expect_failures = [terraform_data.region]
}

run "the_pages_values_fit_into_an_environment" {
  command = plan

  variables {
    page = {
      product_name  = "Example Analytics"
      seller_name   = "Example & Co"
      support_email = "support@example.com"
      messages      = { for n in range(40) : "message${n}" => "تعذّر الوصول إلى خدمة التسجيل. تحقق من الاتصال ثم حاول مرة أخرى." }
    }
  }

  expect_failures = [terraform_data.environment_limits]
}

run "a_bucket_holds_a_whole_translation" {
  command = plan

  variables {
    delivery = "cloudfront"

    page = {
      product_name  = "Example Analytics"
      seller_name   = "Example & Co"
      support_email = "support@example.com"
      messages      = { for n in range(80) : "message${n}" => "تعذّر الوصول إلى خدمة التسجيل. تحقق من الاتصال ثم حاول مرة أخرى." }
    }
  }
}

run "the_form_fits_into_an_environment" {
  command = plan

  variables {
    own_page_url        = "https://app.example.com/"
    page                = null
    registration_fields = concat([{ name = "email", label = "Email", type = "email", required = true }], [for n in range(30) : { name = "field${n}", label = "A question of some length" }])
  }

  expect_failures = [terraform_data.environment_limits]
}

run "a_regional_certificate_is_in_the_modules_region" {
  command = plan

  variables {
    domain = { name = "register.example.com", certificate = { arn = "arn:aws:acm:us-east-1:111122223333:certificate/1234" } }
  }

  expect_failures = [aws_api_gateway_domain_name.this]
}

run "silent_alarms_are_warned_about" {
  command = plan

  variables {
    alarm_topic = null
  }

  expect_failures = [check.alarms_notify_somebody]
}

run "what_belongs_to_another_region" {
  command = plan

  variables {
    alarm_topic  = { arn = "arn:aws:sns:us-west-2:111122223333:alarms" }
    kms_key      = { arn = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
    notice_topic = { arn = "arn:aws:sns:us-west-2:111122223333:notices" }
  }

  expect_failures = [var.alarm_topic, var.kms_key, var.notice_topic]
}

run "what_aws_cannot_parse" {
  command = plan

  variables {
    lambda_package = { s3 = { bucket = "Artefacts", prefix = "" } }
    tags           = { team = "billing; ops" }
    vpc            = { subnet_ids = ["10.0.0.0/24"], security_group_ids = ["sg-0a"] }
  }

  expect_failures = [var.lambda_package, var.tags, var.vpc]
}

run "code_signing_is_given_by_its_arn" {
  command = plan

  variables {
    code_signing   = { arn = "csc-0123456789abcdef0" }
    lambda_package = { s3 = { bucket = "artefacts", prefix = "" } }
  }

  expect_failures = [var.code_signing]
}

run "signed_code_is_in_s3_and_a_vpc_has_limits" {
  command = plan

  variables {
    code_signing = { arn = "arn:aws:lambda:us-east-1:111122223333:code-signing-config:csc-0123456789abcdef0" }
    vpc          = { subnet_ids = [for n in range(17) : format("subnet-%02d", n)], security_group_ids = ["sg-0a"] }
  }

  expect_failures = [var.code_signing, var.vpc]
}

run "objects_have_ten_tags" {
  command = plan

  variables {
    delivery = "cloudfront"
    tags     = { for n in range(11) : "tag${n}" => "value" }
  }

  expect_failures = [var.delivery]
}

run "a_host_name_ends" {
  command = plan

  variables {
    domain = { name = join(".", [for n in range(5) : format("a%059dz", n)]), certificate = { arn = "arn:aws:acm:eu-west-1:111122223333:certificate/1234" } }
  }

  expect_failures = [var.domain]
}
