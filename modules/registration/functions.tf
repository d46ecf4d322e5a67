locals {
  # The value of the metrics' dimension, which cannot be empty.
  environment = coalesce(var.environment, "default")

  marketplace_region = var.marketplace_region == null ? local.region.id : var.marketplace_region

  descriptions = {
    page     = "Takes the buyer's browser from AWS Marketplace to the registration page"
    register = "Registers buyers of the product"
    verify   = "Verifies the addresses of buyers' contacts by a mailed link"
  }

  # Below API Gateway's 29 seconds, so that a slow call ends as this function's own answer.
  timeouts_seconds = {
    page     = 10
    register = 25
    verify   = 25
  }

  # Characters, where a field does not say; any other type has 200.
  default_max_lengths = { email = 254, tel = 32, textarea = 2000 }

  # One definition of the form, for the page and for the function that judges what was sent.
  registration_fields_json = jsonencode([
    for field in var.registration_fields : {
      for key, value in {
        name      = field.name
        label     = field.label
        type      = field.type
        maxLength = coalesce(field.max_length, lookup(local.default_max_lengths, field.type, 200))
        required  = field.required
        options   = field.options
      } : key => value if key != "options" || length(field.options) > 0
    }
  ])

  # Otherwise the function only sends browsers on: to the seller's page, or to this module's in the bucket.
  function_delivers_page = var.page != null && !local.cloudfront

  # Own page, other deployments' pages: whose script may call this API from a browser. This deployment's page shares the API's
  # host and needs no entry.
  own_page_origins = [for url in var.own_page_url == null ? [] : [var.own_page_url] : regex("^https://[^/?#]+", url)]
  allowed_origins  = distinct(concat(local.own_page_origins, sort(tolist(var.allowed_origins))))

  common_environment = {
    ENVIRONMENT                  = local.environment
    LOG_LEVEL                    = var.lambda.log_level
    POWERTOOLS_METRICS_NAMESPACE = "AWSMarketplaceMetering"
    PRODUCT_CODE                 = var.product_code
  }

  environments = {
    page = merge(
      local.common_environment,
      {
        CONTENT_SECURITY_POLICY = local.content_security_policy
        POWERTOOLS_SERVICE_NAME = "page"
      },
      { for key, value in { PAGE_VALUES = local.page_values_json } : key => value if local.function_delivers_page },
      { for key, value in { OWN_PAGE_URL = local.page_url } : key => value if !local.function_delivers_page },
    )

    register = merge(local.common_environment, {
      ALLOWED_ORIGINS          = jsonencode(local.allowed_origins)
      CUSTOMER_PROFILE_TABLE   = aws_dynamodb_table.customer_profile.name
      MARKETPLACE_REGION       = local.marketplace_region
      POWERTOOLS_SERVICE_NAME  = "register"
      PROMOTED_FIELDS          = jsonencode(local.promoted_fields)
      REGISTRATION_FIELDS      = local.registration_fields_json
      SUBSCRIBERS_TABLE        = var.subscribers_table.name
      SUBSCRIBERS_TABLE_REGION = var.subscribers_table.region
    })

    verify = merge(
      local.common_environment,
      {
        CUSTOMER_PROFILE_TABLE  = aws_dynamodb_table.customer_profile.name
        POWERTOOLS_SERVICE_NAME = "verify"
        VERIFICATION_SECRET_ARN = try(var.address_verification.secret.arn, "")
      },
      { for key, value in { PRODUCT_NAME = try(var.page.product_name, ""), SUPPORT = try(var.page.support_email, "") } : key => value if value != "" },
    )
  }

  # Every permission of this module's functions on data, in one place. Logs, VPC and KMS are added by the function module. Nothing
  # may scan a table, and nothing here may read a buyer's profile by anything but its key.
  permissions = {
    page = []

    register = concat(
      [
        {
          sid     = "Resolve"
          actions = ["aws-marketplace:ResolveCustomer"]
          # aws-marketplace:ResolveCustomer has no resource level.
          resources = ["*"]
        },
        {
          sid       = "CustomerProfile"
          actions   = ["dynamodb:PutItem"]
          resources = [aws_dynamodb_table.customer_profile.arn]
        },
        {
          sid       = "Subscribers"
          actions   = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
          resources = [var.subscribers_table.arn]
        },
        {
          sid       = "SubscribersByAccount"
          actions   = ["dynamodb:Query"]
          resources = ["${var.subscribers_table.arn}/index/customerAWSAccountId-index"]
        },
      ],
      [
        for arn in compact([var.subscribers_table.kms_key_arn]) : {
          sid       = "SubscribersKey"
          actions   = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"]
          resources = [arn]
        }
      ],
    )

    verify = concat(
      [
        {
          sid       = "CustomerProfile"
          actions   = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
          resources = [aws_dynamodb_table.customer_profile.arn]
        },
      ],
      [
        for secret in local.verifying ? [var.address_verification.secret] : [] : {
          sid       = "VerificationSecret"
          actions   = ["secretsmanager:GetSecretValue"]
          resources = [secret.arn]
        }
      ],
      [
        for arn in compact([try(var.address_verification.secret.kms_key_arn, null)]) : {
          sid       = "VerificationSecretKey"
          actions   = ["kms:Decrypt"]
          resources = [arn]
        }
      ],
    )
  }
}
