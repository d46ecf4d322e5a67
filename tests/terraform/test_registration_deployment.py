"""What the registration module deploys, read from the state that a mocked apply leaves."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from awsmp.adapters.page_files import packaged_page
from awsmp.composition_page import PageSettings
from awsmp.composition_registration import Settings
from awsmp.domain.customer_profiles import PROFILE_ATTRIBUTES, RefusalCode
from awsmp.domain.http import SECURITY_HEADERS
from awsmp.domain.page import ASSETS, INDEX, Page
from awsmp.domain.ports import Metric
from sandbox import tables
from tests.terraform.tool import REPOSITORY, ModuleTest, Resources, Values, key_schemas, requested_schemas

pytestmark = pytest.mark.slow

ACCOUNT = "111122223333"
PRODUCT = "1example2product3code4567"
BASE = f"awsmp-{PRODUCT}"
PROFILES = f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/customer-profile"
SUBSCRIBERS = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/awsmp-subscribers"
LOGS = f"arn:aws:logs:eu-west-1:{ACCOUNT}:log-group:mock:*"
TABLE = "aws_dynamodb_table.customer_profile"
STAGE = "aws_api_gateway_stage.this"
ACL = "aws_wafv2_web_acl.this[0]"
DISTRIBUTION = "aws_cloudfront_distribution.this[0]"

RUNS = ("regional", "cloudfront", "regional_again", "own_page", "estate", "cloudfront_estate")
DELIVERED_BY_FUNCTION = ("regional", "estate")
FUNCTIONS = ("page", "register")
ROUTES = {
    "GET /": "page",
    "HEAD /": "page",
    "GET /assets/{file}": "page",
    "HEAD /assets/{file}": "page",
    "GET /fulfillment": "page",
    "HEAD /fulfillment": "page",
    "POST /fulfillment": "page",
    "OPTIONS /register": "register",
    "POST /register": "register",
}


def function_address(name: str) -> str:
    return f'module.function["{name}"].aws_lambda_function.this'


def variables(state: Resources, function: str) -> dict[str, str]:
    found: dict[str, str] = state[function_address(function)]["environment"][0]["variables"]
    return found


def page_of(state: Resources) -> Page:
    return Page(packaged_page(), variables(state, "page")["PAGE_VALUES"])


def grants(policy: str) -> dict[str, set[str]]:
    granted: dict[str, set[str]] = {}
    for statement in json.loads(policy)["Statement"]:
        assert statement["Effect"] == "Allow"
        for resource in statement["Resource"]:
            granted.setdefault(resource, set()).update(statement["Action"])
    return granted


def actions(service: str, *names: str) -> set[str]:
    return {f"{service}:{name}" for name in names}


LOGGING = {LOGS: actions("logs", "CreateLogStream", "PutLogEvents")}
EXPECTED_GRANTS: dict[str, dict[str, set[str]]] = {
    "page": LOGGING,
    "register": {
        **LOGGING,
        "*": actions("aws-marketplace", "ResolveCustomer"),
        PROFILES: actions("dynamodb", "PutItem"),
        SUBSCRIBERS: actions("dynamodb", "GetItem", "UpdateItem"),
        f"{SUBSCRIBERS}/index/customerAWSAccountId-index": actions("dynamodb", "Query"),
    },
}


@pytest.fixture(scope="module")
def regional(registration: ModuleTest) -> Resources:
    return registration.states["regional"]


@pytest.fixture(scope="module")
def cloudfront(registration: ModuleTest) -> Resources:
    return registration.states["cloudfront"]


@pytest.fixture(scope="module")
def own_page(registration: ModuleTest) -> Resources:
    return registration.states["own_page"]


@pytest.fixture(scope="module")
def estate(registration: ModuleTest) -> Resources:
    return registration.states["estate"]


@pytest.fixture(scope="module")
def cloudfront_estate(registration: ModuleTest) -> Resources:
    return registration.states["cloudfront_estate"]


# --- Roles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["regional", "cloudfront", "own_page"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_exactly_what_it_does(function: str, run: str, registration: ModuleTest) -> None:
    state = registration.states[run]

    policy = state[f'module.function["{function}"].aws_iam_role_policy.this[0]']["policy"]
    assert grants(policy) == EXPECTED_GRANTS[function]


def test_no_role_reads_profiles_scans_or_holds_a_wildcard_action(registration: ModuleTest) -> None:
    for run in RUNS:
        for policy in registration.outputs[run]["role_policies_json"].values():
            for resource, allowed in grants(policy).items():
                assert not [a for a in allowed if "*" in a or a.endswith((":Scan", ":PartiQLSelect"))]
                if resource.startswith(PROFILES):
                    assert allowed == {"dynamodb:PutItem"}


def test_roles_are_named_bounded_and_can_be_ones_own(estate: Resources, regional: Resources) -> None:
    assert {r.values["name"] for r in regional.of_type("aws_iam_role")} == {
        f"{BASE}-page-euw1",
        f"{BASE}-register-euw1",
    }
    roles = estate.of_type("aws_iam_role")
    staging = f"awsmp-staging-{PRODUCT}"
    assert {r.values["name"] for r in roles} == {f"{staging}-register-euw1", f"{staging}-api-logs-euw1"}
    for role in roles:
        assert role.values["path"] == "/billing/"
        assert role.values["permissions_boundary"] == f"arn:aws:iam::{ACCOUNT}:policy/boundary"
    assert estate[function_address("page")]["role"] == f"arn:aws:iam::{ACCOUNT}:role/own-page"


def test_keys_are_granted_where_they_are_used(registration: ModuleTest) -> None:
    own = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    foreign = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/subscribers"

    for name, policy in registration.outputs["estate"]["role_policies_json"].items():
        granted = grants(policy)
        assert "kms:Decrypt" in granted[own]
        assert (foreign in granted) == (name == "register")
    document = json.loads(registration.outputs["estate"]["kms_key_policy_json"])
    logs = next(s for s in document["Statement"] if s["Sid"] == "RegistrationLogs")
    (groups,) = logs["Condition"]["ArnEquals"].values()
    assert {group.split("log-group:")[1] for group in groups} == {
        f"/aws/lambda/awsmp-staging-{PRODUCT}-page",
        f"/aws/lambda/awsmp-staging-{PRODUCT}-register",
        f"/aws/lambda/awsmp-staging-{PRODUCT}-verify",
        f"/aws/apigateway/awsmp-staging-{PRODUCT}-registration",
    }


def test_the_role_for_access_logs_is_made_on_request_only(estate: Resources, regional: Resources) -> None:
    assert regional.of_type("aws_api_gateway_account") == []
    (account,) = estate.of_type("aws_api_gateway_account")
    (attachment,) = estate.of_type("aws_iam_role_policy_attachment")

    assert account.values["cloudwatch_role_arn"] == estate["aws_iam_role.api_logs[0]"]["arn"]
    assert attachment.values["policy_arn"].endswith(
        ":policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
    )


# --- API ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS)
def test_every_route_goes_to_its_function(run: str, registration: ModuleTest) -> None:
    state = registration.states[run]
    paths = {state["aws_api_gateway_rest_api.this"]["root_resource_id"]: "/"}
    top = state.of_type("aws_api_gateway_resource", "aws_api_gateway_resource.top")
    paths |= {r.values["id"]: f"/{r.values['path_part']}" for r in top}
    asset = state["aws_api_gateway_resource.asset"]
    paths[asset["id"]] = f"{paths[asset['parent_id']]}/{asset['path_part']}"

    methods = {
        f"{r.values['http_method']} {paths[r.values['resource_id']]}": r.values
        for r in state.of_type("aws_api_gateway_method")
    }
    integrations = {
        f"{r.values['http_method']} {paths[r.values['resource_id']]}": r.values
        for r in state.of_type("aws_api_gateway_integration")
    }
    assert set(methods) == set(integrations) == set(ROUTES)
    for integration in integrations.values():
        assert (integration["type"], integration["integration_http_method"]) == ("AWS_PROXY", "POST")
        assert integration["uri"].endswith("/invocations")
    keyed = {values["api_key_required"] for values in methods.values()}
    assert keyed == {run.startswith("cloudfront")}


def test_the_routes_in_the_source_name_the_functions_of_the_contract() -> None:
    source = (REPOSITORY / "modules" / "registration" / "api.tf").read_text()

    named = re.findall(r'"(\w+ /\S*)"\s*= \{ function = "(\w+)", resource = "(\S+)" \}', source)
    assert {route: function for route, function, _ in named} == ROUTES
    assert all(route.split(" ")[1] == resource for route, _, resource in named)


def test_only_this_stage_of_the_api_may_call_the_functions(regional: Resources) -> None:
    permissions = regional.of_type("aws_lambda_permission")

    assert {r.key for r in permissions} == set(FUNCTIONS)
    for permission in permissions:
        assert permission.values["principal"] == "apigateway.amazonaws.com"
        assert permission.values["source_arn"] == f"arn:aws:execute-api:eu-west-1:{ACCOUNT}:a1b2c3d4e5/prod/*"


@pytest.mark.parametrize(
    ("run", "limits"), [("regional", (20, 40)), ("cloudfront", (20, 40)), ("estate", (5, 10))]
)
def test_the_stage_is_throttled_and_logs_no_request(
    run: str, limits: tuple[int, int], registration: ModuleTest
) -> None:
    state = registration.states[run]
    settings = state["aws_api_gateway_method_settings.this"]

    assert settings["method_path"] == "*/*"
    assert settings["stage_name"] == state[STAGE]["stage_name"]
    (values,) = settings["settings"]
    assert (values["throttling_rate_limit"], values["throttling_burst_limit"]) == limits
    assert (values["data_trace_enabled"], values["logging_level"]) == (False, "OFF")
    assert values["caching_enabled"] is False


ACCESS_LOG = {
    "apiId": "$context.apiId",
    "error": "$context.error.responseType",
    "extendedRequestId": "$context.extendedRequestId",
    "httpMethod": "$context.httpMethod",
    "integrationStatus": "$context.integration.integrationStatus",
    "protocol": "$context.protocol",
    "requestId": "$context.requestId",
    "requestTime": "$context.requestTime",
    "resourcePath": "$context.resourcePath",
    "responseLatency": "$context.responseLatency",
    "responseLength": "$context.responseLength",
    "stage": "$context.stage",
    "status": "$context.status",
    "wafResponseCode": "$context.wafResponseCode",
}


@pytest.mark.parametrize("run", RUNS)
def test_the_access_log_says_how_a_request_went_and_nothing_of_what_was_in_it(
    run: str, registration: ModuleTest
) -> None:
    """Exact, so that an addition is a decision: no path as called, query, header, body, token or address."""
    state = registration.states[run]
    (settings,) = state[STAGE]["access_log_settings"]

    assert json.loads(settings["format"]) == ACCESS_LOG
    assert settings["destination_arn"] == state["aws_cloudwatch_log_group.access"]["arn"]


def test_access_logs_are_kept_and_encrypted(regional: Resources, estate: Resources) -> None:
    assert regional["aws_cloudwatch_log_group.access"]["name"] == f"/aws/apigateway/{BASE}-registration"
    assert regional["aws_cloudwatch_log_group.access"]["retention_in_days"] == 365
    group = estate["aws_cloudwatch_log_group.access"]
    assert (group["retention_in_days"], group["kms_key_id"].split("/")[0]) == (
        731,
        f"arn:aws:kms:eu-west-1:{ACCOUNT}:key",
    )


def test_what_the_gateway_answers_itself_is_a_code_without_an_id(regional: Resources) -> None:
    found = {
        r.key: (r.values["status_code"], json.loads(r.values["response_templates"]["application/json"]))
        for r in regional.of_type("aws_api_gateway_gateway_response")
    }

    throttled = regional['aws_api_gateway_gateway_response.this["THROTTLED"]']["response_parameters"]
    assert found["THROTTLED"] == ("429", {"error": "Throttled"})
    assert found["REQUEST_TOO_LARGE"] == ("413", {"error": "TooLarge"})
    assert found["MISSING_AUTHENTICATION_TOKEN"] == ("404", {"error": "NotFound"})
    assert found["DEFAULT_5XX"][1] == {"error": "Unavailable"}
    assert throttled["gatewayresponse.header.Retry-After"] == "'5'"
    for response in regional.of_type("aws_api_gateway_gateway_response"):
        parameters = response.values["response_parameters"]
        for name in ("Cache-Control", "Strict-Transport-Security", "X-Content-Type-Options"):
            assert parameters[f"gatewayresponse.header.{name}"] == f"'{SECURITY_HEADERS[name]}'"


def test_a_change_of_the_api_is_deployed(registration: ModuleTest) -> None:
    taken = {run: registration.states[run]["aws_api_gateway_deployment.this"] for run in RUNS}

    assert taken["regional"]["triggers"] != taken["cloudfront"]["triggers"]
    assert taken["regional"]["triggers"] == taken["own_page"]["triggers"]
    for run in RUNS:
        assert registration.states[run][STAGE]["deployment_id"] == taken[run]["id"]


def test_a_domain_speaks_tls_1_2_and_hides_the_stage(estate: Resources, regional: Resources) -> None:
    domain = estate["aws_api_gateway_domain_name.this[0]"]
    mapping = estate["aws_api_gateway_base_path_mapping.this[0]"]

    assert (domain["domain_name"], domain["security_policy"]) == ("register.example.com", "TLS_1_2")
    assert domain["endpoint_configuration"][0]["types"] == ["REGIONAL"]
    assert (mapping["stage_name"], mapping["domain_name"]) == ("v1", "register.example.com")
    assert not mapping["base_path"]
    assert regional.of_type("aws_api_gateway_domain_name") == []


# --- Web ACL ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rules(web_acls: ModuleTest) -> dict[str, Values]:
    """The rules of the baseline before a regional API, by name."""
    return {rule["name"]: rule for rule in web_acls.states["regional"][ACL]["rule"]}


@pytest.fixture(scope="module")
def cloudfront_rules(web_acls: ModuleTest) -> dict[str, Values]:
    """The same behind CloudFront, with verified addresses and a rate of the caller's."""
    return {rule["name"]: rule for rule in web_acls.states["cloudfront"][ACL]["rule"]}


