"""A buyer's way through the page, from AWS Marketplace's form post on, and each thing that can fail."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from sandbox.registration_server import FIELDS, RegistrationServer, page_configuration
from tests.browser.support import (
    BROWSER_TEST,
    EMAIL,
    NAME,
    PHONE,
    Browse,
    MarketplaceSite,
    Visit,
    hold_register,
    posts,
    sent,
)

pytestmark = list(BROWSER_TEST)

TOKEN_FIELD = "x-amzn-marketplace-token"
OFFER_FIELD = "x-amzn-marketplace-offer-type"


# ------------------------------------------------------------------ the happy path


@pytest.mark.parametrize("width", [1280, PHONE])
@pytest.mark.parametrize("encoding", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_post_from_another_site_ends_in_a_registration(
    browse: Browse, server: RegistrationServer, marketplace: MarketplaceSite, encoding: str, width: int
) -> None:
    token = server.new_token()
    fields = {TOKEN_FIELD: token, OFFER_FIELD: "free-trial"}
    visit = browse(width=width)
    visit.page.goto(marketplace.offer("buy", server.fulfillment_url, fields, encoding))
    visit.page.get_by_role("button", name="Set up your account").click()
    visit.expect_state("ready")
    visit.fill()
    visit.page.get_by_label("Notes").fill("first line\nsecond line")
    visit.submit()
    visit.expect_state("registered")

    [post] = posts(server)
    assert sent(post) == {
        "token": token,
        "offerType": "free-trial",
        "fields": {
            "email": EMAIL,
            "name": NAME,
            "plan": "priority",
            "notes": "first line\nsecond line",
            "terms": True,
        },
    }
    [profile] = server.profiles()
    assert profile["registrationData"]["email"] == EMAIL
    assert len(server.subscribers()) == 1


def test_the_confirmation_says_what_happens_next(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.register(server, server.new_token())
    visit.expect_state("registered")
    main = visit.page.locator("main")
    expect(main.get_by_role("heading", name="You are registered")).to_be_focused()
    expect(main.get_by_role("heading", name="What happens next")).to_be_visible()
    expect(main).to_contain_text(f"Example Corp prepares your access and writes to {EMAIL}")
    expect(main).to_contain_text("after one business day, contact support@example.com")
    expect(visit.page.locator("form")).to_have_count(0)
    assert visit.page.title().startswith("You are registered")


def test_a_second_registration_of_a_license_is_told_that_the_first_stands(
    browse: Browse, server: RegistrationServer
) -> None:
    token = server.new_token()
    first, second = browse(), browse()
    first.register(server, token)
    first.expect_state("registered")
    second.register(server, token)
    second.expect_state("already-registered")
    expect(second.page.locator("main")).to_contain_text("Your first registration stands")
    assert len(server.profiles()) == 1


def test_an_optional_field_that_is_left_empty_is_not_sent(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    visit.fill()
    visit.page.get_by_label("Company").fill("   ")
    visit.submit()
    visit.expect_state("registered")
    assert set(sent(posts(server)[0])["fields"]) == {"email", "name", "plan", "terms"}


# ------------------------------------------------------------------ sending once


def test_a_double_click_posts_once_and_the_page_says_that_it_is_sending(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    held = hold_register(visit)
    visit.fill()
    button = visit.page.locator("#submit")
    button.dblclick()
    visit.expect_state("submitting")
    button.press("Enter")
    visit.page.get_by_label("Your name").press("Enter")
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_text("Sending your registration…")
    expect(visit.page.locator("#form")).to_have_attribute("aria-busy", "true")
    expect(visit.page.get_by_role("status")).to_have_text("Sending your registration…")
    assert len(held) == 1
    held[0]()
    visit.expect_state("registered")
    assert len(posts(server)) == 1


# ------------------------------------------------------------------ wrong answers


def test_missing_answers_are_listed_and_nothing_is_sent(browse: Browse, server: RegistrationServer) -> None:
    visit = browse(width=PHONE)
    visit.arrive(server, server.new_token())
    visit.submit()
    summary = visit.page.get_by_role("group", name="Check your answers")
    expect(summary).to_be_focused()
    expect(summary.get_by_role("link")).to_have_text(
        [
            "E-mail address: an answer is needed.",
            "Your name: an answer is needed.",
            "Support plan: an answer is needed.",
            "I accept the terms: tick this box to go on.",
        ]
    )
    assert posts(server) == []
    assert visit.page.title().startswith("Error: ")

    summary.get_by_role("link", name="Support plan").click()
    assert visit.focused() == "field-plan"
    assert visit.page.url == server.url


def test_an_error_is_tied_to_its_field_and_goes_when_it_is_mended(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    visit.fill()
    email = visit.page.get_by_label("E-mail address")
    email.fill("buyer@")
    visit.page.get_by_label("Phone").fill("call me")
    visit.submit()
    expect(email).to_have_attribute("aria-invalid", "true")
    expect(email).to_have_accessible_description("E-mail address: enter an address like name@example.com.")
    expect(visit.page.get_by_label("Phone")).to_have_accessible_description(
        re.compile(r"Phone: enter 5 to 32 digits.*With the country code")
    )
    email.press_sequentially("example.com")
    expect(email).not_to_have_attribute("aria-invalid", "true")
    expect(visit.page.locator("#error-email")).to_be_hidden()
    visit.page.get_by_label("Phone").fill("+1 206 555 0100")
    visit.submit()
    visit.expect_state("registered")


def test_lengths_count_characters_as_people_do_and_nothing_is_cut_off(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    visit.fill()
    visit.page.get_by_label("Your name").fill("🌊" * 101)
    visit.submit()
    expect(visit.page.locator("#error-name")).to_have_text("Your name: at most 100 characters; this has 101.")
    visit.page.get_by_label("Your name").fill("🌊" * 100)
    visit.submit()
    visit.expect_state("registered")
    assert server.profiles()[0]["registrationData"]["name"] == "🌊" * 100


def test_what_only_the_service_refuses_is_shown_at_the_field(browse: Browse) -> None:
    # The page of one release and the service of the next: the service allows less.
    with RegistrationServer() as server:
        stricter = [{**each, "maxLength": 5} if each["name"] == "name" else dict(each) for each in FIELDS]
        visit = browse()
        visit.arrive(server, server.new_token())
        server.configure(registration_fields=json.dumps(stricter))
        visit.fill()
        visit.submit()
        expect(visit.page.get_by_role("group", name="Check your answers")).to_be_focused()
        expect(visit.page.locator("#error-name")).to_be_visible()
        expect(visit.page.get_by_label("Your name")).to_have_attribute("aria-invalid", "true")
        expect(visit.page.get_by_label("E-mail address")).to_have_value(EMAIL)
        visit.page.get_by_label("Your name").fill("Mira")
        visit.submit()
        visit.expect_state("registered")


# ------------------------------------------------------------------ links that do not work


def test_an_expired_link_sends_the_buyer_back_without_a_new_subscription(
    browse: Browse, server: RegistrationServer
) -> None:
    token = server.new_token()
    server.expire(token)
    visit = browse()
    visit.register(server, token)
    visit.expect_state("ExpiredToken")
    main = visit.page.locator("main")
    expect(main.get_by_role("heading", name="This link has expired")).to_be_focused()
    expect(main).to_contain_text("you do not have to subscribe again")
    expect(main.get_by_role("listitem").last).to_have_text("Choose “Set up your account”.")
    expect(main.get_by_role("link", name="Open AWS Marketplace")).to_have_attribute(
        "href", "https://console.aws.amazon.com/marketplace/home#/subscriptions"
    )
    assert server.profiles() == []


def test_an_unknown_token_of_the_listing_check_gets_a_page_and_no_stack_trace(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.register(server, "test-invalid-token-00000")
    visit.expect_state("InvalidToken")
    expect(visit.page.locator("main")).to_contain_text("does not recognize the link")


def test_a_link_of_another_product_registers_nothing(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.register(server, server.new_foreign_token())
    visit.expect_state("WrongProduct")
    expect(visit.page.locator("main")).to_contain_text(
        "is not for Example Analytics, so nothing was registered"
    )
    assert server.profiles() == []


def test_a_subscription_without_a_license_names_the_support(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.register(server, server.new_token_without_license())
    visit.expect_state("MissingLicense")
    expect(visit.page.locator("main")).to_contain_text("contact support@example.com")
    assert server.profiles() == []


@pytest.mark.parametrize(
    ("fragment", "state"),
    [
        ("", "missing"),
        ("#e=missing", "missing"),
        ("#t=", "missing"),
        ("#e=invalid", "InvalidToken"),
        ("#t=%%%", "InvalidToken"),
        ("#t=_w", "InvalidToken"),
    ],
)
def test_without_a_usable_token_the_page_says_how_to_get_one(
    browse: Browse, server: RegistrationServer, fragment: str, state: str
) -> None:
    visit = browse()
    visit.page.goto(server.url + fragment)
    visit.expect_state(state)
    expect(visit.page.get_by_role("heading", name="How to get here")).to_be_visible()
    expect(visit.page.get_by_role("link", name="support@example.com")).to_be_visible()
    assert visit.page.url == server.url


def test_who_opens_the_page_directly_sees_the_form_but_cannot_send_it(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.page.goto(server.fulfillment_url)
    visit.expect_state("missing")
    expect(visit.page.get_by_label("E-mail address")).to_be_disabled()
    expect(visit.page.locator("#submit")).to_be_disabled()
    visit.page.evaluate("document.getElementById('form').requestSubmit()")
    assert posts(server) == []


@pytest.mark.parametrize("body", ["", "garbage=1"])
def test_a_form_post_without_a_token_still_gets_a_page(
    browse: Browse, server: RegistrationServer, marketplace: MarketplaceSite, body: str
) -> None:
    visit = browse()
    fields = {"garbage": "1"} if body else {}
    visit.page.goto(marketplace.offer("empty", server.fulfillment_url, fields))
    visit.page.get_by_role("button").click()
    visit.expect_state("missing")


# ------------------------------------------------------------------ failures that pass


def stop_the_clock(visit: Visit) -> None:
    """Let the page's time pass only where a test says so: a busy machine must not run a countdown down."""
    visit.page.clock.install(time="2026-03-10T12:00:00Z")
    visit.page.clock.pause_at("2026-03-10T12:00:01Z")


