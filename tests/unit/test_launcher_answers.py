"""What Terraform sends again is answered as the first time, and carried out once."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from sandbox.emulator_launcher import AnsweredOnce

TERRAFORM = "APN/1.0 HashiCorp/1.0 Terraform/1.11.4"
Message = MutableMapping[str, Any]


class Gateway:
    """Answers the number of the request, with the status that is next; may be held up."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.handled = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.handled += 1
        number = self.handled
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": self.statuses.pop(0), "headers": []})
        await send({"type": "http.response.body", "body": str(number).encode()})


async def ask(gateway: AnsweredOnce, call: str, agent: str = TERRAFORM) -> tuple[int, bytes]:
    """Send one attempt of a call; return its answer."""
    answer: list[Message] = []

    async def send(message: Message) -> None:
        answer.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    headers = [(b"user-agent", agent.encode()), (b"amz-sdk-invocation-id", call.encode())]
    await gateway({"type": "http", "headers": headers}, receive, send)
    start, body = answer
    return start["status"], body["body"]


def test_a_call_that_was_carried_out_is_answered_again_as_the_first_time() -> None:
    async def play() -> None:
        gateway = Gateway(201, 200)
        once = AnsweredOnce(gateway, b"Terraform")
        assert await ask(once, "a") == (201, b"1")
        assert await ask(once, "a") == (201, b"1")
        assert await ask(once, "b") == (200, b"2")
        assert (gateway.handled, once.repeated) == (2, 1)

    asyncio.run(play())


def test_a_call_that_comes_again_while_it_is_carried_out_waits_for_that_answer() -> None:
    async def play() -> None:
        gateway = Gateway(201)
        once = AnsweredOnce(gateway, b"Terraform")
        gateway.go_on.clear()
        first = asyncio.create_task(ask(once, "a"))
        await asyncio.sleep(0)
        again = asyncio.create_task(ask(once, "a"))
        await asyncio.sleep(0)
        gateway.go_on.set()
        assert [await first, await again] == [(201, b"1"), (201, b"1")]
        assert gateway.handled == 1

    asyncio.run(play())


@pytest.mark.parametrize("refused", [400, 409, 429, 500])
def test_a_refused_call_is_tried_anew(refused: int) -> None:
    async def play() -> None:
        once = AnsweredOnce(Gateway(refused, 200), b"Terraform")
        assert await ask(once, "a") == (refused, b"1")
        assert await ask(once, "a") == (200, b"2")

    asyncio.run(play())


def test_a_call_that_the_gateway_never_answered_is_tried_anew() -> None:
    async def play() -> None:
        gateway = Gateway()
        once = AnsweredOnce(gateway, b"Terraform")
        with pytest.raises(IndexError):
            await ask(once, "a")
        gateway.statuses = [200]
        assert await ask(once, "a") == (200, b"2")

    asyncio.run(play())


def test_every_call_of_a_function_is_carried_out_whatever_its_id() -> None:
    async def play() -> None:
        gateway = Gateway(200, 200)
        once = AnsweredOnce(gateway, b"Terraform")
        for number in (b"1", b"2"):
            assert await ask(once, "a", "Boto3/1.40 md/Botocore") == (200, number)

    asyncio.run(play())