def only(blocks: list[Any]) -> Any:
    (block,) = blocks
    return block


@pytest.mark.parametrize("run", ["regional", "cloudfront", "own_page", "estate"])
def test_a_web_acl_guards_the_stage(run: str, registration: ModuleTest) -> None:
    state = registration.states[run]
    (association,) = state.of_type("aws_wafv2_web_acl_association")

    expected = (
        f"arn:aws:wafv2:eu-west-1:{ACCOUNT}:regional/webacl/own/5678"
        if run == "own_page"
        else state[ACL]["arn"]
    )
    assert association.values["resource_arn"] == state[STAGE]["arn"]
    assert association.values["web_acl_arn"] == expected == registration.outputs[run]["web_acl_arn"]


def test_where_somebody_else_attaches_one_there_is_none(
    cloudfront_estate: Resources, own_page: Resources
) -> None:
    assert cloudfront_estate.of_type("aws_wafv2_web_acl") == []
    assert cloudfront_estate.of_type("aws_wafv2_web_acl_association") == []
    assert own_page.of_type("aws_wafv2_web_acl") == []


def test_one_address_gets_429_over_its_rate(
    rules: dict[str, Values], cloudfront_rules: dict[str, Values]
) -> None:
    rule = rules["rate"]
    rate = only(only(rule["statement"])["rate_based_statement"])
    answer = only(only(only(rule["action"])["block"])["custom_response"])

    assert (rate["limit"], rate["evaluation_window_sec"], rate["aggregate_key_type"]) == (300, 300, "IP")
    assert (answer["response_code"], answer["response_header"][0]["value"]) == (429, "300")
    assert only(only(cloudfront_rules["rate"]["statement"])["rate_based_statement"])["limit"] == 1000


