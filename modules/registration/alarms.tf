locals {
  metric_dimensions = { Environment = local.environment, ProductCode = var.product_code }
  metric_namespace  = "AWSMarketplaceMetering"

  # Nothing here waits: a buyer is turned away at once, and may come back at any time with a new token.
  come_back = "No usage is lost and there is no deadline: they can choose \"Set up your account\" in AWS Marketplace again, once it is mended"

  error_alarms = {
    page-errors     = { function = "page", description = "The page function fails: buyers who come from AWS Marketplace do not reach the registration page. They have paid and cannot start. ${local.come_back}." }
    register-errors = { function = "register", description = "The register function fails: buyers have paid and cannot register, and what they entered may have to be entered again. ${local.come_back}." }
    verify-errors   = { function = "verify", description = "The verify function fails: buyers who follow the link in their mail get an error, and are told of nothing by mail until their address is verified. They can follow the link again while it is valid." }
  }

  # A buyer waits for each of these calls and nothing repeats them, so one that is refused is one too many.
  throttle_alarms = {
    page-throttles     = { function = "page", description = "Lambda refuses to run the page function: buyers who come from AWS Marketplace get an error instead of the registration page. ${local.come_back}. Free concurrency." }
    register-throttles = { function = "register", description = "Lambda refuses to run the register function: buyers have paid and cannot register. ${local.come_back}. Free concurrency." }
    verify-throttles   = { function = "verify", description = "Lambda refuses to run the verify function: buyers who follow the link in their mail get an error. They can follow the link again while it is valid. Free concurrency." }
  }

  # Refusals that no buyer can mend and no stranger can cause: AWS Marketplace resolves tokens of this seller's products only.
  refusal_alarms = {
    registration-missing-license = { reason = "MissingLicense", description = "AWS Marketplace named no licence or no account for a buyer's token, or none of a known form: usage could not be attributed, so the buyer, who has paid, is not registered. ${local.come_back}." }
    registration-wrong-product   = { reason = "WrongProduct", description = "A buyer of another product of yours was sent here: the fulfilment URL of its listing, or product_code here, is wrong, and no buyer of it can register. ${local.come_back}." }
  }

  all_alarms = merge(
    {
      for key, alarm in local.error_alarms : key => {
        deployed    = contains(local.deployed_function_set, alarm.function)
        description = alarm.description
        severity    = "alarm"
        namespace   = "AWS/Lambda"
        metric_name = "Errors"
        dimensions  = tomap({ FunctionName = local.names.functions[alarm.function] })
      }
    },
    {
      for key, alarm in local.throttle_alarms : key => {
        deployed    = contains(local.deployed_function_set, alarm.function)
        description = alarm.description
        severity    = "alarm"
        namespace   = "AWS/Lambda"
        metric_name = "Throttles"
        dimensions  = tomap({ FunctionName = local.names.functions[alarm.function] })
      }
    },
    {
      for key, alarm in local.refusal_alarms : key => {
        deployed    = true
        description = alarm.description
        severity    = "alarm"
        namespace   = local.metric_namespace
        metric_name = "RegistrationRejected"
        dimensions  = tomap(merge(local.metric_dimensions, { Reason = alarm.reason }))
      }
    },
    {
      address-verification-failed = {
        deployed    = local.verifying
        description = "A contact could not be verified, for a reason that the buyer cannot mend: the table or the secret did not answer as it should. The link stays valid until its time is over; until then the buyer can follow it again."
        severity    = "notice"
        namespace   = local.metric_namespace
        metric_name = "AddressVerificationFailed"
        dimensions  = tomap(local.metric_dimensions)
      }
      registration-api-5xx = {
        deployed    = true
        description = "The registration API answered with a server error: a buyer was turned away, at the page or at the registration. ${local.come_back}. The access log names the route."
        severity    = "alarm"
        namespace   = "AWS/ApiGateway"
        metric_name = "5XXError"
        dimensions  = tomap({ ApiName = local.names.api, Stage = var.stage_name })
      }
      registration-failed = {
        deployed    = true
        description = "A registration ended in an error that the buyer cannot mend: AWS Marketplace, a table or the configuration did not answer as it should. ${local.come_back}. The register function's log names the cause."
        severity    = "alarm"
        namespace   = local.metric_namespace
        metric_name = "RegistrationFailed"
        dimensions  = tomap(local.metric_dimensions)
      }
    },
  )

  alarms = { for key, alarm in local.all_alarms : key => alarm if alarm.deployed }

  # Thresholds of the verification's alarms are accepted without it too, so that switching it on needs no other change.
  alarm_keys = [
    "address-verification-failed",
    "page-errors",
    "page-throttles",
    "register-errors",
    "register-throttles",
    "registration-api-5xx",
    "registration-failed",
    "registration-missing-license",
    "registration-wrong-product",
    "verify-errors",
    "verify-throttles",
  ]
}

module "alarms" {
  source = "../alarms"

  alarms           = local.alarms
  name_base        = module.naming.base
  alarm_topic      = var.alarm_topic
  notice_topic     = var.notice_topic
  runbook_base_url = var.runbook_base_url
  tags             = var.tags
  thresholds       = { for key, value in var.alarm_thresholds : key => value if contains(keys(local.alarms), key) }
}

check "alarms_notify_somebody" {
  assert {
    condition     = var.alarm_topic != null || var.notice_topic != null
    error_message = "The alarms of ${module.naming.base} (registration) notify nobody, so buyers may be turned away unseen: set alarm_topic, or watch them yourself."
  }
}
