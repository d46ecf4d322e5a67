# No count, for_each or validation may depend on an id, and no URL on another deployment's: everything plans while all of them are
# unknown.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
}

run "regional_with_unknown_ids" {
  command = plan

  module {
    source = "./tests/fixtures/unknown_ids"
  }

  variables {
    delivery = "regional"
  }
}

run "cloudfront_with_unknown_ids" {
  command = plan

  module {
    source = "./tests/fixtures/unknown_ids"
  }

  variables {
    delivery = "cloudfront"
  }
}
