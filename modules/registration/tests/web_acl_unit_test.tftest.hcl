# Plans the baseline web ACL. `tests/terraform` reads its rules from here (`terraform test -verbose`): it runs the other files of
# this module with an ACL of one rule, because Terraform compares the types of an ACL's rules, which are huge, at every step.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  alarm_topic  = { arn = "arn:aws:sns:eu-west-1:111122223333:alarms" }
  product_code = "1example2product3code4567"
  stage_name   = "prod"

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
  command = plan
}

run "cloudfront" {
  command = plan

  variables {
    delivery   = "cloudfront"
    rate_limit = 1000

    address_verification = { secret = { arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:verification-AbCdEf" } }
  }
}