def test_behind_cloudfront_the_rate_is_the_buyers_and_cannot_be_forged(
    cloudfront: Resources, cloudfront_rules: dict[str, Values]
) -> None:
    """The edge function overwrites whatever was sent, and a request without the header is blocked."""
    rate = only(only(cloudfront_rules["rate"]["statement"])["rate_based_statement"])
    forwarded = only(rate["forwarded_ip_config"])
    function = cloudfront["aws_cloudfront_function.viewer_address[0]"]
    policy = only(cloudfront["aws_cloudfront_origin_request_policy.api[0]"]["headers_config"])

    assert rate["aggregate_key_type"] == "FORWARDED_IP"
    assert forwarded["fallback_behavior"] == "MATCH"
    assert f"headers['{forwarded['header_name']}'] = {{ value: event.viewer.ip }}" in function["code"]
    assert forwarded["header_name"] in only(policy["headers"])["items"]


def test_a_body_that_cannot_be_inspected_whole_is_refused_and_a_long_token_fits(
    rules: dict[str, Values],
) -> None:
    rule = rules["body-size"]
    size = only(only(rule["statement"])["size_constraint_statement"])

    assert (size["comparison_operator"], size["size"]) == ("GT", 16384)
    assert only(only(size["field_to_match"])["body"])["oversize_handling"] == "MATCH"
    assert only(only(only(rule["action"])["block"])["custom_response"])["response_code"] == 413
    escaped_token = len("x-amzn-marketplace-token=") + 4096 * len("%2B")
    json_token = len('{"token":"","offerType":null,"fields":{}}') + 4096 * len('\\"')
    assert max(escaped_token, json_token) < size["size"]


