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
