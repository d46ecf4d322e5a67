"""Write an offline plan of an example as JSON: ``python -m tests.terraform.example_plan NAME FILE``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.terraform.tool import Terraform, copy_repository, go_offline


def main(name: str, file: str) -> None:
    """Plan ``examples/<name>`` in a copy of the repository and write the plan to ``file``."""
    with tempfile.TemporaryDirectory() as directory:
        terraform = Terraform(Path(directory) / "config")
        root = copy_repository(Path(directory) / "checkout") / "examples" / name
        go_offline(root)
        terraform.init(root)
        plan = terraform.plan(root)
    target = Path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(plan))


if __name__ == "__main__":
    main(*sys.argv[1:])
