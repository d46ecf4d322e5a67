"""Find the Chromium that the browser tests and the screenshots use: the operating system's, never a download.

``python -m sandbox.find_chromium`` prints its path, or says in one sentence what to install and ends with 1.
"""

from __future__ import annotations

import shutil
import sys
from typing import Final

#: Names under which distributions install it, the first that is found counts.
NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")

#: What Playwright disables by default. The last list that Chromium is given replaces those before it, so a
#: list of our own has to repeat this one; a test compares it with what Playwright passes.
PLAYWRIGHT_DISABLES: Final = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
    "msForceBrowserSignIn",
    "msEdgeUpdateLaunchServicesPreferredVersion",
)

#: Of the browser around the page, what costs more than the page itself: the suggestions below the address
#: bar are two web applications in a process of their own for each profile, and a renderer is kept in reserve.
UNSEEN: Final = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess")

#: Headless in a container, and silent: nothing is fetched, updated or reported beside the pages under test.
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(PLAYWRIGHT_DISABLES + UNSEEN)}",
)

MISSING: Final = (
    "No Chromium was found, which the browser tests need: install it with "
    "`apt-get update && apt-get install --yes chromium` (or your system's package of that name)."
)


class ChromiumMissing(Exception):
    """There is no Chromium on PATH; the message says what to install."""


def chromium_path() -> str:
    """Return the browser's path.

    Raises
    ------
    ChromiumMissing
        None of ``NAMES`` is on PATH.
    """
    for name in NAMES:
        path = shutil.which(name)
        if path is not None:
            return path
    raise ChromiumMissing(MISSING)


def main() -> int:
    """Print the path; return the process's exit code."""
    try:
        print(chromium_path())
    except ChromiumMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
