"""``python -m sandbox.fake_marketplace``."""

from __future__ import annotations

import sys

from sandbox.fake_marketplace.server import main

if __name__ == "__main__":
    sys.exit(main())
