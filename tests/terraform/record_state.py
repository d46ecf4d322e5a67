"""Record the state of a release, for the upgrade tests: ``python -m tests.terraform.record_state VERSION``.

Applies the examples ``registration`` and ``notifications`` of this checkout (between them every module that
has a table) on the local emulator and writes ``tests/terraform/states/<VERSION>/<example>.tfstate.json``. Run
it once for each release, from the release's own commit: a file that is there is left as it is, because it
says what users of that version have.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

from sandbox.emulator import emulator
from tests.terraform.tool import Terraform, Values, copy_repository

STATES = Path(__file__).parent / "states"
EXAMPLES = ("registration", "notifications")
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
    """Apply the examples that are not recorded yet and write their states.

    Raises SystemExit when all are.
    """
    targets = {name: STATES / version / f"{name}.tfstate.json" for name in EXAMPLES}
    missing = {name: target for name, target in targets.items() if not target.exists()}
    if not missing:
        raise SystemExit(f"{version} is recorded: {', '.join(EXAMPLES)}. A release is recorded once.")
    with tempfile.TemporaryDirectory() as directory, emulator() as cloud:
        terraform = Terraform(Path(directory) / "config")
        checkout = copy_repository(Path(directory) / "checkout")
        for name, target in missing.items():
            root = checkout / "examples" / name
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
            # The next example makes tables of the same names.
            cloud.reset()


if __name__ == "__main__":
    main(*sys.argv[1:])
