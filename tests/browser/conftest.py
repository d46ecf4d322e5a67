"""One Chromium for the package's tests, a fresh profile for each visit, and a server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from sandbox.find_chromium import FLAGS, chromium_path
from sandbox.registration_server import RegistrationServer
from tests.browser.support import Browse, MarketplaceSite, Visit


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The system's Chromium; without one, every test fails with the sentence that says what to install."""
    path = chromium_path()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def browse(browser: Browser) -> Iterator[Browse]:
    """Open tabs; at the end none of them may have broken the policy or raised a script error."""
    visits: list[Visit] = []

    def start(**options: Any) -> Visit:
        visits.append(Visit.start(browser, **options))
        return visits[-1]

    yield start
    for visit in visits:
        visit.context.close()
    for visit in visits:
        assert visit.violations == []
        assert visit.errors == []


@pytest.fixture
def server() -> Iterator[RegistrationServer]:
    """A deployment with the sandbox's form, one Region and no page to go on to."""
    with RegistrationServer() as running:
        yield running


@pytest.fixture
def marketplace() -> Iterator[MarketplaceSite]:
    """The other site: buyers come from it."""
    with MarketplaceSite() as running:
        yield running
