"""How the local cloud carries out what rules start: of one function a few at a time, and all in the end."""

from __future__ import annotations

import threading
import time
import types
from typing import Any

from sandbox.emulator_launcher import _DISPATCHED_AT_ONCE, Activity


def test_of_a_function_that_a_rule_starts_often_a_few_run_at_once_and_each_runs() -> None:
    started: list[str] = []
    go_on = threading.Event()

    def execute(function: dict[str, Any], _event: object) -> None:
        started.append(function["config"]["FunctionName"])
        go_on.wait(10)

    rules, lambdas = types.SimpleNamespace(threading=threading), types.SimpleNamespace(_esm_inflight={})
    lambdas._execute_function_with_config_scope = execute
    activity = Activity(lambda: 0.0)
    module: Any = rules
    activity.count_dispatches(module, lambdas)
    names = ["discoverer"] * (3 * _DISPATCHED_AT_ONCE) + ["submitter"]
    threads = [
        rules.threading.Thread(target=execute, args=({"config": {"FunctionName": name}}, {}), daemon=True)
        for name in names
    ]
    for thread in threads:
        thread.start()
    give_up = time.monotonic() + 10
    while len(started) < _DISPATCHED_AT_ONCE + 1 and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(0.05)

    # Another function does not wait for this one's, and who waits counts as under way.
    assert sorted(started) == ["discoverer"] * _DISPATCHED_AT_ONCE + ["submitter"]
    assert activity.invocations(lambdas) == len(names)

    go_on.set()
    for thread in threads:
        thread.join(10)
    assert sorted(started) == sorted(names)
    assert activity.invocations(lambdas) == 0
