"""The launcher of the local emulator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sandbox.emulator import PYTHON_VARIABLE, EmulatorUnavailable, emulator, emulator_python


def test_a_missing_interpreter_is_named_with_the_remedy(tmp_path: Path) -> None:
    absent = tmp_path / "python"
    with pytest.raises(EmulatorUnavailable) as caught:
        emulator_python({PYTHON_VARIABLE: str(absent)})
    assert str(absent) in str(caught.value)
    assert "make setup" in str(caught.value)
    assert PYTHON_VARIABLE in str(caught.value)


def test_an_interpreter_can_be_chosen() -> None:
    assert emulator_python({PYTHON_VARIABLE: sys.executable}) == Path(sys.executable)


def test_an_emulator_that_ends_at_once_reports_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    with (
        pytest.raises(EmulatorUnavailable, match="no such port"),
        emulator(command=("-c", "raise SystemExit('no such port')")),
    ):
        pytest.fail("it must not come up")


@pytest.mark.emulator
def test_the_emulator_runs_only_inside_its_block() -> None:
    with emulator(environment={"MINISTACK_ACCOUNT_ID": "111122223333"}) as running:
        client = running.client("sqs")
        client.create_queue(QueueName="work")
        running.reset()
        assert not client.list_queues().get("QueueUrls")
        client.close()
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)
