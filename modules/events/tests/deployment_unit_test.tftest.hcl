# Applies the module against mocks, one deployment after another on the same state. `tests/terraform` reads the state that
# each run leaves (`terraform test -verbose`) and holds it against the rules.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic = { arn = "arn:aws:sns:us-east-1:111122223333:alarms" }
  tags        = { team = "billing" }
}

run "plain" {
  assert {
    condition     = output.subscribers_table.kms_key_arn == null && output.subscribers_table.region == "us-east-1"
    error_message = "Other modules rely on the subscribers table's Region and key; got ${jsonencode(output.subscribers_table)}."
  }
}

run "estate" {
  variables {
    environment               = "staging"
    kms_key                   = { arn = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
    lambda_package            = { s3 = { bucket = "artefacts", prefix = "awsmp/0.1.0/" } }
    log_retention_days        = 731
    notice_topic              = { arn = "arn:aws:sns:us-east-1:111122223333:notices" }
    product_codes             = ["2example", "1example"]
    role_path                 = "/billing/"
    role_permissions_boundary = { arn = "arn:aws:iam::111122223333:policy/boundary" }
    runbook_base_url          = "https://example.com/your/mirror/blob/main/docs/runbooks"
    roles                     = { deprovision-cleanup = { arn = "arn:aws:iam::111122223333:role/own-cleanup" }, subscriber-forwarder = { arn = "arn:aws:iam::111122223333:role/own-forwarder" } }
    sandbox_event_sources     = ["sandbox.agreement-marketplace"]
    seller_account_id         = "111122223333"
    vpc                       = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }

    forward_event_buses = {
      eu-west-1 = { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/notifications" }
      us-east-1 = { arn = "arn:aws:events:us-east-1:111122223333:event-bus/notifications" }
    }
  }

  assert {
    condition     = output.role_arns["deprovision-cleanup"] == "arn:aws:iam::111122223333:role/own-cleanup"
    error_message = "A role of one's own is used; got ${output.role_arns["deprovision-cleanup"]}."
  }
}

run "forwarding" {
  variables {
    forward_event_buses = {
      eu-west-1 = { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/notifications" }
      us-east-1 = { arn = "arn:aws:events:us-east-1:111122223333:event-bus/notifications" }
    }
  }

  assert {
    condition     = contains(keys(output.function_names), "subscriber-forwarder") && contains(keys(output.alarm_arns), "subscriber-forwarder-failed")
    error_message = "Whoever is to be told of changes has a function that forwards them, and alarms on it; got ${jsonencode([output.function_names, keys(output.alarm_arns)])}."
  }
}

run "without_dashboard" {
  variables {
    create_dashboard = false

    forward_event_buses = {
      eu-west-1 = { arn = "arn:aws:events:eu-west-1:111122223333:event-bus/notifications" }
      us-east-1 = { arn = "arn:aws:events:us-east-1:111122223333:event-bus/notifications" }
    }
  }

  assert {
    condition     = output.dashboard_name == null
    error_message = "Without a dashboard there is no name of one; got ${jsonencode(output.dashboard_name)}."
  }
}
