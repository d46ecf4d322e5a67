# GovCloud's endpoints take MeterUsage only: who deploys there is told, as long as `marketplace_region` names no other Region.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic  = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  product_code = "1example2product3code4567"
  stage_name   = "prod"

  # What is tested here has nothing to do with it, and it takes Terraform ten seconds to plan.
  create_web_acl = false

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

run "offered" {
  command = plan
}

run "not_offered_in_govcloud" {
  command = plan

  override_data {
    target = data.aws_region.current
    values = { id = "us-gov-west-1" }
  }

  variables {
    alarm_topic = { arn = "arn:aws-us-gov:sns:us-gov-west-1:111122223333:alarms" }
  }

  expect_failures = [check.marketplace_offers_resolve_customer]
}