BODY_RULES = {
    "CrossSiteScripting_BODY": "CrossSiteScripting_Body",
    "EC2MetaDataSSRF_BODY": "EC2MetaDataSSRF_Body",
    "GenericLFI_BODY": "GenericLFI_Body",
    "GenericRFI_BODY": "GenericRFI_Body",
    "SizeRestrictions_BODY": "SizeRestrictions_Body",
}


def test_the_common_rules_block_except_where_they_would_judge_a_token(rules: dict[str, Values]) -> None:
    common = rules["common"]
    group = only(only(common["statement"])["managed_rule_group_statement"])
    overrides = {o["name"]: o["action_to_use"] for o in group["rule_action_override"]}

    assert (group["vendor_name"], group["name"]) == ("AWS", "AWSManagedRulesCommonRuleSet")
    assert len(only(common["override_action"])["none"]) == 1
    assert set(overrides) == set(BODY_RULES)
    for action in overrides.values():
        assert len(only(action)["count"]) == 1
        assert not only(action)["block"]


def token_paths(rule: Values) -> set[tuple[str, str]]:
    """Return (how it is compared, path) of the paths to which a rule does not apply."""
    _, away = only(only(rule["statement"])["and_statement"])["statement"]
    paths = only(only(only(away["not_statement"])["statement"])["or_statement"])["statement"]
    matches = [only(path["byte_match_statement"]) for path in paths]
    return {(match["positional_constraint"], match["search_string"]) for match in matches}


def test_what_was_only_counted_is_blocked_where_no_token_is_posted(
    rules: dict[str, Values], cloudfront_rules: dict[str, Values]
) -> None:
    elsewhere = rules["common-body-elsewhere"]
    labelled, _ = only(only(elsewhere["statement"])["and_statement"])["statement"]
    labels = only(labelled["or_statement"])["statement"]

    assert len(only(elsewhere["action"])["block"]) == 1
    assert elsewhere["priority"] > rules["common"]["priority"]
    assert {only(s["label_match_statement"])["key"] for s in labels} == {
        f"awswaf:managed:aws:core-rule-set:{label}" for label in BODY_RULES.values()
    }
    posted = {("ENDS_WITH", "/fulfillment"), ("ENDS_WITH", "/register")}
    assert token_paths(elsewhere) == posted
    assert token_paths(cloudfront_rules["common-body-elsewhere"]) == posted | {("ENDS_WITH", "/verify")}


def test_every_rule_has_a_metric_of_its_own(rules: dict[str, Values]) -> None:
    shown = [only(rule["visibility_config"]) for rule in rules.values()]

    assert len({s["metric_name"] for s in shown}) == 4
    assert all(s["cloudwatch_metrics_enabled"] for s in shown)


# --- Profiles -----------------------------------------------------------------------------------------------


def test_profiles_are_keyed_streamed_and_guarded(regional: Resources, estate: Resources) -> None:
    table = regional[TABLE]

    assert key_schemas(table) == requested_schemas(tables.customer_profile_table("any"))
    assert (table["stream_enabled"], table["stream_view_type"]) == (True, "NEW_AND_OLD_IMAGES")
    assert table["deletion_protection_enabled"] is True
    assert table["point_in_time_recovery"][0]["enabled"] is True
    assert table["billing_mode"] == "PAY_PER_REQUEST"
    assert estate[TABLE]["deletion_protection_enabled"] is False
    assert only(estate[TABLE]["server_side_encryption"])["kms_key_arn"].startswith("arn:aws:kms:eu-west-1")


def test_promoted_fields_have_indexes_and_are_copied_to_attributes(estate: Resources) -> None:
    schemas = key_schemas(estate[TABLE])

    assert {name: keys[:2] for name, keys in schemas.items() if name} == {
        "email-index": ("email", None),
        "company-index": ("company", "createdAt"),
        "plan-index": ("plan", "email"),
    }
    assert {a["name"] for a in estate[TABLE]["attribute"]} == {
        "company",
        "createdAt",
        "customerAWSAccountId",
        "email",
        "licenseArn",
        "plan",
    }
    form = Settings.from_environment(variables(estate, "register")).form()
    assert form.promoted == {"company", "email", "plan"}


def test_the_module_and_the_code_know_the_same_attributes() -> None:
    source = (REPOSITORY / "modules" / "registration" / "tables.tf").read_text()

    names = re.search(r"profile_attributes = \[(.*?)\]", source, re.S)
    assert names is not None
    assert set(re.findall(r'"(\w+)"', names[1])) == PROFILE_ATTRIBUTES


