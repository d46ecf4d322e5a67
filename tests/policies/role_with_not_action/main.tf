resource "aws_iam_role_policy" "all_but_one" {
  role = "broad"

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", NotAction = ["dynamodb:Scan"], Resource = "arn:aws:dynamodb:eu-west-1:111122223333:table/one" }]
  })
}
