resource "aws_iam_role_policy" "every_table_action" {
  role = "broad"

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = ["sqs:SendMessage"], Resource = "arn:aws:sqs:eu-west-1:111122223333:queue" },
      { Effect = "Allow", Action = ["dynamodb:*"], Resource = "arn:aws:dynamodb:eu-west-1:111122223333:table/one" },
    ]
  })
}

resource "aws_iam_policy" "every_get" {
  name = "every-get"

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = { Effect = "Allow", Action = "dynamodb:Get*", Resource = "arn:aws:dynamodb:eu-west-1:111122223333:table/one" }
  })
}

resource "aws_iam_role" "inline" {
  name               = "inline"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [] })

  inline_policy {
    name   = "everything"
    policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = "*", Resource = "*" }] })
  }
}
