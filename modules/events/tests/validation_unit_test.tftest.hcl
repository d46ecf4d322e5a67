# Each rule refuses what AWS would refuse at apply, or what would lose usage. A variable with several rules has one wrong value a
# run, so that each rule is seen to fail.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic = { arn = "arn:aws:sns:us-east-1:111122223333:alarms" }
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
    forward_event_buses       = { Ireland = { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/b" } }
    product_codes             = ["a/b"]
    seller_account_id         = "1234"
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
    var.forward_event_buses,
    var.product_codes,
    var.seller_account_id,
  ]
}

run "second_rule" {
  command = plan

  variables {
    alarm_thresholds    = { events-dlq = 0 }
    environment         = "default"
    lambda              = { architecture = "arm" }
    lambda_package      = { directory = "dist", s3 = { bucket = "artefacts", prefix = "" } }
    roles               = { subscription = { arn = "own" } }
    vpc                 = { subnet_ids = ["subnet-0a"], security_group_ids = [] }
    forward_event_buses = { eu-west-1 = { arn = "arn:aws:events:eu-central-1:111122223333:event-bus/b" } }
  }

  expect_failures = [
    var.alarm_thresholds,
    var.environment,
    var.lambda,
    var.lambda_package,
    var.roles,
    var.vpc,
    var.forward_event_buses,
  ]
}

run "third_rule" {
  command = plan

  variables {
    lambda = { log_level = "TRACE" }
  }

  expect_failures = [
    var.lambda,
  ]
}

run "fourth_rule" {
  command = plan

  variables {
    environment           = "sandbox"
    sandbox_event_sources = ["aws.agreement-marketplace"]
    reserved_concurrency  = { no-such-function = 1 }
    lambda                = { memory_mib = { no-such-function = 256 } }
  }

  expect_failures = [
    var.lambda,
    var.sandbox_event_sources,
    var.reserved_concurrency,
  ]
}

run "fifth_rule" {
  command = plan

  variables {
    sandbox_event_sources = ["sandbox.agreement-marketplace"]
    reserved_concurrency  = { subscription = 0 }
    lambda                = { memory_mib = { subscription = 64 } }
  }

  expect_failures = [
    var.lambda,
    var.sandbox_event_sources,
    var.reserved_concurrency,
  ]
}

run "names_fit" {
  command = plan

  variables {
    environment = "so-long-that-no-role-name-fits-it-36"
  }

  expect_failures = [terraform_data.region]
}

run "events_come_to_us_east_1_only" {
  command = plan

  variables {
    alarm_topic = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  }

  override_data {
    target = data.aws_region.current
    values = { id = "eu-west-1" }
  }

  expect_failures = [terraform_data.region]
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

run "what_a_function_and_a_pattern_can_hold" {
  command = plan

  variables {
    environment           = "sandbox"
    forward_event_buses   = { for n in range(30) : "eu-west-${n}" => { arn = "arn:aws:events:eu-west-${n}:111122223333:event-bus/notifications" } }
    product_codes         = [for n in range(30) : format("%063d", n)]
    sandbox_event_sources = [for n in range(20) : format("sandbox.%060d", n)]
  }

  expect_failures = [var.forward_event_buses, var.product_codes, var.sandbox_event_sources]
}
