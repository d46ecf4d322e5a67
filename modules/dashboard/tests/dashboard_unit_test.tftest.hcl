mock_provider "aws" {}

variables {
  name = "awsmp-metering-euw1"

  rows = [
    [
      { type = "text", width = 6, height = 3, properties_json = "{\"markdown\":\"one\"}" },
      { type = "text", width = 18, height = 5, properties_json = "{\"markdown\":\"two\"}" },
    ],
    [
      { type = "text", width = 24, height = 2, properties_json = "{\"markdown\":\"three\"}" },
    ],
  ]
}

run "rows_are_stacked_and_widgets_stand_side_by_side" {
  assert {
    condition     = [for widget in jsondecode(aws_cloudwatch_dashboard.this.dashboard_body).widgets : [widget.x, widget.y]] == [[0, 0], [6, 0], [0, 5]]
    error_message = "A row begins below the highest widget of the row above; got ${aws_cloudwatch_dashboard.this.dashboard_body}"
  }

  assert {
    condition     = jsondecode(aws_cloudwatch_dashboard.this.dashboard_body).widgets[2].properties.markdown == "three"
    error_message = "Properties reach the dashboard as they are; got ${aws_cloudwatch_dashboard.this.dashboard_body}"
  }
}

run "a_name_that_aws_would_refuse" {
  command = plan

  variables {
    name = "awsmp metering"
  }

  expect_failures = [var.name]
}

run "a_row_that_is_too_wide" {
  command = plan

  variables {
    rows = [[{ type = "text", width = 25, height = 1, properties_json = "{}" }]]
  }

  expect_failures = [var.rows]
}