@pytest.mark.parametrize("run", RUNS)
def test_form_data_stays_in_the_modules_region(run: str, registration: ModuleTest) -> None:
    """One table, nothing that carries it away; elsewhere there is the subscribers table only."""
    state = registration.states[run]

    (table,) = state.of_type("aws_dynamodb_table")
    assert not table.values["replica"]
    assert registration.outputs[run]["customer_profile_table"]["region"] == "eu-west-1"
    assert variables(state, "register")["CUSTOMER_PROFILE_TABLE"] == table.values["name"]
    carriers = {
        "aws_cloudwatch_event_target",
        "aws_dynamodb_kinesis_streaming_destination",
        "aws_dynamodb_table_replica",
        "aws_kinesis_firehose_delivery_stream",
        "aws_lambda_event_source_mapping",
        "aws_s3_bucket_replication_configuration",
        "aws_sns_topic",
        "aws_sqs_queue",
    }
    assert not carriers & {r.type for r in state}
    for resource, allowed in grants(registration.outputs[run]["role_policies_json"]["register"]).items():
        if resource.startswith(("arn:aws:dynamodb:us-east-1", "arn:aws:kms:us-east-1")):
            assert "dynamodb:PutItem" not in allowed
            assert ":key/" in resource or resource.startswith(SUBSCRIBERS)


@pytest.mark.parametrize("module", ["events", "metering"])
def test_no_other_module_holds_form_data(module: str) -> None:
    sources = "\n".join(p.read_text() for p in (REPOSITORY / "modules" / module).glob("*.tf"))

    for word in ("registrationData", "customer-profile", "customer_profile", "registration_fields"):
        assert word not in sources


def test_the_table_and_the_api_live_through_every_change(registration: ModuleTest) -> None:
    """Computed attributes of a mocked resource are random: equal ones mean the very same resource."""
    lives = [registration.states[run] for run in RUNS]

    assert len({state[TABLE]["stream_label"] for state in lives[:4]}) == 1
    assert len({state["aws_api_gateway_rest_api.this"]["root_resource_id"] for state in lives}) == 1
    for route in ROUTES:
        address = f'aws_api_gateway_method.this["{route}"]'
        assert len({state[address]["id"] for state in lives}) == 1, route
    assert lives[0][TABLE] == lives[1][TABLE] == lives[2][TABLE] == lives[3][TABLE]


# --- Functions and their settings ---------------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_handler_is_there_to_be_called(function: str, regional: Resources) -> None:
    values = regional[function_address(function)]

    module, name = values["handler"].rsplit(".", 1)
    source = REPOSITORY / "lambda_src" / (module.replace(".", "/") + ".py")
    assert f"\ndef {name}(" in source.read_text()
    assert values["timeout"] < 29, "API Gateway waits 29 seconds"


@pytest.mark.parametrize("run", RUNS)
def test_the_code_reads_every_setting_that_it_is_given(run: str, registration: ModuleTest) -> None:
    source = "\n".join(path.read_text() for path in (REPOSITORY / "lambda_src").rglob("*.py"))
    read_by_powertools = {"LOG_LEVEL", "POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_SERVICE_NAME"}

    for function in FUNCTIONS:
        given = variables(registration.states[run], function)
        assert {name for name in given if f'"{name}"' not in source} <= read_by_powertools
        assert sum(len(k) + len(v.encode()) for k, v in given.items()) < 4096
        assert not [name for name in given if name.startswith(("AWS_", "LAMBDA_"))]


def test_every_setting_that_the_code_reads_is_given(registration: ModuleTest) -> None:
    folder = REPOSITORY / "lambda_src" / "awsmp"
    source = "".join((folder / f"composition_{n}.py").read_text() for n in ("page", "registration"))
    read = set(re.findall(r'\benviron(?:\.get\(|\[)"([A-Z_]+)"', source)) - {"AWS_REGION"}

    given = {name for run in RUNS for f in FUNCTIONS for name in variables(registration.states[run], f)}
    assert len(read) >= 10
    assert read <= given


def test_the_settings_arrive_as_they_were_given(estate: Resources, own_page: Resources) -> None:
    settings = Settings.from_environment(variables(estate, "register"))
    fields = {field.name: field for field in settings.form().fields}

    assert settings.product_code == PRODUCT
    assert settings.environment == "staging"
    assert settings.marketplace_region == settings.subscribers_table_region == "us-east-1"
    assert settings.origins() == {"https://beta.example.com", "https://buy.example.com"}
    assert (fields["company"].max_length, fields["email"].max_length) == (120, 254)
    assert fields["plan"].options == {"Starter", "Team"}
    assert fields["terms"].required
    assert Settings.from_environment(variables(own_page, "register")).origins() == {"https://app.example.com"}


# --- Page ---------------------------------------------------------------------------------------------------


