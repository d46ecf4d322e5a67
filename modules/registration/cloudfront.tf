# The page in a private bucket behind CloudFront, which alone may call the API: it sends the key of a usage plan that every method
# asks for. The key is random and made by AWS, but it lies in the Terraform state: guard that.

locals {
  # Policies that AWS manages, by the ids that its documentation gives them in every account: Managed-CachingOptimized and
  # Managed-CachingDisabled. Policies of our own would count against an account's twenty.
  cache_policies = {
    api  = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    page = "658327ea-f89d-4fab-a63d-7e88639e58f6"
  }

  api_behaviors = local.cloudfront ? concat(["/fulfillment", "/register"], local.verifying ? ["/verify"] : []) : []

  # The header policy belongs to the distribution, and the distribution to this deployment's URLs, which depend on no other
  # deployment: so the header allows calls to any https host, and the document narrows that to the named ones. A browser
  # enforces both.
  cloudfront_header_policy = join("; ", concat(
    local.content_security_policy_directives.before,
    ["connect-src 'self' https:"],
    local.content_security_policy_directives.after,
  ))
  charset      = "<meta charset=\"utf-8\">"
  connect_meta = "<meta http-equiv=\"Content-Security-Policy\" content=\"${local.connect_source}\">"

  page_objects = local.cloudfront ? {
    "index.html" = {
      content       = replace(templatefile("${local.page_directory}/index.html", local.page_values), local.charset, "${local.charset}\n${local.connect_meta}")
      content_type  = "text/html; charset=utf-8"
      cache_control = "no-store"
    }
    "assets/app.js" = {
      content       = file("${local.page_directory}/app.js")
      content_type  = "text/javascript; charset=utf-8"
      cache_control = "public, max-age=300"
    }
    "assets/style.css" = {
      content       = templatefile("${local.page_directory}/style.css", local.page_values)
      content_type  = "text/css; charset=utf-8"
      cache_control = "public, max-age=300"
    }
  } : {}

  security_headers = {
    Cross-Origin-Opener-Policy = "same-origin"
    Permissions-Policy         = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
  }
}

# --- Bucket -------------------------------------------------------------------------------------------------------------------

resource "aws_s3_bucket" "page" {
  #checkov:skip=CKV_AWS_18:CloudFront is the only reader, and what it reads is public; no log of buyers' requests is kept
  #checkov:skip=CKV_AWS_21:every object is made from this module: an apply brings any of them back
  #checkov:skip=CKV_AWS_144:every object is made from this module: an apply brings any of them back
  #checkov:skip=CKV_AWS_145:encrypted with S3's own key; what lies here is a public page, without a buyer's data
  #checkov:skip=CKV2_AWS_61:three small objects that are replaced in place; nothing piles up
  #checkov:skip=CKV2_AWS_62:nothing waits for these objects to change
  count = local.cloudfront ? 1 : 0

  bucket        = local.account_names.bucket
  force_destroy = true
  tags          = var.tags
}

