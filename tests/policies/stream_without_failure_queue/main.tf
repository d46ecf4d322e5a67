resource "aws_lambda_event_source_mapping" "forgets" {
  event_source_arn        = "arn:aws:dynamodb:eu-west-1:111122223333:table/kept/stream/2026-11-10T00:00:00.000"
  function_name           = "arn:aws:lambda:eu-west-1:111122223333:function:reader"
  function_response_types = ["ReportBatchItemFailures"]
}
