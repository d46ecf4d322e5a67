"""Take the documentation's pictures of the registration page, from the real handlers and with invented data.

``python -m sandbox.screenshots`` writes ``docs/images/registration-*.png``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, sync_playwright

from sandbox.find_chromium import FLAGS, chromium_path
from sandbox.registration_server import RegistrationServer, page_configuration

#: Largest picture, in bytes: each of them is in every clone.
MAX_BYTES: Final = 120_000

_FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
_DESKTOP: Final = 800
_PHONE: Final = 360
_REGIONS: Final = (
    {"label": "Europe (Ireland)", "registrationUrl": "register"},
    {"label": "Asia Pacific (Tokyo)", "registrationUrl": "https://tokyo.example.com/v1/register"},
)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: its name, how the page gets there, and what it is looked at with.

    ``height`` None shows the whole page.
    """

    name: str
    reach: Callable[[Page, RegistrationServer], None]
    width: int = _DESKTOP
    scheme: Literal["dark", "light"] = "light"
    height: int | None = None


def _form(page: Page, server: RegistrationServer) -> None:
    page.goto(server.page_url(server.new_token()))
    page.get_by_label("E-mail address").fill("mira@invented.example")
    page.get_by_label("Your name").fill("Mira Invented")
    page.get_by_label("Company").fill("Invented Instruments")
    page.get_by_label("Phone").fill("+1 206 555 0100")
    page.get_by_label("Support plan").select_option("priority")
    page.get_by_label("I accept the terms").check()
    page.get_by_label("I accept the terms").blur()


def _errors(page: Page, server: RegistrationServer) -> None:
    _form(page, server)
    page.get_by_label("E-mail address").fill("mira@")
    page.get_by_label("Phone").fill("call me")
    page.locator("#submit").click()
    page.locator("#notice").wait_for()


def _success(page: Page, server: RegistrationServer) -> None:
    _form(page, server)
    page.locator("#submit").click()
    page.locator("[data-state=registered]").wait_for()


PICTURES: Final = (
    Picture("form", _form),
    Picture("phone", _form, width=_PHONE),
    Picture("error", _errors, height=860),
    Picture("success", _success),
    Picture("dark", _form, scheme="dark"),
)


def take(browser: Browser, picture: Picture, server: RegistrationServer) -> bytes:
    """Return the picture as PNG."""
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height or 600},
        color_scheme=picture.scheme,
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        picture.reach(page, server)
        return page.screenshot(full_page=picture.height is None, animations="disabled")
    finally:
        context.close()


def main() -> None:
    """Write every picture; fails where one is too large."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    configuration = page_configuration(regions=_REGIONS, success_url="https://app.example.com/welcome")
    with sync_playwright() as playwright, RegistrationServer(configuration=configuration) as server:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        for picture in PICTURES:
            content = take(browser, picture, server)
            if len(content) > MAX_BYTES:
                raise SystemExit(f"{picture.name} has {len(content)} bytes, more than {MAX_BYTES}")
            path = _FOLDER / f"registration-{picture.name}.png"
            path.write_bytes(content)
            print(f"{path.name}: {len(content) / 1000:.0f} KB")
        browser.close()


if __name__ == "__main__":
    main()
