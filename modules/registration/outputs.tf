output "alarm_arns" {
  description = "ARNs of the alarms, by alarm key."
  value       = module.alarms.arns
}

output "customer_profile_table" {
  description = "The customer-profile table, with buyers' form data, for the notifications module: `name`, `arn`, `region`, `stream_arn`, `kms_key_arn` (null without a key of yours), `verify_url` (null without `address_verification`)."
  value = {
    arn         = aws_dynamodb_table.customer_profile.arn
    kms_key_arn = try(var.kms_key.arn, null)
    name        = aws_dynamodb_table.customer_profile.name
    region      = local.region.id
    stream_arn  = aws_dynamodb_table.customer_profile.stream_arn
    verify_url  = local.verify_url
  }
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null without one."
  value       = one(module.dashboard[*].name)
}

output "domain_target" {
  description = "What the DNS record of `domain` points at, as an alias or a CNAME: `name` and hosted `zone_id`. Null without a domain."
  value = var.domain == null ? null : {
    name    = one(concat(aws_cloudfront_distribution.this[*].domain_name, aws_api_gateway_domain_name.this[*].regional_domain_name))
    zone_id = one(concat(aws_cloudfront_distribution.this[*].hosted_zone_id, aws_api_gateway_domain_name.this[*].regional_zone_id))
  }
}

output "fulfillment_url" {
  description = "The fulfilment URL, for the product's listing in AWS Marketplace."
  value       = local.fulfillment_url
}

output "function_names" {
  description = "Names of the functions, by function key."
  value       = merge({ for key, function in module.function : key => function.name }, { for value in module.verify[*].name : "verify" => value })
}

output "kms_key_policy_json" {
  description = "What the policy of a customer managed key must allow for this module, as an IAM policy document to merge into your own. It depends on the roles only, so it may be the policy of the very key that is passed in as `kms_key`."
  value       = local.kms_key_policy
}

output "log_group_names" {
  description = "Names of the functions' log groups, by function key, and of the API's access log under `access`."
  value = merge(
    merge({ for key, function in module.function : key => function.log_group_name }, { for value in module.verify[*].log_group_name : "verify" => value }),
    { access = aws_cloudwatch_log_group.access.name },
  )
}

output "package_version" {
  description = "Release of the functions' code."
  value       = module.package.version
}

output "page_origin" {
  description = "Origin of the page, for the `allowed_origins` of the deployments in this one's `page_regions`."
  value       = local.page_origin
}

output "page_url" {
  description = "Address of the page that buyers register on: this module's, or `own_page_url`."
  value       = local.page_url
}

output "registration_url" {
  description = "Address that the page posts to, for the `page_regions` of another deployment."
  value       = local.registration_url
}

output "rest_api_id" {
  description = "Id of the REST API."
  value       = aws_api_gateway_rest_api.this.id
}

output "role_arns" {
  description = "ARNs of the roles that the functions run under, by function key."
  value       = merge({ for key, function in module.function : key => function.role_arn }, { for value in module.verify[*].role_arn : "verify" => value })
}

output "role_policies_json" {
  description = "What each function needs, as an IAM policy, by function key: what its role made here has, and what a role of your own must have."
  value       = merge({ for key, function in module.function : key => function.role_policy_json }, { for value in module.verify[*].role_policy_json : "verify" => value })
}

output "verify_url" {
  description = "Address that mailed links lead to, where a contact confirms an address; null without `address_verification`."
  value       = local.verify_url
}

output "web_acl_arn" {
  description = "ARN of the web ACL that guards the API: the baseline one, or the one given as `web_acl`. Null without any."
  value       = local.web_acl_arn
}
