# The page's values, computed once: the page function puts them into the assets of its zip, or with delivery = "cloudfront" Terraform
# puts them into the objects of the bucket. Nothing here reads a resource, so that no URL of this deployment depends on
# what the page shows.
locals {
  page_directory = "${path.module}/../../lambda_src/awsmp/page"

  language  = try(var.page.locale, "en")
  direction = contains(["ar", "fa", "he", "ur"], split("-", local.language)[0]) ? "rtl" : "ltr"

  # The first entry is this deployment, whose API has the page's own host; without others there is nothing to choose.
  page_regions = length(var.page_regions) == 0 ? [] : concat(
    [{ label = coalesce(try(var.page.region_label, null), data.aws_region.current.id), registrationUrl = "register" }],
    [for label in sort(keys(var.page_regions)) : { label = label, registrationUrl = var.page_regions[label].registration_url }],
  )

  page_configuration = {
    productName  = try(var.page.product_name, "")
    sellerName   = try(var.page.seller_name, "")
    supportEmail = try(var.page.support_email, "")
    supportUrl   = try(coalesce(var.page.support_url), "")
    locale       = local.language
    fields       = jsondecode(local.registration_fields_json)
    regions      = local.page_regions
    successUrl   = try(var.page.success_url, null)
    messages     = try(var.page.messages, {})
  }

  page_texts = {
    lang          = local.language
    dir           = local.direction
    title         = "Register for ${local.page_configuration.productName}"
    product_name  = local.page_configuration.productName
    seller_name   = local.page_configuration.sellerName
    support_email = local.page_configuration.supportEmail
    support_url   = local.page_configuration.supportUrl
  }

  page_texts_escaped = {
    for name, text in merge(local.page_texts, { logo_url = try(coalesce(var.page.logo_url), "") }) :
    name => replace(replace(replace(replace(replace(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;"), "\"", "&quot;"), "'", "&#39;")
  }

  page_values = merge(
    { for name in keys(local.page_texts) : name => local.page_texts_escaped[name] },
    {
      accent        = local.accent
      accent_dark   = local.accent_dark
      accent_text   = local.accent_text
      configuration = jsonencode(local.page_configuration)
      logo_html     = local.page_texts_escaped.logo_url == "" ? "" : "<img src=\"${local.page_texts_escaped.logo_url}\" alt=\"${local.page_texts_escaped.seller_name}\">"
    },
  )
  page_values_json = jsonencode(local.page_values)

  # UTF-8 bytes, at most two too many: Terraform's length() counts characters, Lambda's 4 KB are bytes.
  page_environment_bytes      = floor(length(base64encode("${local.page_values_json}${local.content_security_policy}")) * 3 / 4)
  page_environment_limit      = 3700
  registration_settings_limit = 2560
  registration_settings_bytes = floor(length(base64encode("${local.registration_fields_json}${jsonencode(local.promoted_fields)}")) * 3 / 4)
}

# Colours, by WCAG's relative luminance.
locals {
  accent     = lower(try(var.page.accent_color, "#0f5ea8"))
  accent_rgb = [for start in [1, 3, 5] : try(parseint(substr(local.accent, start, 2), 16), 0) / 255]

  # From the accent itself to white, in tenths.
  accent_tints = [for step in range(11) : [for channel in local.accent_rgb : channel + (1 - channel) * step / 10]]
  accent_luminances = [
    for tint in local.accent_tints : sum([
      for index, channel in tint :
      [0.2126, 0.7152, 0.0722][index] * (channel <= 0.04045 ? channel / 12.92 : pow((channel + 0.055) / 1.055, 2.4))
    ])
  ]

  # Black and white are equally readable on a luminance of 0.179; the better of the two has at least 4.5:1 on every colour.
  accent_text = local.accent_luminances[0] > 0.179 ? "#000000" : "#ffffff"

  # The dark scheme writes near-black on the accent: 0.3 gives it 6:1, and the accent itself stands out from the dark page.
  accent_dark_tint = local.accent_tints[[for index, luminance in local.accent_luminances : index if luminance >= 0.3][0]]
  accent_dark      = join("", concat(["#"], [for channel in local.accent_dark_tint : format("%02x", floor(channel * 255 + 0.5))]))
}

# Strict: no inline script or style, nothing from elsewhere but the logo, and calls to the named deployments only.
locals {
  logo_origins   = [for url in compact([try(var.page.logo_url, null)]) : try(regex("^https://[^/?#]+", url), "")]
  region_origins = distinct([for region in values(var.page_regions) : try(regex("^https://[^/?#]+", region.registration_url), "")])
  connect_source = join(" ", concat(["connect-src 'self'"], local.region_origins))

  content_security_policy_directives = {
    before = ["default-src 'none'", "script-src 'self'", "style-src 'self'", join(" ", concat(["img-src 'self'"], local.logo_origins))]
    after  = ["form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'"]
  }
  content_security_policy = join("; ", concat(
    local.content_security_policy_directives.before,
    [local.connect_source],
    local.content_security_policy_directives.after,
  ))
}

# Lambda refuses an environment of more than 4 KB; what these leave is for names and the settings that every function has.
resource "terraform_data" "environment_limits" {
  lifecycle {
    precondition {
      condition     = !local.function_delivers_page || local.page_environment_bytes <= local.page_environment_limit
      error_message = "The page's values do not fit into a function's environment, which AWS limits to 4 KB: they take ${local.page_environment_bytes} bytes of ${local.page_environment_limit}. Shorten page.messages, labels or options, or use delivery = \"cloudfront\", where no such limit holds."
    }

    precondition {
      condition     = local.registration_settings_bytes <= local.registration_settings_limit
      error_message = "registration_fields and promoted_profile_fields do not fit into a function's environment, which AWS limits to 4 KB: they take ${local.registration_settings_bytes} bytes of ${local.registration_settings_limit}. Shorten labels or options."
    }
  }
}
