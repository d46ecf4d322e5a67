# Applies the module against mocks, one deployment after another on the same state. `tests/terraform` reads the state that
# each run leaves (`terraform test -verbose`) and holds it against the rules.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic   = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  labels        = { product = "Example Analytics", plan = "Standard", seller = "Example Corp.", support = "support@example.com" }
  pepper_secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pepper-AbCdEf" }
  portal_url    = "https://app.example.com/billing"
  sender        = "billing@example.com"
  tags          = { team = "billing" }
  transport     = { type = "ses", ses = { identity_arn = "arn:aws:ses:eu-west-1:111122223333:identity/example.com" } }

  customer_profile_tables = {
    "1example2product3code4567" = {
      arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-1example2product3code4567-customer-profile"
      name       = "awsmp-1example2product3code4567-customer-profile"
      region     = "eu-west-1"
      stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-1example2product3code4567-customer-profile/stream/2026-11-10T00:00:00.000"
      verify_url = "https://buy.example.com/verify"
    }
  }

  subscribers_table = {
    arn    = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
    name   = "awsmp-subscribers"
    region = "us-east-1"
  }

  verification_secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf" }
}

run "ses" {
  assert {
    condition     = output.event_bus == { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/awsmp-notifications", name = "awsmp-notifications" }
    error_message = "The events module forwards to the bus; got ${jsonencode(output.event_bus)}."
  }

  assert {
    condition     = output.table.region == "eu-west-1" && output.table.kms_key_arn == null
    error_message = "Deliveries are written down where the mail is sent; got ${jsonencode(output.table)}."
  }

  assert {
    condition     = output.feedback_topic_arn == "arn:aws:sns:eu-west-1:111122223333:notification-feedback" && output.configuration_set_name == "awsmp-notifications"
    error_message = "With SES there are a configuration set and a topic for its reports; got ${jsonencode([output.configuration_set_name, output.feedback_topic_arn])}."
  }
}

run "without_dashboard" {
  variables {
    create_dashboard = false
  }

  assert {
    condition     = output.dashboard_name == null
    error_message = "Without a dashboard there is no name of one; got ${jsonencode(output.dashboard_name)}."
  }
}

run "smtp" {
  variables {
    smtp_credentials_secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:smtp-AbCdEf" }
    verification_secret     = null

    customer_profile_tables = {
      own = {
        arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-own-customer-profile"
        name       = "awsmp-own-customer-profile"
        region     = "eu-west-1"
        stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-own-customer-profile/stream/2026-11-10T00:00:00.000"
      }
    }

    transport = {
      type = "smtp"
      smtp = {
        host     = "smtp.example.com"
        port     = 465
        security = "implicit"
      }
    }
  }

  assert {
    condition     = output.feedback_topic_arn == null && output.configuration_set_name == null && !contains(keys(output.function_names), "notification-feedback")
    error_message = "A mail server of one's own reports nothing here; got ${jsonencode([output.configuration_set_name, output.feedback_topic_arn, output.function_names])}."
  }
}

run "estate" {
  variables {
    alarm_thresholds               = { notification-events-dlq = 5, notification-feedback-dlq = 2 }
    billing_event_principal_arns   = ["arn:aws:iam::444455556666:role/billing"]
    deletion_protection            = false
    environment                    = "staging"
    event_forwarder_principal_arns = ["arn:aws:iam::777788889999:role/awsmp-staging-subscriber-forwarder-use1", "arn:aws:iam::777788889999:role/awsmp-staging-subscription-use1"]
    feedback_retention_days        = 3650
    kms_key                        = { arn = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
    lambda                         = { runtime = "python3.12", architecture = "x86_64", log_level = "DEBUG", memory_mib = { notification-sender = 512 } }
    lambda_package                 = { s3 = { bucket = "artefacts", prefix = "awsmp/0.1.0/" } }
    log_retention_days             = 731
    notice_topic                   = { arn = "arn:aws:sns:eu-west-1:111122223333:notices" }
    notification_max_age_days      = 30
    notification_max_attempts      = 100
    pepper_secret                  = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pepper-AbCdEf", kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/secrets" }
    reserved_concurrency           = { notification-sender = 1, notification-intake = null }
    role_path                      = "/billing/"
    role_permissions_boundary      = { arn = "arn:aws:iam::111122223333:policy/boundary" }
    roles                          = { notification-admin = { arn = "arn:aws:iam::111122223333:role/own-admin" } }
    run_batch_size                 = 1000
    runbook_base_url               = "https://example.com/your/mirror/blob/main/docs/runbooks"
    send_timeout_seconds           = 120
    stale_claim_minutes            = 3
    template_details               = { de = "{product} ({plan}): {portal_url} {{}}" }
    tracing                        = true
    transport                      = { type = "ses", ses = { identity_arn = "arn:aws:ses:eu-west-1:111122223333:identity/billing@example.com", require_tls = false } }
    verification_lifetime_hours    = 168
    vpc                            = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }

    customer_profile_tables = {
      one = {
        arn         = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-1example2product3code4567-customer-profile"
        kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/profiles"
        name        = "awsmp-1example2product3code4567-customer-profile"
        region      = "eu-west-1"
        stream_arn  = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-1example2product3code4567-customer-profile/stream/2026-11-10T00:00:00.000"
        verify_url  = "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com/prod/verify"
      }
      two = {
        arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-2example-customer-profile"
        name       = "awsmp-2example-customer-profile"
        region     = "eu-west-1"
        stream_arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/awsmp-2example-customer-profile/stream/2026-11-10T00:00:00.000"
      }
    }

    product_labels = {
      "2example" = { product = "Example Reports", portal_url = "https://reports.example.com/" }
    }

    subscribers_table = {
      arn         = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
      kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/subscribers"
      name        = "awsmp-subscribers"
      region      = "us-east-1"
    }

    templates = {
      subscription_started = {
        de    = { subject = "Ihr Abonnement von {product} hat begonnen", text = "Willkommen bei {seller}." }
        pt-br = { subject = "Sua assinatura", text = "Plano: {plan}" }
      }
      address_verification = {
        de = { subject = "Bitte bestätigen", text = "Hier: {link}" }
      }
    }
  }

  assert {
    condition     = output.role_arns["notification-admin"] == "arn:aws:iam::111122223333:role/own-admin"
    error_message = "A role of one's own is used; got ${output.role_arns["notification-admin"]}."
  }
}
