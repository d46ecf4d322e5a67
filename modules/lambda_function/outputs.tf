output "arn" {
  description = "ARN of the function."
  value       = aws_lambda_function.this.arn
}

output "invoke_arn" {
  description = "ARN that API Gateway integrations call the function by."
  value       = aws_lambda_function.this.invoke_arn
}

output "log_group_name" {
  description = "Name of the function's log group."
  value       = aws_cloudwatch_log_group.this.name
}

output "name" {
  description = "Name of the function."
  value       = aws_lambda_function.this.function_name
}

output "role_arn" {
  description = "ARN of the role that the function runs under."
  value       = var.role == null ? aws_iam_role.this[0].arn : var.role.arn
}

output "role_policy_json" {
  description = "What the function needs, as an IAM policy: what its own role has, and what a role of yours must have."
  value       = local.policy
}
