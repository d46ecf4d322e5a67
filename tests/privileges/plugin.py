"""Judges a test run by its AWS calls: none that a role does not allow, none allowed that nothing needs.

A call that is not allowed fails the test that made it. Whether everything allowed was used is known only
at the end of a run of everything: the workers hand their calls to the controller, which fails the run.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.privileges.judging import Judgement, Roles
from tests.privileges.recording import RecordedCall, Recorder

JUDGE_UNUSED: Final = "--judge-unused-permissions"

_KEY: Final = "aws_calls"


def is_whole(config: pytest.Config) -> bool:
    """Tell whether this run has every test of the suite."""
    option = config.option
    return (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and not option.markexpr
        and not option.keyword
        and not option.deselect
        and not getattr(option, "lf", False)
        and not option.collectonly
    )


class Privileges:
    """Records in each worker, judges each test there and the whole run in the controller."""

    def __init__(self, roles: Roles, recorder: Recorder, *, judge_unused: bool) -> None:
        """``judge_unused`` judges what was never used, at the end."""
        self.roles = roles
        self.recorder = recorder
        self.judge_unused = judge_unused
        self.judgement = Judgement()
        self._judged: frozenset[RecordedCall] = frozenset()
        self._crashed = False
        self._complete = False

    # Not earlier: what is imported before the coverage begins is not covered.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Have the handlers record."""
        self.recorder.install(self.roles.functions())

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        """Fail the test in which a function asked for what its role does not allow."""
        if len(self.recorder.calls) == len(self._judged):
            return
        fresh = self.recorder.calls - self._judged
        self._judged = frozenset(self.recorder.calls)
        refused = Judgement(self.roles.not_allowed(fresh))
        if refused.not_allowed:
            pytest.fail("\n".join(refused.lines()), pytrace=False)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over the calls of a worker; one that crashed has none to give, and has failed the run."""
        self.take(getattr(node, "workeroutput", {}).get(_KEY, "[]"))
        self._crashed |= error is not None

    def take(self, calls: str) -> None:
        """Add calls that another process has recorded, as JSON."""
        for function, deployment, action, resource, context in json.loads(calls):
            pairs = tuple((key, value) for key, value in context)
            self.recorder.calls.add(RecordedCall(function, deployment, action, resource, pairs))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the calls to the controller, or judge them all."""
        worker: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if worker is not None:
            worker[_KEY] = json.dumps(sorted(self.recorder.calls))
            return
        self._complete = not (session.testsfailed or session.shouldstop or self._crashed)
        self.judgement = self.judge(complete=self._complete)
        if self.judgement.lines() and session.exitstatus in {
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        }:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def judge(self, *, complete: bool) -> Judgement:
        """Judge what was recorded; a run that broke off says nothing of what was never used."""
        calls = self.recorder.calls
        unused = self.roles.never_used(calls) if self.judge_unused and complete else frozenset()
        return Judgement(self.roles.not_allowed(calls), unused)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what is wrong, and what a whole run was held against."""
        lines = self.judgement.lines()
        if lines:
            terminalreporter.section("permissions of the functions", red=True)
        elif self.judge_unused:
            terminalreporter.section("permissions of the functions")
            never_used = "0 allowed and never used" if self._complete else "what was never used is not judged"
            lines = [f"{len(self.recorder.calls)} kinds of call: 0 not allowed, {never_used}"]
        for line in lines:
            terminalreporter.write_line(line)