resource "aws_s3_bucket_public_access_block" "page" {
  count = local.cloudfront ? 1 : 0

  bucket                  = aws_s3_bucket.page[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "page" {
  count = local.cloudfront ? 1 : 0

  bucket = aws_s3_bucket.page[0].id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "page" {
  count = local.cloudfront ? 1 : 0

  bucket = aws_s3_bucket.page[0].id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_policy" "page" {
  count = local.cloudfront ? 1 : 0

  bucket = aws_s3_bucket.page[0].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Distribution"
        Effect    = "Allow"
        Principal = { Service = "cloudfront.amazonaws.com" }
        Action    = "s3:GetObject"
        Resource  = "${aws_s3_bucket.page[0].arn}/*"
        Condition = { StringEquals = { "AWS:SourceArn" = aws_cloudfront_distribution.this[0].arn } }
      },
      {
        Sid       = "TlsOnly"
        Effect    = "Deny"
        Principal = "*"
        Action    = "s3:*"
        Resource  = [aws_s3_bucket.page[0].arn, "${aws_s3_bucket.page[0].arn}/*"]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })

  depends_on = [aws_s3_bucket_public_access_block.page]
}

resource "aws_s3_object" "page" {
  #checkov:skip=CKV_AWS_186:encrypted with the bucket's default; a public page, without a buyer's data
  for_each = local.page_objects

  bucket        = aws_s3_bucket.page[0].id
  key           = each.key
  content       = each.value.content
  content_type  = each.value.content_type
  cache_control = each.value.cache_control
  source_hash   = sha256(each.value.content)
  tags          = var.tags

  lifecycle {
    precondition {
      condition     = each.key != "index.html" || strcontains(each.value.content, local.connect_meta)
      error_message = "The page's index.html has no ${local.charset} to put its connect-src policy after (${local.connect_source}), so the policy would be lost. This is a fault of the module's release."
    }
  }
}

# --- The key that only CloudFront sends ---------------------------------------------------------------------------------------

resource "aws_api_gateway_api_key" "cloudfront" {
  count = local.cloudfront ? 1 : 0

  name        = local.names.api
  description = "Sent by CloudFront only: AWS Marketplace registration for ${var.product_code}"
  tags        = var.tags
}

resource "aws_api_gateway_usage_plan" "cloudfront" {
  count = local.cloudfront ? 1 : 0

  name        = local.names.api
  description = "Closes the API to all but CloudFront"
  tags        = var.tags

  api_stages {
    api_id = aws_api_gateway_rest_api.this.id
    stage  = aws_api_gateway_stage.this.stage_name
  }

  throttle_settings {
    burst_limit = var.throttling.burst_limit
    rate_limit  = var.throttling.rate_limit
  }
}

resource "aws_api_gateway_usage_plan_key" "cloudfront" {
  count = local.cloudfront ? 1 : 0

  key_id        = aws_api_gateway_api_key.cloudfront[0].id
  key_type      = "API_KEY"
  usage_plan_id = aws_api_gateway_usage_plan.cloudfront[0].id
}

# --- Distribution -------------------------------------------------------------------------------------------------------------

resource "aws_cloudfront_origin_access_control" "page" {
  count = local.cloudfront ? 1 : 0

  name                              = local.account_names.cloudfront
  description                       = "Reads the page of AWS Marketplace registration for ${var.product_code}"
  origin_access_control_origin_type = "s3"
  signing_behavior                  = "always"
  signing_protocol                  = "sigv4"
}

# The API's web ACL counts requests by this header. It is set here, over whatever a caller sent: the first address of
# X-Forwarded-For is the caller's to choose.
resource "aws_cloudfront_function" "viewer_address" {
  count = local.cloudfront ? 1 : 0

  name    = local.account_names.cloudfront
  runtime = "cloudfront-js-2.0"
  comment = "Tells the API's web ACL the viewer's address"
  publish = true
  code    = <<-EOT
    function handler(event) {
      event.request.headers['${local.viewer_address_header}'] = { value: event.viewer.ip };
      return event.request;
    }
  EOT
}

# What the API sees of a request beside body and path: what a browser says when another deployment's page calls, and the address. No
# cookie, no query string, no Referer.
resource "aws_cloudfront_origin_request_policy" "api" {
  count = local.cloudfront ? 1 : 0

  name    = local.account_names.cloudfront
  comment = "AWS Marketplace registration for ${var.product_code}"

  cookies_config {
    cookie_behavior = "none"
  }

  headers_config {
    header_behavior = "whitelist"

    headers {
      items = ["Access-Control-Request-Headers", "Access-Control-Request-Method", "Origin", local.viewer_address_header]
    }
  }

  query_strings_config {
    query_string_behavior = "none"
  }
}

resource "aws_cloudfront_response_headers_policy" "this" {
  #checkov:skip=CKV_AWS_259:a year, but not preloaded and not for subdomains: the domain may be one whose other hosts are none of this module's business
  count = local.cloudfront ? 1 : 0

  name    = local.account_names.cloudfront
  comment = "AWS Marketplace registration for ${var.product_code}"

  # What the functions set themselves stands: their answers are no page and may load nothing.
  security_headers_config {
    content_security_policy {
      content_security_policy = local.cloudfront_header_policy
      override                = false
    }

    content_type_options {
      override = true
    }

    frame_options {
      frame_option = "DENY"
      override     = true
    }

    referrer_policy {
      referrer_policy = "no-referrer"
      override        = true
    }

    strict_transport_security {
      access_control_max_age_sec = 31536000
      override                   = true
    }
  }

  custom_headers_config {
    dynamic "items" {
      for_each = local.security_headers

      content {
        header   = items.key
        value    = items.value
        override = true
      }
    }
  }
}

resource "aws_cloudfront_distribution" "this" {
  #checkov:skip=CKV_AWS_68:a web ACL of scope CLOUDFRONT lives in us-east-1, so the caller brings it (cloudfront_web_acl); the API behind has its own
  #checkov:skip=CKV2_AWS_47:the functions are Python, without Log4j
  #checkov:skip=CKV_AWS_86:an access log would hold buyers' addresses; the API's access log has the outcome of every registration
  #checkov:skip=CKV_AWS_174:with a domain the least protocol is TLSv1.2_2021; under CloudFront's own name AWS sets it and takes nothing else
  #checkov:skip=CKV2_AWS_42:with a domain it has that domain's certificate; without one there is none but CloudFront's own
  #checkov:skip=CKV_AWS_310:the page's origin is a bucket, and the API has one place: buyers' data stays in its Region
  #checkov:skip=CKV_AWS_374:AWS Marketplace decides where the product is sold
  count = local.cloudfront ? 1 : 0

  enabled             = true
  comment             = "AWS Marketplace registration for ${var.product_code}"
  aliases             = [for domain in var.domain == null ? [] : [var.domain] : domain.name]
  default_root_object = "index.html"
  http_version        = "http2and3"
  is_ipv6_enabled     = true
  price_class         = "PriceClass_All"
  web_acl_id          = try(var.cloudfront_web_acl.arn, null)
  tags                = var.tags

  origin {
    origin_id                = "page"
    domain_name              = aws_s3_bucket.page[0].bucket_regional_domain_name
    origin_access_control_id = aws_cloudfront_origin_access_control.page[0].id
  }

  origin {
    origin_id   = "api"
    domain_name = local.api_host
    origin_path = "/${var.stage_name}"

    custom_header {
      name  = "x-api-key"
      value = aws_api_gateway_api_key.cloudfront[0].value
    }

    custom_origin_config {
      http_port              = 80
      https_port             = 443
      origin_protocol_policy = "https-only"
      origin_ssl_protocols   = ["TLSv1.2"]
      origin_read_timeout    = 30
    }
  }

  default_cache_behavior {
    target_origin_id           = "page"
    allowed_methods            = ["GET", "HEAD"]
    cached_methods             = ["GET", "HEAD"]
    cache_policy_id            = local.cache_policies.page
    response_headers_policy_id = aws_cloudfront_response_headers_policy.this[0].id
    viewer_protocol_policy     = "redirect-to-https"
    compress                   = true
  }

  dynamic "ordered_cache_behavior" {
    for_each = local.api_behaviors

    content {
      path_pattern     = ordered_cache_behavior.value
      target_origin_id = "api"
      # CloudFront offers these seven together or none that posts.
      allowed_methods            = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
      cached_methods             = ["GET", "HEAD"]
      cache_policy_id            = local.cache_policies.api
      origin_request_policy_id   = aws_cloudfront_origin_request_policy.api[0].id
      response_headers_policy_id = aws_cloudfront_response_headers_policy.this[0].id
      viewer_protocol_policy     = "https-only"
      compress                   = false

      function_association {
        event_type   = "viewer-request"
        function_arn = aws_cloudfront_function.viewer_address[0].arn
      }
    }
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }

  viewer_certificate {
    acm_certificate_arn            = try(var.domain.certificate.arn, null)
    cloudfront_default_certificate = var.domain == null
    minimum_protocol_version       = var.domain == null ? "TLSv1" : "TLSv1.2_2021"
    ssl_support_method             = var.domain == null ? null : "sni-only"
  }
}
