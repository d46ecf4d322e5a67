"""Record the state of a release, for the upgrade tests: ``python -m tests.terraform.record_state VERSION``.

Applies ``examples/registration`` (every module that has a table) of this checkout on the local emulator and
writes ``tests/terraform/states/<VERSION>/registration.tfstate.json``. Run it once for each release, from the
release's own commit, and never again for the same version: the file says what users of it have.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from sandbox.emulator import emulator
from tests.terraform.tool import REPOSITORY, Terraform, Values, copy_repository

STATES = Path(__file__).parent / "states"
EXAMPLE = "registration"
ACCOUNT = "111122223333"


def cleaned(text: str, checkout: Path) -> Values:
    """Return a state without what belongs to one machine or one run.

    Raises ValueError when a path of the checkout or of the emulator is left.
    """
    text = re.sub(r"https?://(127\.0\.0\.1|localhost):\d+", "https://sqs.us-east-1.amazonaws.com", text)
    if str(checkout) in text or "127.0.0.1" in text or "localhost" in text:
        raise ValueError("the state names this machine; extend the cleaning")
    state: Values = json.loads(text)
    for resource in state["resources"]:
        for instance in resource["instances"]:
            # What the provider keeps for itself: time-outs of the resource, no meaning for a plan.
            instance.pop("private", None)
    return state | {"lineage": "00000000-0000-0000-0000-000000000000"}


def main(version: str) -> None:
    """Apply the example and write its state."""
    target = STATES / version / f"{EXAMPLE}.tfstate.json"
    if target.exists():
        raise SystemExit(f"{target.relative_to(REPOSITORY)} exists: a release is recorded once.")
    with tempfile.TemporaryDirectory() as directory, emulator() as cloud:
        terraform = Terraform(Path(directory) / "config")
        checkout = copy_repository(Path(directory) / "checkout")
        root = checkout / "examples" / EXAMPLE
        terraform.init(root)
        environment = {
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_ENDPOINT_URL": cloud.endpoint,
            "AWS_SECRET_ACCESS_KEY": "none",
        }
        terraform.apply(root, environment=environment)
        state = cleaned((root / "terraform.tfstate").read_text(), checkout)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(state, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
