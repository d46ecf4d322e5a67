"""WCAG 2.2 AA: axe in every state, the keyboard alone, narrow screens, right to left, dark, forced colors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from sandbox.registration_server import RegistrationServer, page_configuration
from tests.browser.support import (
    BROWSER_TEST,
    EMAIL,
    PHONE,
    Browse,
    Visit,
    axe_source,
    hold_register,
    posts,
    sent,
)

pytestmark = list(BROWSER_TEST)

AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
REGIONS = [
    {"label": "Europe (Ireland)", "registrationUrl": "register"},
    {"label": "Asia Pacific (Tokyo)", "registrationUrl": "https://tokyo.example.com/v1/register"},
]


@pytest.fixture
def offering() -> Iterator[RegistrationServer]:
    """A deployment with everything that a page can show: a choice of Regions and a page to go on to."""
    configuration = page_configuration(
        regions=REGIONS,
        success_url="https://app.example.com/welcome",
        messages={"signInUrl": "https://app.example.com/sign-in"},
    )
    with RegistrationServer(configuration=configuration) as server:
        yield server


# ------------------------------------------------------------------ every state, by name


def _registered(visit: Visit, server: RegistrationServer) -> None:
    visit.register(server, server.new_token())


def _already(visit: Visit, server: RegistrationServer) -> None:
    visit.answer_register_with(200, '{"outcome":"already-registered"}')
    visit.register(server, server.new_token())


def _errors(visit: Visit, server: RegistrationServer) -> None:
    visit.arrive(server, server.new_token())
    visit.page.get_by_label("E-mail address").fill("buyer@")
    visit.page.get_by_label("Phone").fill("x")
    visit.submit()
    expect(visit.page.locator("#notice")).to_be_focused()


def _submitting(visit: Visit, server: RegistrationServer) -> None:
    hold_register(visit)
    visit.register(server, server.new_token())


def _throttled(visit: Visit, server: RegistrationServer) -> None:
    visit.page.clock.install()
    server.throttle_next()
    visit.register(server, server.new_token())
    expect(visit.page.get_by_role("button", name="Try again")).to_have_attribute("aria-disabled", "true")


def _direct(visit: Visit, server: RegistrationServer) -> None:
    visit.page.goto(server.url)


def _reloaded(visit: Visit, server: RegistrationServer) -> None:
    visit.arrive(server, server.new_token())
    visit.page.reload()


def _offline(visit: Visit, server: RegistrationServer) -> None:
    visit.page.route("**/register", lambda route: route.abort())
    visit.register(server, server.new_token())


def _answered(status: int, code: str) -> Callable[[Visit, RegistrationServer], None]:
    def reach(visit: Visit, server: RegistrationServer) -> None:
        visit.answer_register_with(status, f'{{"error":"{code}"}}')
        visit.register(server, server.new_token())

    return reach


STATES: dict[str, tuple[str, Callable[[Visit, RegistrationServer], None]]] = {
    "form": ("ready", lambda visit, server: visit.arrive(server, server.new_token())),
    "field errors": ("ready", _errors),
    "sending": ("submitting", _submitting),
    "registered": ("registered", _registered),
    "already registered": ("already-registered", _already),
    "expired link": ("ExpiredToken", _answered(400, "ExpiredToken")),
    "invalid link": ("InvalidToken", _answered(400, "InvalidToken")),
    "wrong product": ("WrongProduct", _answered(400, "WrongProduct")),
    "missing license": ("MissingLicense", _answered(400, "MissingLicense")),
    "throttled": ("Throttled", _throttled),
    "unavailable": ("Unavailable", _answered(503, "Unavailable")),
    "misconfigured": ("Misconfigured", _answered(500, "Misconfigured")),
    "malformed": ("MalformedRequest", _answered(400, "MalformedRequest")),
    "refused": ("Refused", _answered(403, "")),
    "too large": ("TooLarge", _answered(413, "TooLarge")),
    "offline": ("Offline", _offline),
    "no token": ("missing", _direct),
    "reloaded": ("reloaded", _reloaded),
}


def _axe(visit: Visit) -> dict[str, Any]:
    result: dict[str, Any] = visit.page.evaluate(
        "(tags) => axe.run(document, { runOnly: tags, resultTypes: ['violations', 'incomplete'] })", AXE_TAGS
    )
    return result


def _style(visit: Visit, selector: str, name: str) -> str:
    return str(
        visit.page.evaluate(
            "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]", [selector, name]
        )
    )


def _violations(visit: Visit) -> list[str]:
    return [
        f"{found['id']}: {node['html'][:200]} {node['failureSummary']}"
        for found in _axe(visit)["violations"]
        for node in found["nodes"]
    ]


@pytest.mark.parametrize("name", STATES)
def test_axe_finds_nothing_light_or_dark_wide_or_narrow(
    browse: Browse, offering: RegistrationServer, name: str
) -> None:
    state, reach = STATES[name]
    # No transition: axe would measure a color half-way.
    visit = browse(reduced_motion="reduce")
    visit.context.add_init_script(axe_source())
    reach(visit, offering)
    visit.expect_state(state)
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        for width in (1280, PHONE):
            visit.page.set_viewport_size({"width": width, "height": 800})
            assert _violations(visit) == [], f"{scheme}, {width}"
            assert visit.page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_axe_would_find_a_missing_label_and_a_faint_color(
    browse: Browse, offering: RegistrationServer
) -> None:
    visit = browse(reduced_motion="reduce")
    visit.context.add_init_script(axe_source())
    visit.arrive(offering, offering.new_token())
    visit.page.evaluate(
        """() => {
          document.querySelector("label[for=field-name]").remove();
          document.querySelector("h1").style.color = "#ccc";
        }"""
    )
    found = {each["id"] for each in _axe(visit)["violations"]}
    assert {"label", "color-contrast"} <= found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("accent", [("#ffe100", "#000000", "#ffe100"), ("#7a1fa2", "#ffffff", "#b37ac9")])
def test_contrast_holds_for_bright_and_dark_accents(
    browse: Browse, offering: RegistrationServer, accent: tuple[str, str, str], scheme: str
) -> None:
    for name, color in zip(("accent", "accent_text", "accent_dark"), accent, strict=True):
        offering.values[name] = color
    visit = browse(reduced_motion="reduce", color_scheme=scheme)
    visit.context.add_init_script(axe_source())
    visit.arrive(offering, offering.new_token())
    assert _violations(visit) == []


# ------------------------------------------------------------------ the keyboard


def test_the_whole_form_is_filled_and_sent_from_the_keyboard(
    browse: Browse, offering: RegistrationServer
) -> None:
    visit = browse()
    visit.arrive(offering, offering.new_token())
    keyboard = visit.page.keyboard
    visited: list[str] = []

    def tab() -> None:
        keyboard.press("Tab")
        visited.append(visit.focused())
        outline = visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", visited[-1]

    for typed in (EMAIL, "Mira Example", "", "+1 206 555 0100"):
        tab()
        keyboard.type(typed)
    tab()
    keyboard.press("p")
    tab()
    keyboard.type("two\nlines")
    tab()
    keyboard.press("Space")
    tab()
    keyboard.press("ArrowDown")
    keyboard.press("ArrowUp")
    tab()
    keyboard.press("Enter")
    visit.expect_state("registered")
    assert visited == [
        "field-email",
        "field-name",
        "field-company",
        "field-phone",
        "field-plan",
        "field-notes",
        "field-terms",
        "residency-0",
        "submit",
    ]
    assert sent(posts(offering)[0])["fields"] == {
        "email": EMAIL,
        "name": "Mira Example",
        "phone": "+1 206 555 0100",
        "plan": "priority",
        "notes": "two\nlines",
        "terms": True,
    }


def test_a_wrong_answer_is_found_and_mended_from_the_keyboard(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse(width=PHONE)
    visit.arrive(server, server.new_token())
    visit.fill()
    visit.page.get_by_label("E-mail address").fill("buyer@")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#notice")).to_be_focused()
    assert visit.page.evaluate("document.getElementById('notice').getBoundingClientRect().top") >= 0
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    assert visit.focused() == "field-email"
    visit.page.keyboard.press("End")
    visit.page.keyboard.type("example.com")
    visit.page.keyboard.press("Enter")
    visit.expect_state("registered")


def test_the_pressed_button_keeps_the_focus_while_the_page_sends(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.answer_register_with(503)
    visit.register(server, server.new_token())
    visit.expect_state("Unavailable")
    visit.page.get_by_role("button", name="Try again").focus()
    held = hold_register(visit)
    visit.page.keyboard.press("Enter")
    visit.expect_state("submitting")
    assert visit.focused() == "retry"
    held[0]()
    visit.expect_state("registered")


# ------------------------------------------------------------------ labels and hints


def test_fields_carry_their_type_hint_and_autofill_purpose(
    browse: Browse, server: RegistrationServer
) -> None:
    server.values["configuration"] = server.values["configuration"].replace(
        '"name":"company"', '"name":"companyName"'
    )
    visit = browse()
    visit.arrive(server, server.new_token())
    expected = {
        "email": ("email", "email"),
        "name": ("text", "name"),
        "companyName": ("text", "organization"),
        "phone": ("tel", "tel"),
    }
    for name, (kind, purpose) in expected.items():
        field = visit.page.locator(f"#field-{name}")
        expect(field).to_have_attribute("type", kind)
        expect(field).to_have_attribute("autocomplete", purpose)
    expect(visit.page.get_by_label("Company (optional)")).to_be_visible()
    expect(visit.page.get_by_label("Notes")).to_have_accessible_description("Up to 500 characters.")
    expect(visit.page.get_by_label("E-mail address")).to_have_attribute("required", "")
    assert visit.page.locator("[maxlength]").count() == 0


# ------------------------------------------------------------------ other ways to look at it


@pytest.mark.parametrize("width", [320, PHONE])
def test_a_right_to_left_page_is_mirrored_and_fits(browse: Browse, width: int) -> None:
    messages = {"residency": "أين تحفظ بياناتك؟", "Required": "{label}: مطلوب."}
    with RegistrationServer(
        configuration=page_configuration(locale="ar", regions=REGIONS, messages=messages)
    ) as server:
        visit = browse(width=width)
        visit.context.add_init_script(axe_source())
        visit.arrive(server, server.new_token())
        visit.submit()
        expect(visit.page.locator("#notice")).to_be_focused()
        assert visit.page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert _violations(visit) == []
        notice = [_style(visit, "#notice", f"border{side}Width") for side in ("Right", "Left")]
        assert notice == ["4px", "0px"]
        radio = visit.page.locator("#residency-0").bounding_box()
        label = visit.page.locator("label[for=residency-0]").bounding_box()
        assert radio is not None
        assert label is not None
        assert radio["x"] > label["x"] + label["width"] - 1
        # A Latin product name inside an Arabic sentence does not reorder it; English is marked as such.
        expect(visit.page.locator("#error-name")).to_have_text("\u2068Your name\u2069: مطلوب.")
        expect(visit.page.locator("#submit")).to_have_attribute("dir", "ltr")
        expect(visit.page.locator("legend")).not_to_have_attribute("dir", "ltr")
        expect(visit.page.locator("#field-email")).to_have_attribute("dir", "ltr")


def test_text_at_twice_its_size_still_fits_a_phone(browse: Browse, offering: RegistrationServer) -> None:
    visit = browse(width=PHONE)
    visit.arrive(offering, offering.new_token())
    visit.page.evaluate("document.documentElement.style.fontSize = '200%'")
    visit.submit()
    assert visit.page.evaluate("document.scrollingElement.scrollWidth") <= PHONE


def test_forced_colors_keep_edges_and_states_visible(browse: Browse, server: RegistrationServer) -> None:
    visit = browse(forced_colors="active")
    visit.arrive(server, server.new_token())
    visit.submit()
    expect(visit.page.locator("#notice")).to_be_focused()
    widths = [_style(visit, each, "borderTopWidth") for each in ("#submit", "#field-name", "#notice")]
    assert widths == ["2px", "3px", "1px"]


def test_nothing_moves_for_who_asked_for_less_motion(browse: Browse, server: RegistrationServer) -> None:
    durations = []
    for motion in ("reduce", "no-preference"):
        visit = browse(reduced_motion=motion)
        visit.arrive(server, server.new_token())
        durations.append(
            visit.page.evaluate("getComputedStyle(document.getElementById('submit')).transitionDuration")
        )
    assert durations == ["0s", "0.15s"]


# ------------------------------------------------------------------ without the script


def test_without_javascript_the_page_names_the_support(browse: Browse, server: RegistrationServer) -> None:
    visit = browse(java_script_enabled=False)
    visit.page.goto(server.page_url(server.new_token()))
    expect(visit.page.locator("noscript p")).to_be_visible()
    expect(visit.page.locator("noscript p")).to_contain_text("This page needs JavaScript.")
    expect(visit.page.locator("noscript a")).to_have_attribute("href", "mailto:support@example.com")
    expect(visit.page.get_by_role("heading", name="Example Analytics")).to_be_visible()


def test_a_script_that_does_not_load_leaves_a_hint_and_a_link_that_a_reload_can_use(
    browse: Browse, server: RegistrationServer
) -> None:
    visit = browse()
    visit.page.route("**/app.js", lambda route: route.abort(), times=1)
    visit.page.goto(server.page_url(server.new_token()))
    late = visit.page.locator(".late")
    expect(late).to_be_hidden()
    visit.page.evaluate("document.getAnimations().forEach((each) => each.finish())")
    expect(late).to_be_visible()
    visit.page.reload()
    visit.expect_state("ready")
