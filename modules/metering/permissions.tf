# Every permission of this module's functions on data, in one place. Logs, queues to read, VPC and KMS are added by the function
# module. Nothing may scan a table, and nothing but the submitter may meter.
locals {
  usage_index       = "${aws_dynamodb_table.usage.arn}/index/metering_pending"
  ledger_index      = "${aws_dynamodb_table.aggregated_usage.arn}/index/metering_pending"
  subscribers_index = "${var.subscribers_table.arn}/index/deprovisioning-pending-index"
  accounts_index    = "${var.subscribers_table.arn}/index/customerAWSAccountId-index"

  subscribers_statements = concat(
    [
      { sid = "SubscribersPending", actions = ["dynamodb:Query"], resources = [local.subscribers_index] },
      { sid = "Subscribers", actions = ["dynamodb:GetItem"], resources = [var.subscribers_table.arn] },
    ],
    [
      for arn in compact([var.subscribers_table.kms_key_arn]) :
      { sid = "SubscribersKey", actions = ["kms:Decrypt", "kms:DescribeKey"], resources = [arn] }
    ],
  )

  permissions = {
    discoverer = concat(
      [
        { sid = "UsagePending", actions = ["dynamodb:Query"], resources = [local.usage_index] },
        {
          sid       = "Usage"
          actions   = ["dynamodb:BatchGetItem", "dynamodb:PartiQLUpdate", "dynamodb:Query", "dynamodb:UpdateItem"]
          resources = [aws_dynamodb_table.usage.arn]
        },
        {
          sid       = "Ledger"
          actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
          resources = [aws_dynamodb_table.aggregated_usage.arn]
        },
        {
          sid       = "Dispatch"
          actions   = ["sqs:SendMessage"]
          resources = [for key in ["deprovision-work", "work"] : lookup(local.queue_arns, key, "")]
        },
      ],
      local.subscribers_statements,
    )

    aggregator = [
      {
        sid       = "Usage"
        actions   = ["dynamodb:BatchGetItem", "dynamodb:PartiQLUpdate", "dynamodb:Query", "dynamodb:UpdateItem"]
        resources = [aws_dynamodb_table.usage.arn]
      },
      {
        sid       = "Ledger"
        actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        resources = [aws_dynamodb_table.aggregated_usage.arn]
      },
      {
        sid       = "Dispatch"
        actions   = ["sqs:SendMessage"]
        resources = [lookup(local.queue_arns, "cleanup", "")]
      },
    ]

    cleanup = [
      {
        sid       = "Usage"
        actions   = ["dynamodb:BatchGetItem", "dynamodb:PartiQLUpdate", "dynamodb:UpdateItem"]
        resources = [aws_dynamodb_table.usage.arn]
      },
      { sid = "Ledger", actions = ["dynamodb:GetItem"], resources = [aws_dynamodb_table.aggregated_usage.arn] },
      {
        sid       = "Dispatch"
        actions   = ["sqs:SendMessage"]
        resources = [lookup(local.queue_arns, "work", "")]
      },
    ]

    submitter = concat(
      [
        { sid = "LedgerPending", actions = ["dynamodb:Query"], resources = [local.ledger_index] },
        {
          sid       = "Ledger"
          actions   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:UpdateItem"]
          resources = [aws_dynamodb_table.aggregated_usage.arn]
        },
      ],
      local.subscribers_statements,
      # A licence that is refused in the hour of its activation is looked up under every spelling of its ARN.
      [{ sid = "SubscribersByAccount", actions = ["dynamodb:Query"], resources = [local.accounts_index] }],
      # A dry run cannot meter, whatever its code does.
      [for mode in var.metering_mode == "live" ? ["live"] : [] : {
        sid     = "Meter"
        actions = ["aws-marketplace:BatchMeterUsage"]
        # aws-marketplace:BatchMeterUsage has no resource level.
        resources = ["*"]
      }],
      [for arn in compact([lookup(local.queue_arns, "work", null)]) : {
        sid       = "Dispatch"
        actions   = ["sqs:SendMessage"]
        resources = [arn]
      }],
    )

    expiry = [
      { sid = "LedgerPending", actions = ["dynamodb:Query"], resources = [local.ledger_index] },
      {
        sid       = "Ledger"
        actions   = ["dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:UpdateItem"]
        resources = [aws_dynamodb_table.aggregated_usage.arn]
      },
    ]
  }
}
