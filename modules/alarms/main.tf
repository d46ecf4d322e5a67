locals {
  # With one topic only, every alarm uses it: a quiet alarm is worse than one on the wrong topic.
  topics = {
    alarm  = var.alarm_topic == null ? var.notice_topic : var.alarm_topic
    notice = var.notice_topic == null ? var.alarm_topic : var.notice_topic
  }

  descriptions = {
    for key, alarm in var.alarms : key => join(" ", compact([
      alarm.description,
      var.runbook_base_url == null ? null : "Runbook: ${var.runbook_base_url}/${coalesce(alarm.runbook, key)}.md",
    ]))
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = var.alarms

  alarm_name          = "${var.name_base}-${each.key}"
  alarm_description   = local.descriptions[each.key]
  namespace           = each.value.namespace
  metric_name         = each.value.metric_name
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  comparison_operator = each.value.comparison_operator
  threshold           = lookup(var.thresholds, each.key, each.value.threshold)
  period              = each.value.period_seconds
  evaluation_periods  = each.value.evaluation_periods
  datapoints_to_alarm = coalesce(each.value.datapoints_to_alarm, each.value.evaluation_periods)
  treat_missing_data  = each.value.treat_missing_data
  alarm_actions       = [for topic in local.topics[each.value.severity] == null ? [] : [local.topics[each.value.severity]] : topic.arn]
  ok_actions          = [for topic in local.topics[each.value.severity] == null ? [] : [local.topics[each.value.severity]] : topic.arn]
  tags                = var.tags
}