def test_throttling_is_waited_out_with_a_countdown_and_the_answers_kept(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    stop_the_clock(visit)
    server.throttle_next()
    visit.register(server, server.new_token())
    visit.expect_state("Throttled")
    notice = visit.page.get_by_role("group", name="Too many requests")
    expect(notice).to_be_focused()
    expect(notice).to_contain_text("You can try again in 5 seconds.")
    retry = notice.get_by_role("button", name="Try again")
    expect(retry).to_have_attribute("aria-disabled", "true")
    retry.click(force=True)
    visit.page.locator("#submit").click(force=True)
    visit.page.get_by_label("Your name").press("Enter")
    assert len(posts(server)) == 1
    visit.page.clock.run_for(3_000)
    expect(notice).to_contain_text("You can try again in 2 seconds.")
    visit.page.clock.run_for(2_000)
    expect(visit.page.get_by_role("status")).to_have_text("You can try again now.")
    expect(visit.page.get_by_label("E-mail address")).to_have_value(EMAIL)
    retry.click()
    visit.expect_state("registered")
    assert len(posts(server)) == 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({}, 10), ({"Retry-After": "7"}, 7), ({"Retry-After": "90000"}, 300), ({"Retry-After": "soon"}, 10)],
)
def test_the_gateways_own_throttling_is_waited_out_too(
    browse: Browse, server: RegistrationServer, headers: dict[str, str], seconds: int
) -> None:
    visit = browse()
    stop_the_clock(visit)
    visit.answer_register_with(429, '{"message":"Too Many Requests"}', headers)
    visit.register(server, server.new_token())
    visit.expect_state("Throttled")
    expect(visit.page.locator("#notice")).to_contain_text(f"You can try again in {seconds} seconds.")


