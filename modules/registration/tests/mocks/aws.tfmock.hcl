# What AWS would answer: ARNs that the provider accepts as such, one for each of the things that a policy tells apart. All other
# computed attributes stay random, so that a test sees a resource that was replaced.

mock_data "aws_region" {
  defaults = { id = "eu-west-1" }
}

mock_resource "aws_api_gateway_api_key" {
  defaults = { value = "key-that-aws-made" }
}

mock_resource "aws_api_gateway_rest_api" {
  defaults = {
    arn           = "arn:aws:apigateway:eu-west-1::/restapis/a1b2c3d4e5"
    execution_arn = "arn:aws:execute-api:eu-west-1:111122223333:a1b2c3d4e5"
    id            = "a1b2c3d4e5"
  }
}

mock_resource "aws_api_gateway_stage" {
  defaults = { arn = "arn:aws:apigateway:eu-west-1::/restapis/a1b2c3d4e5/stages/prod" }
}

mock_resource "aws_cloudfront_distribution" {
  defaults = {
    arn            = "arn:aws:cloudfront::111122223333:distribution/EDFDVBD6EXAMPLE"
    domain_name    = "d111111abcdef8.cloudfront.net"
    hosted_zone_id = "Z2FDTNDATAQYW2"
  }
}

mock_resource "aws_cloudfront_function" {
  defaults = { arn = "arn:aws:cloudfront::111122223333:function/mock" }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:eu-west-1:111122223333:log-group:mock" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab" }
}

mock_resource "aws_lambda_function" {
  defaults = {
    arn        = "arn:aws:lambda:eu-west-1:111122223333:function:mock"
    invoke_arn = "arn:aws:apigateway:eu-west-1:lambda:path/2015-03-31/functions/arn:aws:lambda:eu-west-1:111122223333:function:mock/invocations"
  }
}

mock_resource "aws_lambda_layer_version" {
  defaults = { arn = "arn:aws:lambda:eu-west-1:111122223333:layer:mock:1" }
}

mock_resource "aws_s3_bucket" {
  defaults = {
    arn                         = "arn:aws:s3:::page"
    bucket_regional_domain_name = "page.s3.eu-west-1.amazonaws.com"
    id                          = "page"
  }
}

mock_resource "aws_wafv2_web_acl" {
  defaults = { arn = "arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/baseline/1234" }
}

override_resource {
  target = aws_dynamodb_table.customer_profile

  values = {
    arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/customer-profile"
  }
}
