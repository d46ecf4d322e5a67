# Every permission of this module's functions on data, in one place. Logs, queues and streams to read, VPC and the module's own key are
# added by the function module. Nothing may scan a table, and nothing but the sender may send mail or read a secret.
locals {
  work_index     = "${aws_dynamodb_table.notifications.arn}/index/work-index"
  profile_arns   = local.profile_tables[*].arn
  profile_keys   = distinct(compact(local.profile_tables[*].kms_key_arn))
  verifying_arns = local.verifying_tables[*].arn
  verifying_keys = distinct(compact(local.verifying_tables[*].kms_key_arn))

  secrets = concat(
    [var.pepper_secret],
    [for secret in var.verification_secret == null ? [] : [var.verification_secret] : secret],
    [for secret in var.smtp_credentials_secret == null ? [] : [var.smtp_credentials_secret] : secret],
  )
  secret_keys = distinct(compact(local.secrets[*].kms_key_arn))

  profiles_statements = concat(
    [{ sid = "CustomerProfiles", actions = ["dynamodb:GetItem"], resources = local.profile_arns }],
    [for arns in [local.profile_keys] : { sid = "CustomerProfilesKey", actions = ["kms:Decrypt", "kms:DescribeKey"], resources = arns } if length(arns) > 0],
  )

  housekeeping_statements = [
    {
      sid       = "Notifications"
      actions   = ["dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
      resources = [aws_dynamodb_table.notifications.arn]
    },
    { sid = "NotificationsByWork", actions = ["dynamodb:Query"], resources = [local.work_index] },
  ]

  permissions = {
    notification-admin = local.housekeeping_statements

    notification-contacts = concat(
      [
        {
          sid       = "Notifications"
          actions   = ["dynamodb:PutItem"]
          resources = [aws_dynamodb_table.notifications.arn]
        },
        {
          sid       = "TellVerified"
          actions   = ["events:PutEvents"]
          resources = [aws_cloudwatch_event_bus.this.arn]
          condition = { StringEquals = { "events:source" = "awsmp.registration" } }
        },
      ],
      [for arns in [local.profile_keys] : { sid = "CustomerProfilesKey", actions = ["kms:Decrypt", "kms:DescribeKey"], resources = arns, condition = {} } if length(arns) > 0],
    )

    notification-feedback = [{
      sid       = "Notifications"
      actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
      resources = [aws_dynamodb_table.notifications.arn]
    }]

    notification-intake = concat(
      [
        {
          sid       = "Notifications"
          actions   = ["dynamodb:GetItem", "dynamodb:PutItem"]
          resources = [aws_dynamodb_table.notifications.arn]
        },
        { sid = "Subscribers", actions = ["dynamodb:GetItem"], resources = [var.subscribers_table.arn] },
        {
          sid     = "SubscribersIndexes"
          actions = ["dynamodb:Query"]
          resources = [
            "${var.subscribers_table.arn}/index/agreementId-index",
            "${var.subscribers_table.arn}/index/customerAWSAccountId-index",
          ]
        },
      ],
      [for arn in compact([var.subscribers_table.kms_key_arn]) : { sid = "SubscribersKey", actions = ["kms:Decrypt", "kms:DescribeKey"], resources = [arn] }],
      local.profiles_statements,
    )

    notification-maintenance = local.housekeeping_statements

    notification-sender = concat(
      [
        {
          sid       = "Notifications"
          actions   = ["dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
          resources = [aws_dynamodb_table.notifications.arn]
        },
        { sid = "NotificationsByWork", actions = ["dynamodb:Query"], resources = [local.work_index] },
        { sid = "Secrets", actions = ["secretsmanager:GetSecretValue"], resources = local.secrets[*].arn },
      ],
      local.profiles_statements,
      [for arns in [local.secret_keys] : { sid = "SecretsKey", actions = ["kms:Decrypt"], resources = arns } if length(arns) > 0],
      # Writes down which link is the valid one, before it is mailed.
      [for arns in [local.verifying_arns] : { sid = "PendingVerifications", actions = ["dynamodb:UpdateItem"], resources = arns } if length(arns) > 0],
      [for arns in [local.verifying_keys] : { sid = "PendingVerificationsKey", actions = ["kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"], resources = arns } if length(arns) > 0],
      [for identity in local.ses ? [var.transport.ses.identity_arn] : [] : {
        sid       = "Send"
        actions   = ["ses:SendEmail"]
        resources = [identity, aws_sesv2_configuration_set.this[0].arn]
        condition = { StringEquals = { "ses:FromAddress" = var.sender } }
      }],
    )
  }
}