class Document(HTMLParser):
    """Tags with their attributes, and the text of each element with an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.configuration = ""
        self._in_configuration = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_configuration = dict(attrs).get("id") == "configuration"

    def handle_data(self, data: str) -> None:
        if self._in_configuration:
            self.configuration += data
        else:
            self.texts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_configuration = False

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("run", DELIVERED_BY_FUNCTION)
def test_every_placeholder_of_the_page_has_a_value(run: str, registration: ModuleTest) -> None:
    page = page_of(registration.states[run])

    for name in (INDEX, "style.css"):
        assert not re.search(r"\$\{", page.file(name)), name
    used = set(re.findall(r"\$\{(\w+)\}", "".join(packaged_page()[name] for name in (INDEX, "style.css"))))
    assert used == set(json.loads(page.values))


def test_what_a_seller_writes_is_text_and_never_markup(estate: Resources) -> None:
    document = Document(page_of(estate).file(INDEX))
    configuration = json.loads(document.configuration)

    assert "تحليلات <مثال>" in document.texts
    assert configuration["productName"] == "تحليلات <مثال>"
    assert configuration["sellerName"] == 'O\'Hara "&" Söhne'
    assert configuration["fields"][3]["label"] == "I accept <the terms>"
    assert "<" not in document.configuration
    (image,) = document.attributes("img")
    assert image["src"] == "https://cdn.example.com:8443/logo.svg?v=2"
    assert image["alt"] == 'O\'Hara "&" Söhne'
    assert "https://example.com/help?a=1&b=2" in [a.get("href") for a in document.attributes("a")]


def test_the_configuration_is_the_one_that_the_page_reads(estate: Resources, regional: Resources) -> None:
    configuration = json.loads(Document(page_of(estate).file(INDEX)).configuration)

    assert set(configuration) == {
        "fields",
        "locale",
        "messages",
        "productName",
        "regions",
        "sellerName",
        "successUrl",
        "supportEmail",
        "supportUrl",
    }
    assert configuration["regions"] == [
        {"label": "Ireland", "registrationUrl": "register"},
        {
            "label": "Frankfurt",
            "registrationUrl": "https://k1l2m3n4o5.execute-api.eu-central-1.amazonaws.com/prod/register",
        },
        {
            "label": "Singapore",
            "registrationUrl": "https://f6g7h8i9j0.execute-api.ap-southeast-1.amazonaws.com/prod/register",
        },
    ]
    assert configuration["successUrl"] == "https://app.example.com/welcome"
    plain = json.loads(Document(page_of(regional).file(INDEX)).configuration)
    assert plain["regions"] == []
    assert plain["successUrl"] is None
    assert plain["fields"][0] == {
        "name": "email",
        "label": "Email",
        "type": "email",
        "maxLength": 254,
        "required": True,
    }


@pytest.mark.parametrize("run", DELIVERED_BY_FUNCTION)
def test_page_and_function_judge_by_one_list_of_fields(run: str, registration: ModuleTest) -> None:
    state = registration.states[run]
    fields = json.loads(variables(state, "register")["REGISTRATION_FIELDS"])

    assert fields[0]["name"] == "email"
    assert json.loads(Document(page_of(state).file(INDEX)).configuration)["fields"] == fields


def test_language_and_direction_go_together(estate: Resources, regional: Resources) -> None:
    (arabic,) = Document(page_of(estate).file(INDEX)).attributes("html")
    (english,) = Document(page_of(regional).file(INDEX)).attributes("html")

    assert (arabic["lang"], arabic["dir"]) == ("ar-EG", "rtl")
    assert (english["lang"], english["dir"]) == ("en", "ltr")


def contrast(one: str, other: str) -> float:
    def luminance(color: str) -> float:
        channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("run", ["regional", "estate"])
def test_text_on_the_accent_can_be_read_in_both_schemes(run: str, registration: ModuleTest) -> None:
    values = json.loads(variables(registration.states[run], "page")["PAGE_VALUES"])

    assert contrast(values["accent"], values["accent_text"]) >= 4.5
    assert contrast(values["accent_dark"], "#0f141a") >= 4.5


def directives(policy: str) -> dict[str, list[str]]:
    return {name: sources for name, *sources in (part.split() for part in policy.split("; "))}


def test_the_policy_allows_the_page_the_logo_and_the_named_deployments_only(
    estate: Resources, regional: Resources
) -> None:
    strict = {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }

    assert directives(variables(regional, "page")["CONTENT_SECURITY_POLICY"]) == strict
    assert directives(variables(estate, "page")["CONTENT_SECURITY_POLICY"]) == {
        **strict,
        "img-src": ["'self'", "https://cdn.example.com:8443"],
        "connect-src": [
            "'self'",
            "https://k1l2m3n4o5.execute-api.eu-central-1.amazonaws.com",
            "https://f6g7h8i9j0.execute-api.ap-southeast-1.amazonaws.com",
        ],
    }


# --- CloudFront ---------------------------------------------------------------------------------------------


def test_a_regional_deployment_has_nothing_of_cloudfront(regional: Resources) -> None:
    assert not [r.address for r in regional if "cloudfront" in r.type or r.type.startswith("aws_s3_")]
    assert regional.of_type("aws_api_gateway_api_key") == []


def test_the_bucket_is_private_and_read_by_this_distribution_over_tls_only(cloudfront: Resources) -> None:
    block = cloudfront["aws_s3_bucket_public_access_block.page[0]"]
    read, tls = json.loads(cloudfront["aws_s3_bucket_policy.page[0]"]["policy"])["Statement"]

    assert cloudfront["aws_s3_bucket.page[0]"]["bucket"] == f"{BASE}-page-{ACCOUNT}-euw1"
    for setting in (
        "block_public_acls",
        "block_public_policy",
        "ignore_public_acls",
        "restrict_public_buckets",
    ):
        assert block[setting] is True
    assert read["Principal"] == {"Service": "cloudfront.amazonaws.com"}
    assert read["Action"] == "s3:GetObject"
    assert read["Condition"] == {"StringEquals": {"AWS:SourceArn": cloudfront[DISTRIBUTION]["arn"]}}
    assert (tls["Effect"], tls["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    control = cloudfront["aws_cloudfront_origin_access_control.page[0]"]
    assert (control["signing_behavior"], control["signing_protocol"]) == ("always", "sigv4")


def test_the_objects_are_what_the_function_would_serve(cloudfront: Resources, regional: Resources) -> None:
    """But for the choice of Regions in this deployment, and the meta element that narrows connect-src."""
    page = page_of(regional)
    objects = {r.key: r.values for r in cloudfront.of_type("aws_s3_object")}

    assert set(objects) == {INDEX, *(f"assets/{name}" for name in ASSETS)}
    for name, kind in ASSETS.items():
        assert objects[f"assets/{name}"]["content"] == page.file(name)
        assert objects[f"assets/{name}"]["content_type"] == kind
        assert objects[f"assets/{name}"]["cache_control"] == "public, max-age=300"
    index = objects[INDEX]
    assert (index["content_type"], index["cache_control"]) == ("text/html; charset=utf-8", "no-store")
    meta = re.search(r'<meta http-equiv="Content-Security-Policy" content="[^"]*">\n', index["content"])
    assert meta is not None
    assert index["content"].index(meta[0]) < index["content"].index("<script")
    there, here = Document(index["content"].replace(meta[0], "")), Document(page.file(INDEX))
    assert (there.tags, there.texts) == (here.tags, here.texts)
    configuration = json.loads(there.configuration)
    assert [region["label"] for region in configuration.pop("regions")] == ["eu-west-1", "Asia Pacific"]
    assert configuration == {k: v for k, v in json.loads(here.configuration).items() if k != "regions"}


@pytest.mark.parametrize(
    ("run", "url"),
    [
        ("cloudfront", "https://d111111abcdef8.cloudfront.net/"),
        ("cloudfront_estate", "https://register.example.com/"),
        ("own_page", "https://app.example.com/signup?from=marketplace"),
    ],
)
def test_where_the_function_has_no_page_it_sends_browsers_to_the_one_there_is(
    run: str, url: str, registration: ModuleTest
) -> None:
    given = variables(registration.states[run], "page")

    assert "PAGE_VALUES" not in given
    assert PageSettings.from_environment(given).own_page_url == url == registration.outputs[run]["page_url"]


def test_header_and_document_together_are_as_strict_as_the_functions_policy(cloudfront: Resources) -> None:
    """A browser enforces both, so a source is allowed where both allow it."""
    policy = only(cloudfront["aws_cloudfront_response_headers_policy.this[0]"]["security_headers_config"])
    header = directives(only(policy["content_security_policy"])["content_security_policy"])
    index = cloudfront['aws_s3_object.page["index.html"]']["content"]
    meta = directives(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', index)[0])
    exact = directives(variables(cloudfront, "page")["CONTENT_SECURITY_POLICY"])

    assert {**header, **meta} == exact
    assert set(meta) == {"connect-src"}
    assert all(s in header["connect-src"] or s.startswith("https:") for s in meta["connect-src"])
    assert only(policy["content_security_policy"])["override"] is False


def test_cloudfront_sends_the_headers_that_the_functions_send(cloudfront: Resources) -> None:
    policy = cloudfront["aws_cloudfront_response_headers_policy.this[0]"]
    security = only(policy["security_headers_config"])
    custom = {i["header"]: i["value"] for i in only(policy["custom_headers_config"])["items"]}

    seconds = only(security["strict_transport_security"])["access_control_max_age_sec"]
    assert {
        **custom,
        "Cache-Control": "no-store",
        "Referrer-Policy": only(security["referrer_policy"])["referrer_policy"],
        "Strict-Transport-Security": f"max-age={seconds}",
        "X-Content-Type-Options": "nosniff" if security["content_type_options"] else "",
        "X-Frame-Options": only(security["frame_options"])["frame_option"],
    } == dict(SECURITY_HEADERS)


def test_form_posts_reach_the_api_uncached_and_with_nothing_but_their_body(cloudfront: Resources) -> None:
    distribution = cloudfront[DISTRIBUTION]
    behaviors = {b["path_pattern"]: b for b in distribution["ordered_cache_behavior"]}
    forwarded = cloudfront["aws_cloudfront_origin_request_policy.api[0]"]

    assert set(behaviors) == {"/fulfillment", "/register"}
    for behavior in behaviors.values():
        assert behavior["target_origin_id"] == "api"
        assert {"GET", "OPTIONS", "POST"} <= set(behavior["allowed_methods"])
        assert behavior["cache_policy_id"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad", (
            "Managed-CachingDisabled"
        )
        assert behavior["viewer_protocol_policy"] == "https-only"
        assert behavior["origin_request_policy_id"] == forwarded["id"]
        assert only(behavior["function_association"])["event_type"] == "viewer-request"
    assert only(forwarded["cookies_config"])["cookie_behavior"] == "none"
    assert only(forwarded["query_strings_config"])["query_string_behavior"] == "none"
    assert set(only(only(forwarded["headers_config"])["headers"])["items"]) == {
        "Access-Control-Request-Headers",
        "Access-Control-Request-Method",
        "Origin",
        "x-viewer-address",
    }
    default = only(distribution["default_cache_behavior"])
    assert (default["target_origin_id"], distribution["default_root_object"]) == ("page", INDEX)
    assert set(default["allowed_methods"]) == {"GET", "HEAD"}


def test_the_direct_endpoint_is_closed_to_all_but_cloudfront(cloudfront: Resources) -> None:
    origins = {o["origin_id"]: o for o in cloudfront[DISTRIBUTION]["origin"]}
    key = cloudfront["aws_api_gateway_api_key.cloudfront[0]"]
    plan = cloudfront["aws_api_gateway_usage_plan.cloudfront[0]"]
    member = cloudfront["aws_api_gateway_usage_plan_key.cloudfront[0]"]

    assert origins["api"]["domain_name"] == "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
    assert origins["api"]["origin_path"] == "/prod"
    assert only(origins["api"]["custom_header"]) == {"name": "x-api-key", "value": key["value"]}
    tls = only(origins["api"]["custom_origin_config"])
    assert (tls["origin_protocol_policy"], tls["origin_ssl_protocols"]) == ("https-only", ["TLSv1.2"])
    assert only(plan["api_stages"])["stage"] == "prod"
    assert (member["key_id"], member["usage_plan_id"]) == (key["id"], plan["id"])
    assert all(r.values["api_key_required"] for r in cloudfront.of_type("aws_api_gateway_method"))


def test_a_callers_acl_and_certificate_go_to_the_distribution(
    cloudfront_estate: Resources, cloudfront: Resources
) -> None:
    distribution = cloudfront_estate[DISTRIBUTION]
    certificate = only(distribution["viewer_certificate"])

    assert distribution["web_acl_id"] == f"arn:aws:wafv2:us-east-1:{ACCOUNT}:global/webacl/edge/9abc"
    assert distribution["aliases"] == ["register.example.com"]
    assert certificate["acm_certificate_arn"] == f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/1234"
    assert certificate["minimum_protocol_version"] == "TLSv1.2_2021"
    assert cloudfront_estate.of_type("aws_api_gateway_domain_name") == []
    assert only(cloudfront[DISTRIBUTION]["viewer_certificate"])["cloudfront_default_certificate"] is True


# --- Alarms and everything ----------------------------------------------------------------------------------


def test_every_way_to_turn_a_buyer_away_alarms(regional: Resources, estate: Resources) -> None:
    found = {r.key: r.values for r in regional.of_type("aws_cloudwatch_metric_alarm")}

    assert {key: (a["namespace"], a["metric_name"], a["dimensions"]) for key, a in found.items()} == {
        "page-errors": ("AWS/Lambda", "Errors", {"FunctionName": f"{BASE}-page"}),
        "page-throttles": ("AWS/Lambda", "Throttles", {"FunctionName": f"{BASE}-page"}),
        "register-errors": ("AWS/Lambda", "Errors", {"FunctionName": f"{BASE}-register"}),
        "register-throttles": ("AWS/Lambda", "Throttles", {"FunctionName": f"{BASE}-register"}),
        "registration-api-5xx": (
            "AWS/ApiGateway",
            "5XXError",
            {"ApiName": f"{BASE}-registration", "Stage": "prod"},
        ),
        "registration-failed": (
            "AWSMarketplaceMetering",
            str(Metric.REGISTRATION_FAILED),
            {"ProductCode": PRODUCT, "Environment": "default"},
        ),
        "registration-missing-license": (
            "AWSMarketplaceMetering",
            str(Metric.REGISTRATION_REJECTED),
            {"ProductCode": PRODUCT, "Environment": "default", "Reason": str(RefusalCode.MISSING_LICENSE)},
        ),
        "registration-wrong-product": (
            "AWSMarketplaceMetering",
            str(Metric.REGISTRATION_REJECTED),
            {"ProductCode": PRODUCT, "Environment": "default", "Reason": str(RefusalCode.WRONG_PRODUCT)},
        ),
    }
    for alarm in found.values():
        assert (alarm["statistic"], alarm["threshold"], alarm["treat_missing_data"]) == (
            "Sum",
            1,
            "notBreaching",
        )
        assert len(alarm["alarm_actions"]) == 1
    thresholds = {r.key: r.values["threshold"] for r in estate.of_type("aws_cloudwatch_metric_alarm")}
    assert thresholds.pop("register-throttles") == 5
    assert set(thresholds.values()) == {1}


@pytest.mark.parametrize("run", ["cloudfront", "estate"])
def test_everything_that_takes_tags_is_tagged(run: str, registration: ModuleTest) -> None:
    taggable = [r for r in registration.states[run] if "tags" in r.values]

    assert len(taggable) >= 12
    assert [r.address for r in taggable if r.values["tags"] != {"team": "billing"}] == []


def test_an_environment_changes_every_name(cloudfront: Resources, cloudfront_estate: Resources) -> None:
    """Both may then stand in one account and Region: nothing that has a name shares it."""
    names = {"alarm_name", "bucket", "function_name", "layer_name", "name"}
    kinds = {"aws_iam_role_policy", "aws_lambda_permission", "aws_s3_object"}
    kinds |= {r.type for r in cloudfront if r.type.startswith("aws_s3_bucket_")}

    def named(state: Resources) -> set[tuple[str, str]]:
        return {
            (r.type, r.values[attribute])
            for r in state
            for attribute in names & set(r.values)
            if r.type not in kinds and r.values[attribute]
        }

    assert len(named(cloudfront)) >= 20
    assert named(cloudfront) & named(cloudfront_estate) == set()


def test_the_deployment_describes_itself(estate: Resources, regional: Resources) -> None:
    parameter = estate["aws_ssm_parameter.deployment"]
    description = json.loads(parameter["value"])

    assert parameter["name"] == f"/marketplace/awsmp/staging/registration/{PRODUCT}"
    assert description["customerProfileTable"] == f"awsmp-staging-{PRODUCT}-customer-profile"
    assert description["promotedProfileFields"] == ["company", "email", "plan"]
    assert description["fulfillmentUrl"] == "https://register.example.com/fulfillment"
    assert (description["stageName"], description["delivery"]) == ("v1", "regional")
    assert set(description["functions"]) == set(FUNCTIONS)
    assert len(parameter["value"]) < 4096
    assert regional["aws_ssm_parameter.deployment"]["name"] == f"/marketplace/awsmp/registration/{PRODUCT}"


def test_logs_of_every_function_and_of_the_api_are_outputs(registration: ModuleTest) -> None:
    assert registration.outputs["regional"]["log_group_names"] == {
        "access": f"/aws/apigateway/{BASE}-registration",
        "page": f"/aws/lambda/{BASE}-page",
        "register": f"/aws/lambda/{BASE}-register",
    }
