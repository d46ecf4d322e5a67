locals {
  metric_dimensions = {
    Environment = local.environment
    ProductCode = var.product_code
  }

  alarms = {
    page-errors = {
      description = "The page function fails: buyers who choose \"Set up your account\" in AWS Marketplace do not reach the registration page. They have paid and cannot start."
      severity    = "alarm"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = tomap({ FunctionName = local.names.functions.page })
    }
    register-errors = {
      description = "The register function fails: buyers have paid and cannot register. What they sent is not stored; they must try again."
      severity    = "alarm"
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = tomap({ FunctionName = local.names.functions.register })
    }
    register-throttles = {
      description = "Lambda refuses to run the register function: buyers cannot register until concurrency is free. Look at reserved_concurrency and at the account's limit."
      severity    = "alarm"
      namespace   = "AWS/Lambda"
      metric_name = "Throttles"
      dimensions  = tomap({ FunctionName = local.names.functions.register })
    }
    registration-failed = {
      description = "A registration ended in an error that the buyer cannot mend: AWS Marketplace, a table or the configuration did not answer as it should. The register function's log names the cause."
      severity    = "alarm"
      namespace   = "AWSMarketplaceMetering"
      metric_name = "RegistrationFailed"
      dimensions  = tomap(local.metric_dimensions)
    }
    registration-api-5xx = {
      description = "The registration API answered with a server error: a buyer may not be registered. Its access log names the route."
      severity    = "alarm"
      namespace   = "AWS/ApiGateway"
      metric_name = "5XXError"
      dimensions  = tomap({ ApiName = local.names.api, Stage = var.stage_name })
    }
  }

  alarm_keys = ["page-errors", "register-errors", "register-throttles", "registration-api-5xx", "registration-failed"]
}

module "alarms" {
  source = "../alarms"

  alarms       = local.alarms
  name_base    = module.naming.base
  alarm_topic  = var.alarm_topic
  notice_topic = var.notice_topic
  tags         = var.tags
  thresholds   = var.alarm_thresholds
}

check "alarms_notify_somebody" {
  assert {
    condition     = var.alarm_topic != null || var.notice_topic != null
    error_message = "The alarms of ${module.naming.base} (registration) notify nobody, so buyers may be turned away unseen: set alarm_topic, or watch them yourself."
  }
}
