locals {
  statements = concat(
    [{
      sid     = "Logs"
      actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
      # No logs:CreateLogGroup: a group that somebody deleted comes back through Terraform, with its retention and key.
      resources = ["${aws_cloudwatch_log_group.this.arn}:*"]
    }],
    length(var.event_sources) == 0 ? [] : [{
      sid       = "Consume"
      actions   = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
      resources = [for key in sort(keys(var.event_sources)) : var.event_sources[key].queue_arn]
    }],
    length(var.stream_sources) == 0 ? [] : [
      {
        sid       = "ConsumeStream"
        actions   = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
        resources = [for key in sort(keys(var.stream_sources)) : var.stream_sources[key].stream_arn]
      },
      {
        sid       = "GiveUp"
        actions   = ["sqs:SendMessage"]
        resources = [for key in sort(keys(var.stream_sources)) : var.stream_sources[key].on_failure_queue_arn]
      },
    ],
    [for key in var.kms_key == null ? [] : [var.kms_key] : {
      sid       = "Key"
      actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
      resources = [key.arn]
    }],
    var.vpc == null ? [] : [{
      sid = "NetworkInterfaces"
      actions = [
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
      ]
      # ec2:Describe* has no resource level, and Lambda does not tag the interfaces that it makes.
      resources = ["*"]
    }],
    [for on in var.tracing ? [true] : [] : {
      sid     = "Tracing"
      actions = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"]
      # X-Ray has no resource level for what is written.
      resources = ["*"]
    }],
    var.statements,
  )

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [for statement in local.statements : merge(
      {
        Sid      = statement.sid
        Effect   = "Allow"
        Action   = statement.actions
        Resource = statement.resources
      },
      { for name, condition in { Condition = try(statement.condition, {}) } : name => condition if length(condition) > 0 },
    )]
  })
}

resource "aws_iam_role" "this" {
  count = var.role == null ? 1 : 0

  name                 = var.role_name
  path                 = var.role_path
  description          = var.description
  permissions_boundary = try(var.role_permissions_boundary.arn, null)
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "this" {
  count = var.role == null ? 1 : 0

  name   = "function"
  role   = aws_iam_role.this[0].id
  policy = local.policy
}
