# No count, for_each or validation may depend on an id: everything plans while all of them are unknown, and the three modules can be given
# each other's outputs without going round in a circle.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
}

run "ses_with_unknown_ids" {
  command = plan

  module {
    source = "./tests/fixtures/unknown_ids"
  }

  variables {
    type = "ses"
  }
}

run "smtp_with_unknown_ids" {
  command = plan

  module {
    source = "./tests/fixtures/unknown_ids"
  }

  variables {
    type = "smtp"
  }
}
