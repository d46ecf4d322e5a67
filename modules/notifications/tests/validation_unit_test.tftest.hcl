# Each rule refuses what AWS would refuse at apply, or what would leave buyers untold. A variable with several rules has one wrong value
# a run, so that each rule is seen to fail; a rule that looks at another variable needs that one to be right.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic   = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  labels        = { product = "Example Analytics", plan = "Standard", seller = "Example Corp.", support = "support@example.com" }
  pepper_secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pepper-AbCdEf" }
  portal_url    = "https://app.example.com/billing"
  sender        = "billing@example.com"
  transport     = { type = "ses", ses = { identity_arn = "arn:aws:ses:eu-west-1:111122223333:identity/example.com" } }

  customer_profile_tables = {
    product = {
      arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles"
      name       = "profiles"
      region     = "eu-west-1"
      stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles/stream/2026-11-10T00:00:00.000"
    }
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
    alarm_thresholds               = { no-such-alarm = 1 }
    alarm_topic                    = { arn = "arn:aws:sns:us-east-1:111122223333:alarms.fifo" }
    environment                    = "Sandbox"
    kms_key                        = { arn = "arn:aws:kms:us-east-1:111122223333:alias/key" }
    lambda                         = { runtime = "python3.9" }
    lambda_package                 = {}
    log_retention_days             = 100
    name_prefix                    = "-awsmp"
    notice_topic                   = { arn = "notices" }
    role_path                      = "billing"
    role_permissions_boundary      = { arn = "boundary" }
    roles                          = { no-such-function = { arn = "arn:aws:iam::111122223333:role/own" } }
    runbook_base_url               = "docs/runbooks/"
    tags                           = { "aws:team" = "billing" }
    vpc                            = { subnet_ids = [], security_group_ids = ["sg-0a"] }
    billing_event_principal_arns   = ["billing"]
    customer_profile_tables        = {}
    event_forwarder_principal_arns = ["444455556666"]
    feedback_retention_days        = 3651
    labels                         = { product = "Example\nAnalytics", plan = "Standard", seller = "Example Corp.", support = "support@example.com" }
    notification_max_age_days      = 31
    notification_max_attempts      = 0
    pepper_secret                  = { arn = "pepper" }
    portal_url                     = "https://app.example.com/#billing"
    product_labels                 = { "a/b" = { product = "Example" } }
    run_batch_size                 = 1001
    sender                         = "Billing <billing@example.com>"
    subscribers_table              = { arn = "arn:aws:s3:::bucket", name = "bucket", region = "us-east-1" }
    template_details               = { EN = "{product} {plan} {portal_url}" }
    templates                      = { welcome = { en = { subject = "Hello", text = "Hello" } } }
    transport                      = { type = "sendmail" }
    verification_lifetime_hours    = 169
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
    var.billing_event_principal_arns,
    var.customer_profile_tables,
    var.event_forwarder_principal_arns,
    var.feedback_retention_days,
    var.labels,
    var.notification_max_age_days,
    var.notification_max_attempts,
    var.pepper_secret,
    var.portal_url,
    var.product_labels,
    var.run_batch_size,
    var.sender,
    var.subscribers_table,
    var.template_details,
    var.templates,
    var.transport,
    var.verification_lifetime_hours,
  ]
}

run "first_rule_of_those_that_look_at_others" {
  command = plan

  variables {
    send_timeout_seconds    = 121
    smtp_credentials_secret = { arn = "smtp" }
    transport               = { type = "smtp", smtp = { host = "smtp.example.com", port = 465, security = "implicit" } }
    verification_secret     = { arn = "verification" }
  }

  expect_failures = [
    var.send_timeout_seconds,
    var.smtp_credentials_secret,
    var.verification_secret,
  ]
}

run "second_rule" {
  command = plan

  variables {
    alarm_thresholds        = { notification-events-dlq = 0 }
    environment             = "default"
    lambda                  = { architecture = "arm" }
    lambda_package          = { directory = "dist", s3 = { bucket = "artefacts", prefix = "" } }
    roles                   = { notification-sender = { arn = "own" } }
    vpc                     = { subnet_ids = ["subnet-0a"], security_group_ids = [] }
    labels                  = { product = "Example Analytics", plan = "Standard", seller = "Example Corp.", support = " " }
    pepper_secret           = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pepper-AbCdEf", kms_key_arn = "alias/secrets" }
    product_labels          = { code = { product = "=?utf-8?q?Example?=" } }
    send_timeout_seconds    = 25
    smtp_credentials_secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:smtp-AbCdEf" }
    subscribers_table       = { arn = "arn:aws:dynamodb:us-east-1:111122223333:table/t", name = "t", region = "eu-west-1" }
    template_details        = { en = "{product} {plan}" }
    templates               = { refunded = { EN = { subject = "Refunded", text = "Refunded" } } }

    customer_profile_tables = {
      product = {
        arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles"
        name       = "others"
        region     = "eu-west-1"
        stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles/stream/2026-11-10T00:00:00.000"
      }
    }
  }

  expect_failures = [
    var.alarm_thresholds,
    var.environment,
    var.lambda,
    var.lambda_package,
    var.roles,
    var.vpc,
    var.customer_profile_tables,
    var.labels,
    var.pepper_secret,
    var.product_labels,
    var.send_timeout_seconds,
    var.smtp_credentials_secret,
    var.subscribers_table,
    var.template_details,
    var.templates,
  ]
}

