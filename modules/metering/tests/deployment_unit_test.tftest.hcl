# Applies the module against mocks, one deployment after another on the same state. `tests/terraform` reads the state that
# each run leaves (`terraform test -verbose`) and holds it against the rules.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic   = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  metering_mode = "live"
  product_code  = "1example2product3code4567"
  tags          = { team = "billing" }

  subscribers_table = {
    arn    = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
    name   = "awsmp-subscribers"
    region = "us-east-1"
  }
}

run "full" {
  assert {
    condition     = output.metric_dimensions == { Environment = "default", ProductCode = "1example2product3code4567" }
    error_message = "Alarms and dashboards of others rely on the metrics' dimensions; got ${jsonencode(output.metric_dimensions)}."
  }

  assert {
    condition     = sort(keys(output.queues)) == tolist(["cleanup", "cleanup_dlq", "deprovision_work", "deprovision_work_dlq", "work", "work_dlq"])
    error_message = "The queues of full mode and their DLQs are outputs; got ${join(", ", keys(output.queues))}."
  }

  assert {
    condition     = jsondecode(output.usage_writer_policy_json).Statement[0].Resource == [output.usage_table.arn]
    error_message = "In full mode the writer writes to the usage table; got ${output.usage_writer_policy_json}."
  }
}

run "direct_submit" {
  variables {
    deployment_mode = "direct-submit"
  }

  assert {
    condition     = length(output.queues) == 0 && sort(keys(output.function_names)) == tolist(["expiry", "submitter"])
    error_message = "Direct submit needs the submitter and expiry only, and no queue; got ${join(", ", keys(output.function_names))}."
  }

  assert {
    condition     = jsondecode(output.usage_writer_policy_json).Statement[0].Resource == [output.aggregated_usage_table.arn]
    error_message = "In direct-submit mode the writer writes to the aggregated-usage table; got ${output.usage_writer_policy_json}."
  }
}

run "full_again" {}

run "estate" {
  variables {
    alarm_thresholds          = { usage-record-rejected = 5 }
    environment               = "staging"
    kms_key                   = { arn = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
    lambda                    = { runtime = "python3.12", architecture = "x86_64", log_level = "DEBUG", memory_mib = { submitter = 2048 } }
    lambda_package            = { s3 = { bucket = "artefacts", prefix = "awsmp/0.1.0/" } }
    legacy_product            = { product_code = "legacy" }
    log_retention_days        = 731
    marketplace_region        = "us-east-1"
    metering_mode             = "dry-run"
    notice_topic              = { arn = "arn:aws:sns:eu-west-1:111122223333:notices" }
    reserved_concurrency      = { submitter = 1, aggregator = null }
    role_path                 = "/billing/"
    role_permissions_boundary = { arn = "arn:aws:iam::111122223333:policy/boundary" }
    runbook_base_url          = "https://example.com/your/mirror/blob/main/docs/runbooks"
    roles                     = { cleanup = { arn = "arn:aws:iam::111122223333:role/own-cleanup" } }
    test_account_allowlist    = ["444455556666", "111122223333"]
    usage_table_ttl_days      = 0
    vpc                       = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }
    writer_principal_arns     = ["arn:aws:iam::444455556666:role/usage-writer"]

    subscribers_table = {
      arn         = "arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"
      kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/subscribers"
      name        = "awsmp-subscribers"
      region      = "us-east-1"
    }
  }

  assert {
    condition     = output.role_arns["cleanup"] == "arn:aws:iam::111122223333:role/own-cleanup" && jsondecode(output.role_policies_json["cleanup"]).Version == "2012-10-17"
    error_message = "A role of one's own is used, and the policy that it needs is an output all the same."
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