def test_a_failure_of_the_service_keeps_the_answers_and_a_retry_succeeds(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse(width=PHONE)
    server.fail_next()
    visit.register(server, server.new_token())
    visit.expect_state("Unavailable")
    expect(visit.page.locator("#notice")).to_contain_text("nothing is registered twice")
    expect(visit.page.get_by_label("Your name")).to_have_value(NAME)
    visit.page.get_by_role("button", name="Try again").press("Enter")
    visit.expect_state("registered")


def test_without_a_connection_the_answers_are_kept_and_a_retry_succeeds(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    visit.fill()
    visit.context.set_offline(True)
    visit.submit()
    visit.expect_state("Offline")
    expect(visit.page.get_by_role("group", name="No connection")).to_be_focused()
    visit.context.set_offline(False)
    visit.page.get_by_role("button", name="Try again").click()
    visit.expect_state("registered")


def test_an_answer_that_was_lost_after_the_registration_ends_as_already_registered(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.page.route("**/register", lambda route: (route.fetch(), route.abort()), times=1)
    visit.register(server, server.new_token())
    visit.expect_state("Offline")
    assert len(server.profiles()) == 1
    visit.page.get_by_role("button", name="Try again").click()
    visit.expect_state("already-registered")


def test_a_missing_setting_is_the_sellers_to_repair_and_keeps_the_answers(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    server.configure(customer_profile_table="")
    visit.register(server, server.new_token())
    visit.expect_state("Misconfigured")
    expect(visit.page.locator("#notice")).to_contain_text("Example Corp has to repair a fault on our side")
    expect(visit.page.get_by_label("Your name")).to_have_value(NAME)


@pytest.mark.parametrize(
    ("status", "body", "state"),
    [
        (403, '{"message":"Forbidden"}', "Refused"),
        (413, '{"message":"Request Too Long"}', "TooLarge"),
        (413, '{"error":"TooLarge"}', "TooLarge"),
        (400, '{"error":"MalformedRequest"}', "MalformedRequest"),
        (404, "", "MalformedRequest"),
        (422, '{"error":"InvalidFields","fields":{"gone":"UnknownField"}}', "MalformedRequest"),
        (502, '{"message":"Internal server error"}', "Unavailable"),
        (504, "<html>", "Unavailable"),
        (200, "<html>", "Unavailable"),
        (200, "null", "Unavailable"),
        (400, '{"error":"toString"}', "MalformedRequest"),
        (400, '{"error":["ExpiredToken"]}', "MalformedRequest"),
    ],
)
def test_every_answer_of_whoever_answers_has_a_sentence(
    browse: Browse, server: RegistrationServer, status: int, body: str, state: str
) -> None:
    visit = browse()
    visit.answer_register_with(status, body)
    visit.register(server, server.new_token())
    visit.expect_state(state)
    expect(visit.page.locator("#notice")).to_be_focused()
    expect(visit.page.get_by_label("Your name")).to_have_value(NAME)
    visit.page.get_by_role("button", name="Try again").click()
    visit.expect_state("registered")


# ------------------------------------------------------------------ going on to the seller


def test_the_buyer_is_taken_to_the_sellers_page_after_twenty_seconds(
    browse: Browse, marketplace: MarketplaceSite
) -> None:
    with RegistrationServer(
        configuration=page_configuration(success_url=marketplace.url("welcome"))
    ) as server:
        visit = browse()
        stop_the_clock(visit)
        visit.register(server, server.new_token())
        visit.expect_state("registered")
        expect(visit.page.locator("main")).to_contain_text(
            "You will be taken to Example Analytics in 20 seconds."
        )
        visit.page.clock.run_for(19_000)
        assert visit.page.url == server.url
        with visit.page.expect_navigation(url=marketplace.url("welcome")):
            visit.page.clock.run_for(1_000)


def test_a_buyer_who_wants_to_stay_is_not_taken_away(browse: Browse, marketplace: MarketplaceSite) -> None:
    with RegistrationServer(
        configuration=page_configuration(success_url=marketplace.url("welcome"))
    ) as server:
        visit = browse()
        stop_the_clock(visit)
        visit.register(server, server.new_token())
        visit.page.get_by_role("button", name="Stay on this page").click()
        link = visit.page.get_by_role("link", name="Continue to Example Analytics")
        expect(link).to_be_focused()
        visit.page.clock.run_for(60_000)
        assert visit.page.url == server.url
        link.click()
        visit.page.wait_for_url(marketplace.url("welcome"))


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "//evil.example.com", "nonsense"]
)
def test_an_address_that_is_no_web_address_is_no_link(browse: Browse, address: str) -> None:
    with RegistrationServer(configuration=page_configuration(success_url=address)) as server:
        visit = browse()
        visit.register(server, server.new_token())
        visit.expect_state("registered")
        expect(visit.page.locator("main").get_by_role("link")).to_have_count(0)


# ------------------------------------------------------------------ reload, back, and a second link


def test_a_reload_explains_where_the_link_went(browse: Browse, server: RegistrationServer) -> None:
    visit = browse()
    visit.arrive(server, server.new_token())
    visit.page.reload()
    visit.expect_state("reloaded")
    expect(visit.page.get_by_role("heading", name="This page was reloaded")).to_be_visible()
    expect(visit.page.locator("main")).to_contain_text("Your subscription is safe")


def test_a_reload_after_the_registration_still_says_that_it_is_done(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.register(server, server.new_token())
    visit.expect_state("registered")
    visit.page.reload()
    visit.expect_state("registered")
    expect(visit.page.locator("main")).not_to_contain_text(EMAIL)


def test_back_and_forward_neither_repeat_the_post_nor_bring_the_token_back(
    browse: Browse, server: RegistrationServer, marketplace: MarketplaceSite
) -> None:
    start = marketplace.offer("buy", server.fulfillment_url, {TOKEN_FIELD: server.new_token()})
    visit = browse()
    visit.page.goto(start)
    visit.page.get_by_role("button").click()
    visit.expect_state("ready")
    visit.page.go_back()
    assert visit.page.url == start
    visit.page.go_forward()
    expect(visit.page.locator("#main")).to_have_attribute("data-state", re.compile("ready|reloaded"))
    assert visit.page.url == server.url
    fulfillments = [each for each in server.requests if each.target.endswith("/fulfillment")]
    assert len(fulfillments) == 1


def test_a_new_link_in_the_same_tab_starts_over_with_its_token(
    browse: Browse, server: RegistrationServer
) -> None:
    expired, good = server.new_token(), server.new_token()
    server.expire(expired)
    visit = browse()
    visit.register(server, expired)
    visit.expect_state("ExpiredToken")
    visit.page.goto(server.page_url(good))
    visit.expect_state("ready")
    visit.fill()
    visit.submit()
    visit.expect_state("registered")
    assert visit.page.url == server.url


# ------------------------------------------------------------------ where the data are kept


def test_the_form_goes_to_the_region_that_the_buyer_chooses_and_nowhere_else(browse: Browse) -> None:
    with RegistrationServer(region="ap-northeast-1") as tokyo:
        regions = [
            {"label": "Europe (Ireland)", "registrationUrl": "register"},
            {"label": "Asia Pacific (Tokyo)", "registrationUrl": tokyo.registration_url},
        ]
        with RegistrationServer(configuration=page_configuration(regions=regions)) as ireland:
            tokyo.configure(allowed_origins=f'["{ireland.origin}"]')
            visit = browse()
            visit.arrive(ireland, tokyo.new_token())
            group = visit.page.get_by_role("group", name="Where should your registration data be kept?")
            expect(group).to_have_accessible_description(
                "What you enter here is stored in the place that you choose."
            )
            expect(group.get_by_label("Europe (Ireland)")).to_be_checked()
            group.get_by_label("Asia Pacific (Tokyo)").check()
            visit.fill()
            # A waiting time is readable across origins, too.
            tokyo.throttle_next()
            stop_the_clock(visit)
            visit.submit()
            visit.expect_state("Throttled")
            expect(visit.page.locator("#notice")).to_contain_text("in 5 seconds.")
            visit.page.clock.run_for(5_000)
            visit.submit()
            visit.expect_state("registered")
            assert (len(tokyo.profiles()), ireland.profiles()) == (1, [])
            assert posts(ireland) == []


def test_one_region_is_no_choice(browse: Browse) -> None:
    regions = [{"label": "Europe (Ireland)", "registrationUrl": "register"}]
    with RegistrationServer(configuration=page_configuration(regions=regions)) as server:
        visit = browse()
        visit.arrive(server, server.new_token())
        expect(visit.page.get_by_role("radio")).to_have_count(0)
        visit.fill()
        visit.submit()
        visit.expect_state("registered")
