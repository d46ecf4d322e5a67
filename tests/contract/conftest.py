"""One behaviour suite, three implementations of DynamoDB and SQS: ours in memory, moto and MiniStack."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws

from sandbox.emulator import Emulator, emulator
from sandbox.memory_aws import ManualClock, MemoryDynamoDB, MemorySQS

from .deviations import DEVIATIONS

KEY = "licenseArn"
SORT = "customerAWSAccountId#dimension#timestamp"


@dataclass(frozen=True, slots=True)
class Aws:
    """The clients of one implementation, and how to let ``seconds`` go by in it."""

    name: str
    dynamodb: Any
    sqs: Any
    wait: Callable[[float], None]


@pytest.fixture(scope="session")
def emulator_server() -> Iterator[Emulator]:
    """The emulator, started once per session and stopped by its pid."""
    with emulator() as running:
        yield running


def _memory(_: pytest.FixtureRequest) -> Iterator[Aws]:
    clock = ManualClock()
    yield Aws(
        "memory",
        MemoryDynamoDB(clock).client(strict_parameters=True),
        MemorySQS(clock).client(strict_parameters=True),
        clock.sleep,
    )


@pytest.fixture(scope="session")
def moto_clients() -> dict[str, Any]:
    """Clients that moto answers while its mock is on; made once, they are what is slow."""
    return {
        service: boto3.client(
            service, region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        for service in ("dynamodb", "sqs")
    }


@pytest.fixture(scope="session")
def emulator_clients(emulator_server: Emulator) -> Iterator[dict[str, Any]]:
    """Clients of the emulator."""
    clients = {service: emulator_server.client(service) for service in ("dynamodb", "sqs")}
    yield clients
    for client in clients.values():
        client.close()


def _moto(request: pytest.FixtureRequest) -> Iterator[Aws]:
    clients = request.getfixturevalue("moto_clients")
    with mock_aws():
        yield Aws("moto", clients["dynamodb"], clients["sqs"], time.sleep)


def _ministack(request: pytest.FixtureRequest) -> Iterator[Aws]:
    clients = request.getfixturevalue("emulator_clients")
    yield Aws("ministack", clients["dynamodb"], clients["sqs"], time.sleep)


_BACKENDS = {"memory": _memory, "moto": _moto, "ministack": _ministack}


@pytest.fixture(params=["memory", "moto", pytest.param("ministack", marks=pytest.mark.emulator)])
def aws(request: pytest.FixtureRequest) -> Iterator[Aws]:
    """Each implementation in turn."""
    yield from _BACKENDS[request.param](request)


def _in_a_line(failure: pytest.ExceptionInfo[BaseException]) -> str:
    return failure.exconly()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what an implementation is known to get wrong, strictly: a repaired one must be noticed."""
    shown = config.option.runxfail or config.option.xfail_tb
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or "aws" not in callspec.params:
            continue
        backend = callspec.params["aws"]
        case = item.name.replace(f"[{backend}]", "").replace(f"[{backend}-", "[")
        reason = DEVIATIONS.get((backend, case))
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=f"{backend}: {reason}", strict=True))
            if not shown:
                # Nobody sees its traceback, and to lay one out takes longer than the test.
                setattr(item, "repr_failure", _in_a_line)  # noqa: B010


_numbers = itertools.count(1)


@pytest.fixture
def table(aws: Aws) -> str:
    """A fresh table in the shape of the usage table, with one index of each projection type."""
    name = f"usage-{next(_numbers)}"
    kinds = {
        KEY: "S",
        SORT: "S",
        "meteringPending": "S",
        "customerAWSAccountId": "S",
        "dimension": "S",
        "rank": "N",
    }
    aws.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": kind} for attribute, kind in kinds.items()
        ],
        KeySchema=_keys(KEY, SORT),
        GlobalSecondaryIndexes=[
            {
                "IndexName": "metering_pending",
                "KeySchema": _keys("meteringPending", KEY),
                "Projection": {
                    "ProjectionType": "INCLUDE",
                    "NonKeyAttributes": ["customerAWSAccountId", "dimension"],
                },
            },
            {
                "IndexName": "by_customer",
                "KeySchema": _keys("customerAWSAccountId"),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
            {
                "IndexName": "by_dimension",
                "KeySchema": _keys("dimension", "rank"),
                "Projection": {"ProjectionType": "ALL"},
            },
        ],
    )
    return name


def _keys(hash_key: str, range_key: str | None = None) -> list[dict[str, str]]:
    keys = [{"AttributeName": hash_key, "KeyType": "HASH"}]
    if range_key is not None:
        keys.append({"AttributeName": range_key, "KeyType": "RANGE"})
    return keys


@pytest.fixture
def numbered_table(aws: Aws) -> str:
    """A fresh table with a number as its sort key."""
    name = f"numbered-{next(_numbers)}"
    aws.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "p", "AttributeType": "S"},
            {"AttributeName": "n", "AttributeType": "N"},
        ],
        KeySchema=_keys("p", "n"),
    )
    return name


@pytest.fixture
def queue_name() -> str:
    """A queue name that no other test uses."""
    return f"work-{next(_numbers)}"