run "third_rule" {
  command = plan

  variables {
    lambda         = { log_level = "TRACE" }
    product_labels = { code = { product = "Example", support = "" } }
    templates      = { refunded = { en = { subject = "Refunded: write to {support}", text = "Refunded" } } }
    transport      = { type = "smtp" }

    customer_profile_tables = {
      product = {
        arn        = "arn:aws:dynamodb:eu-central-1:111122223333:table/profiles"
        name       = "profiles"
        region     = "eu-central-1"
        stream_arn = "arn:aws:dynamodb:eu-central-1:111122223333:table/profiles/stream/2026-11-10T00:00:00.000"
      }
    }
  }

  expect_failures = [
    var.lambda,
    var.customer_profile_tables,
    var.product_labels,
    var.templates,
    var.transport,
  ]
}

run "fourth_rule" {
  command = plan

  variables {
    reserved_concurrency = { no-such-function = 1 }
    lambda               = { memory_mib = { no-such-function = 256 } }
    product_labels       = { code = { product = "Example", portal_url = "http://app.example.com/" } }
    templates            = { refunded = { en = { subject = "Refunded", text = " " } } }
    transport            = { type = "ses", ses = { identity_arn = "arn:aws:ses:us-east-1:111122223333:identity/example.com" } }

    customer_profile_tables = {
      product = {
        arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles"
        name       = "profiles"
        region     = "eu-west-1"
        stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles/stream/2026-11-10T00:00:00.000"
        verify_url = "http://buy.example.com/verify"
      }
    }

    verification_secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf" }
  }

  expect_failures = [
    var.lambda,
    var.reserved_concurrency,
    var.customer_profile_tables,
    var.product_labels,
    var.templates,
    var.transport,
  ]
}

run "fifth_rule" {
  command = plan

  variables {
    reserved_concurrency = { notification-sender = 0 }
    lambda               = { memory_mib = { notification-sender = 64 } }
    templates            = { refunded = { en = { subject = "Refunded", text = "{link}" } } }
    transport            = { type = "smtp", smtp = { host = "SMTP.example.com", port = 465, security = "implicit" } }
  }

  expect_failures = [
    var.lambda,
    var.reserved_concurrency,
    var.templates,
    var.transport,
  ]
}

run "sixth_rule" {
  command = plan

  variables {
    templates = { address_verification = { en = { subject = "Confirm", text = "Without a way to do so" } } }
    transport = { type = "smtp", smtp = { host = "smtp.example.com", port = 25, security = "starttls" } }
  }

  expect_failures = [
    var.templates,
    var.transport,
  ]
}

run "mail_is_encrypted_on_its_way" {
  command = plan

  variables {
    transport = { type = "smtp", smtp = { host = "smtp.example.com", port = 2525, security = "none" } }
  }

  expect_failures = [var.transport]
}

run "links_need_a_key" {
  command = plan

  variables {
    customer_profile_tables = {
      product = {
        arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles"
        name       = "profiles"
        region     = "eu-west-1"
        stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/profiles/stream/2026-11-10T00:00:00.000"
        verify_url = "https://buy.example.com/verify"
      }
    }
  }

  expect_failures = [var.verification_secret]
}

run "a_claim_does_not_stand_for_ever" {
  command = plan

  variables {
    stale_claim_minutes = 1441
  }

  expect_failures = [var.stale_claim_minutes]
}

run "a_claim_outlasts_the_sender" {
  command = plan

  variables {
    send_timeout_seconds = 95
    stale_claim_minutes  = 2
  }

  expect_failures = [var.stale_claim_minutes]
}

run "bounds_are_inclusive" {
  command = plan

  variables {
    feedback_retention_days     = 1
    labels                      = { product = format("%080d", 0), plan = "p", seller = "s", support = format("%01024d", 0) }
    notification_max_age_days   = 1
    notification_max_attempts   = 1
    reserved_concurrency        = { notification-intake = null, notification-sender = 1 }
    run_batch_size              = 1
    send_timeout_seconds        = 6
    stale_claim_minutes         = 1
    templates                   = { refunded = { en = { subject = format("{product}{plan}{seller}%016d", 0), text = "{{literal}} {support}" } } }
    transport                   = { type = "smtp", smtp = { host = "localhost", port = 65535, security = "starttls" } }
    verification_lifetime_hours = 1
  }
}

run "names_fit" {
  command = plan

  variables {
    environment = "so-long-that-no-role-name-fits-it"
  }

  expect_failures = [terraform_data.region]
}

run "the_senders_settings_fit_into_an_environment" {
  command = plan

  variables {
    product_labels = { for n in range(20) : "product${n}" => { product = "Example Analytics for teams of every size" } }
  }

  expect_failures = [terraform_data.environment_limits]
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
