resource "aws_dynamodb_table" "off" {
  name                        = "off"
  billing_mode                = "PAY_PER_REQUEST"
  deletion_protection_enabled = false
  hash_key                    = "key"

  attribute {
    name = "key"
    type = "S"
  }
}

# AWS's own default is off.
resource "aws_dynamodb_table" "not_said" {
  name         = "not-said"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "key"

  attribute {
    name = "key"
    type = "S"
  }
}
