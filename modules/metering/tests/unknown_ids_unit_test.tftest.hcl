# No count, for_each or validation may depend on an id: everything plans while all of them are unknown.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
}

run "full_with_unknown_ids" {
  command = plan

  module {
    source = "./tests/fixtures/unknown_ids"
  }

  variables {
    deployment_mode = "full"
  }
}

run "direct_submit_with_unknown_ids" {
  command = plan

  module {
    source = "./tests/fixtures/unknown_ids"
  }

  variables {
    deployment_mode = "direct-submit"
  }
}
