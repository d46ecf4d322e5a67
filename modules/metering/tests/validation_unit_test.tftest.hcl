# Each rule refuses what AWS would refuse at apply, or what would lose usage. A variable with several rules has one wrong value a
# run, so that each rule is seen to fail.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic   = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  metering_mode = "dry-run"
  product_code  = "1example2product3code4567"

  subscribers_table = {
    arn    = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
    name   = "awsmp-subscribers"
    region = "us-east-1"
  }
}

run "first_rule" {
  command = plan

  variables {
    alarm_thresholds                = { no-such-alarm = 1 }
    alarm_topic                     = { arn = "arn:aws:sns:us-east-1:111122223333:alarms.fifo" }
    environment                     = "Sandbox"
    kms_key                         = { arn = "arn:aws:kms:us-east-1:111122223333:alias/key" }
    lambda                          = { runtime = "python3.9" }
    lambda_package                  = {}
    log_retention_days              = 100
    name_prefix                     = "-awsmp"
    notice_topic                    = { arn = "notices" }
    role_path                       = "billing"
    role_permissions_boundary       = { arn = "boundary" }
    roles                           = { no-such-function = { arn = "arn:aws:iam::111122223333:role/own" } }
    runbook_base_url                = "docs/runbooks/"
    tags                            = { "aws:team" = "billing" }
    vpc                             = { subnet_ids = [], security_group_ids = ["sg-0a"] }
    metering_mode                   = "test"
    product_code                    = "a/b"
    subscribers_table               = { arn = "arn:aws:s3:::bucket", name = "bucket", region = "us-east-1" }
    aggregated_usage_table_ttl_days = 9
    aggregator                      = { timeout_seconds = 301 }
    billable_window_hours           = 25
    cleanup                         = { timeout_seconds = 901 }
    deployment_mode                 = "direct"
    legacy_product                  = { product_code = "a b" }
    marketplace_region              = "Virginia"
    quantity_type                   = "float"
    submitter                       = { max_records = 24 }
    test_account_allowlist          = ["1234"]
    usage_table_ttl_days            = 9
    writer_principal_arns           = ["*"]
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
    var.metering_mode,
    var.product_code,
    var.subscribers_table,
    var.aggregated_usage_table_ttl_days,
    var.aggregator,
    var.billable_window_hours,
    var.cleanup,
    var.deployment_mode,
    var.legacy_product,
    var.marketplace_region,
    var.quantity_type,
    var.submitter,
    var.test_account_allowlist,
    var.usage_table_ttl_days,
    var.writer_principal_arns,
  ]
}

run "second_rule" {
  command = plan

  variables {
    alarm_thresholds                = { work-dlq = 0 }
    environment                     = "default"
    lambda                          = { architecture = "arm" }
    lambda_package                  = { directory = "dist", s3 = { bucket = "artefacts", prefix = "" } }
    roles                           = { submitter = { arn = "own" } }
    vpc                             = { subnet_ids = ["subnet-0a"], security_group_ids = [] }
    subscribers_table               = { arn = "arn:aws:dynamodb:us-east-1:111122223333:table/t", name = "t", region = "eu-west-1" }
    aggregated_usage_table_ttl_days = -1
    aggregator                      = { batch_size = 11 }
    billable_window_hours           = 1.5
    cleanup                         = { batch_size = 0 }
    submitter                       = { requests_per_second = 11 }
    usage_table_ttl_days            = 10.5
  }

  expect_failures = [
    var.alarm_thresholds,
    var.environment,
    var.lambda,
    var.lambda_package,
    var.roles,
    var.vpc,
    var.subscribers_table,
    var.aggregated_usage_table_ttl_days,
    var.aggregator,
    var.billable_window_hours,
    var.cleanup,
    var.submitter,
    var.usage_table_ttl_days,
  ]
}

run "third_rule" {
  command = plan

  variables {
    lambda                 = { log_level = "TRACE" }
    subscribers_table      = { arn = "arn:aws:dynamodb:us-east-1:111122223333:table/t", name = "u", region = "us-east-1" }
    aggregator             = { maximum_concurrency = 1 }
    cleanup                = { maximum_concurrency = 21 }
    test_account_allowlist = [for n in range(158) : format("%012d", n)]
  }

  expect_failures = [
    var.lambda,
    var.subscribers_table,
    var.aggregator,
    var.cleanup,
    var.test_account_allowlist,
  ]
}

run "fourth_rule" {
  command = plan

  variables {
    reserved_concurrency = { no-such-function = 1 }
    lambda               = { memory_mib = { no-such-function = 256 } }
  }

  expect_failures = [
    var.lambda,
    var.reserved_concurrency,
  ]
}

run "fifth_rule" {
  command = plan

  variables {
    reserved_concurrency = { submitter = 0 }
    lambda               = { memory_mib = { submitter = 64 } }
  }

  expect_failures = [
    var.lambda,
    var.reserved_concurrency,
  ]
}

run "lock_is_at_least_one_hour" {
  command = plan

  variables {
    metering_lock_hours = 0
  }

  expect_failures = [var.metering_lock_hours]
}

run "lock_is_at_most_20_hours" {
  command = plan

  variables {
    metering_lock_hours = 21
  }

  expect_failures = [var.metering_lock_hours]
}

run "lock_is_below_the_window" {
  command = plan

  variables {
    billable_window_hours = 6
    metering_lock_hours   = 6
  }

  expect_failures = [var.metering_lock_hours]
}

run "reserved_concurrency_holds_the_queues" {
  command = plan

  variables {
    reserved_concurrency = { aggregator = 9, cleanup = 1 }
  }

  expect_failures = [var.aggregator, var.cleanup]
}

run "bounds_are_inclusive" {
  command = plan

  variables {
    aggregated_usage_table_ttl_days = 10
    aggregator                      = { timeout_seconds = 300, batch_size = 10, maximum_concurrency = 2 }
    billable_window_hours           = 21
    cleanup                         = { timeout_seconds = 900, batch_size = 1, maximum_concurrency = 20 }
    metering_lock_hours             = 20
    reserved_concurrency            = { aggregator = 4, cleanup = 20, submitter = null }
    submitter                       = { max_records = 25, requests_per_second = 10 }
    usage_table_ttl_days            = 10
  }
}

run "names_of_both_modes_fit" {
  command = plan

  variables {
    deployment_mode = "direct-submit"
    environment     = "thirteen-long"
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

run "a_tables_policy_holds_so_many_writers" {
  command = plan

  variables {
    writer_principal_arns = [for n in range(300) : format("arn:aws:iam::444455556666:role/%050d", n)]
  }

  expect_failures = [var.writer_principal_arns]
}
