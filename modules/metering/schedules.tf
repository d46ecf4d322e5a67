# EventBridge rules take five targets each and give every target a constant input: which hour a run looks at follows from its
# target and the clock alone, so no two targets ever race for one.
locals {
  # Hour offsets 1 to 23 and, after them, the seven shards of the age-out sweep: thirty slices, five a rule.
  slices = concat(
    [for offset in range(1, 24) : { id = format("meter-%02d", offset), input = { mode = "meter", hourOffset = offset } }],
    [for shard in range(0, 7) : { id = "ageout-${shard}", input = { mode = "ageout", shard = shard } }],
  )

  pipeline_schedules = merge(
    {
      for number in range(1, 7) : "meter-dispatch-${number}" => {
        description = "Looks for pending usage, part ${number} of 6, every 15 minutes"
        expression  = "rate(15 minutes)"
        targets = {
          for slice in slice(local.slices, 5 * (number - 1), 5 * number) :
          slice.id => { function = "discoverer", input = jsonencode(slice.input) }
        }
      }
    },
    {
      flush-deprovisioning = {
        description = "Adds up and sends the last usage of ending licences, every minute"
        expression  = "rate(1 minute)"
        targets = {
          flush  = { function = "discoverer", input = jsonencode({ mode = "flush-deprovisioning" }) }
          submit = { function = "submitter", input = jsonencode({ mode = "deprovisioning" }) }
        }
      }
    },
  )

  submit_schedules = {
    submit-dispatch = {
      description = "Sends records and closes expired ones, every 5 minutes"
      expression  = "rate(5 minutes)"
      targets = {
        expiry = { function = "expiry", input = jsonencode({}) }
        submit = { function = "submitter", input = jsonencode({ mode = "submit" }) }
      }
    }
  }

  schedules = merge(local.pipeline_schedules, local.submit_schedules)

  deployed_schedules = { for key, schedule in local.schedules : key => schedule if local.full || contains(keys(local.submit_schedules), key) }

  targets = merge([
    for rule, schedule in local.deployed_schedules : {
      for id, target in schedule.targets : "${rule}/${id}" => merge(target, { rule = rule, id = id })
    }
  ]...)

  # One permission for a function and a rule, however many targets join them.
  invocations = merge([
    for rule, schedule in local.deployed_schedules : {
      for function in toset([for target in values(schedule.targets) : target.function]) :
      "${rule}/${function}" => { rule = rule, function = function }
    }
  ]...)
}

resource "aws_cloudwatch_event_rule" "schedule" {
  for_each = local.deployed_schedules

  name                = local.names.rules[each.key]
  description         = each.value.description
  schedule_expression = each.value.expression
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "schedule" {
  for_each = local.targets

  rule      = aws_cloudwatch_event_rule.schedule[each.value.rule].name
  target_id = each.value.id
  arn       = module.function[each.value.function].arn
  input     = each.value.input

  # The next tick does the same work, so an old or failed invocation is dropped.
  retry_policy {
    maximum_event_age_in_seconds = 300
    maximum_retry_attempts       = 0
  }

  # A target that may not invoke its function yet loses its first ticks.
  depends_on = [aws_lambda_permission.schedule]
}

resource "aws_lambda_permission" "schedule" {
  for_each = local.invocations

  statement_id  = each.value.rule
  action        = "lambda:InvokeFunction"
  function_name = module.function[each.value.function].name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.schedule[each.value.rule].arn
}
