"""How the tests' Chromium is started: what Playwright switches off stays off."""

from __future__ import annotations

import shlex

from playwright.sync_api import Browser

from sandbox.find_chromium import UNSEEN
from tests.browser.support import BROWSER_TEST

pytestmark = list(BROWSER_TEST)

SWITCH = "--disable-features="


def test_the_list_of_features_that_counts_leaves_out_none_that_playwright_disables(browser: Browser) -> None:
    session = browser.new_browser_cdp_session()
    command_line = shlex.split(session.send("SystemInfo.getInfo")["commandLine"])
    session.detach()
    lists = [set(each.removeprefix(SWITCH).split(",")) for each in command_line if each.startswith(SWITCH)]

    assert len(lists) == 2
    playwrights, last = lists
    assert last == playwrights | set(UNSEEN)
