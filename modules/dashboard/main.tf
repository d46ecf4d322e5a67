locals {
  # Rows are stacked from the top, the widgets of a row from the left.
  placed = flatten([
    for row, widgets in var.rows : [
      for column, widget in widgets : {
        type       = widget.type
        x          = sum(concat([0], [for before in slice(widgets, 0, column) : before.width]))
        y          = sum(concat([0], [for above in slice(var.rows, 0, row) : max(above[*].height...)]))
        width      = widget.width
        height     = widget.height
        properties = widget.properties_json
      }
    ]
  ])
}

resource "aws_cloudwatch_dashboard" "this" {
  dashboard_name = var.name

  dashboard_body = jsonencode({
    start          = "-PT12H"
    periodOverride = "inherit"
    widgets        = [for widget in local.placed : merge(widget, { properties = jsondecode(widget.properties) })]
  })
}
