"""What only the in-memory SQS does: seeded disorder, faults, and a simulated event source mapping."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sandbox.memory_aws import Delivery, EventSource, ManualClock, MemorySQS, SQSClient, raise_aws_error


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backend(clock: ManualClock) -> MemorySQS:
    return MemorySQS(clock, seed=3)


@pytest.fixture
def client(backend: MemorySQS) -> SQSClient:
    return backend.client()


@pytest.fixture
def url(client: SQSClient) -> str:
    client.create_queue(QueueName="dead")
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:dead", "maxReceiveCount": 3}
    created: str = client.create_queue(
        QueueName="work", Attributes={"VisibilityTimeout": "60", "RedrivePolicy": json.dumps(policy)}
    )["QueueUrl"]
    return created


def send(client: SQSClient, url: str, *contents: str) -> None:
    for content in contents:
        client.send_message(QueueUrl=url, MessageBody=content)


def contents(event: Mapping[str, Any]) -> list[str]:
    return [record["body"] for record in event["Records"]]


def test_an_event_has_the_form_that_lambda_passes(client: SQSClient, url: str, clock: ManualClock) -> None:
    send(client, url, "hello")
    batch = EventSource(client, url).receive()
    assert batch is not None
    (record,) = batch.event["Records"]
    sent = str(int(clock.now().timestamp() * 1000))
    assert record["attributes"] == {
        "ApproximateReceiveCount": "1",
        "ApproximateFirstReceiveTimestamp": sent,
        "SentTimestamp": sent,
        "SenderId": "AIDAEXAMPLE",
    }
    assert record["md5OfBody"] == "5d41402abc4b2a76b9719d911017c592"
    assert (record["eventSource"], record["awsRegion"]) == ("aws:sqs", "us-east-1")
    assert record["eventSourceARN"] == "arn:aws:sqs:us-east-1:123456789012:work"
    assert batch.handles == {record["messageId"]: record["receiptHandle"]}


def test_only_failed_messages_come_back_and_at_last_reach_the_dead_letter_queue(
    client: SQSClient, url: str, clock: ManualClock
) -> None:
    send(client, url, "good", "poison")
    seen: list[list[str]] = []

    def function(event: dict[str, Any]) -> dict[str, Any]:
        seen.append(contents(event))
        failed = [record["messageId"] for record in event["Records"] if record["body"] == "poison"]
        return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in failed]}

    source = EventSource(client, url)
    for _ in range(4):
        source.drain(function)
        clock.sleep(60)
    assert seen == [["good", "poison"], ["poison"], ["poison"]]
    assert client.backend.bodies("work") == []
    assert client.backend.bodies("dead") == ["poison"]


@pytest.mark.parametrize("identifier", ["", "unknown"])
def test_a_failure_that_names_no_message_fails_the_whole_batch(
    client: SQSClient, url: str, identifier: str
) -> None:
    send(client, url, "a", "b")
    source = EventSource(client, url)
    source.drain(lambda event: {"batchItemFailures": [{"itemIdentifier": identifier}]})
    assert client.backend.bodies("work") == ["a", "b"]


@pytest.mark.parametrize("response", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}])
def test_an_answer_without_failures_is_a_success(
    client: SQSClient, url: str, response: dict[str, Any] | None
) -> None:
    send(client, url, *(f"{number}" for number in range(25)))
    assert EventSource(client, url, batch_size=20).drain(lambda event: response) == 2
    assert client.backend.bodies("work") == []


def test_a_function_that_raises_leaves_its_batch_hidden(
    client: SQSClient, url: str, clock: ManualClock
) -> None:
    send(client, url, "a")

    def crash(event: dict[str, Any]) -> None:
        raise ZeroDivisionError

    source = EventSource(client, url)
    with pytest.raises(ZeroDivisionError):
        source.drain(crash)
    assert source.receive() is None
    clock.sleep(60)
    again = source.receive()
    assert again is not None
    assert again.event["Records"][0]["attributes"]["ApproximateReceiveCount"] == "2"


def test_an_endless_queue_is_noticed(client: SQSClient) -> None:
    url = client.create_queue(QueueName="endless", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
    send(client, url, "a")
    with pytest.raises(RuntimeError, match="visible messages"):
        EventSource(client, url).drain(
            lambda event: {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]},
            max_batches=5,
        )


def test_duplicates_are_delivered_again_though_hidden(
    backend: MemorySQS, client: SQSClient, url: str
) -> None:
    send(client, url, "a")
    backend.delivery = Delivery(duplicate=1.0)
    first = client.receive_message(QueueUrl=url)["Messages"][0]
    backend.delivery = Delivery()
    second = client.receive_message(QueueUrl=url)["Messages"][0]
    assert first["MessageId"] == second["MessageId"]
    client.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    assert backend.bodies("work") == ["a"]
    client.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    assert backend.bodies("work") == []


def test_disorder_is_seeded(clock: ManualClock) -> None:
    def order(seed: int) -> list[str]:
        client = MemorySQS(clock, seed=seed, delivery=Delivery(reorder=True)).client()
        url = client.create_queue(QueueName="work")["QueueUrl"]
        send(client, url, *"abcdefgh")
        return [
            message["Body"]
            for message in client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        ]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list("abcdefgh")


def test_delayed_messages_arrive_in_the_end(
    backend: MemorySQS, client: SQSClient, url: str, clock: ManualClock
) -> None:
    backend.delivery = Delivery(delay=1.0, delay_seconds=100)
    send(client, url, "a", "b")
    assert "Messages" not in client.receive_message(QueueUrl=url)
    clock.sleep(100)
    assert len(client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]) == 2


def test_messages_are_dropped_after_their_retention(client: SQSClient, url: str, clock: ManualClock) -> None:
    send(client, url, "a")
    clock.sleep(345_601)
    assert "Messages" not in client.receive_message(QueueUrl=url)
    assert client.backend.bodies("work") == []


def test_entries_of_a_batch_can_fail_alone(backend: MemorySQS, url: str) -> None:
    faulty = backend.client(
        entry_fault=lambda operation, position: "InternalError" if position == 1 else None
    )
    answer = faulty.send_message_batch(
        QueueUrl=url, Entries=[{"Id": content, "MessageBody": content} for content in "abc"]
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["a", "c"]
    assert answer["Failed"] == [
        {"Id": "b", "SenderFault": False, "Code": "InternalError", "Message": "Injected fault"}
    ]
    assert backend.bodies("work") == ["a", "c"]


def test_a_lost_response_leaves_the_message_sent(backend: MemorySQS, url: str) -> None:
    def lose(service: str, operation: str, kwargs: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        raise_aws_error(service, operation, "ServiceUnavailable", "lost")

    faulty = backend.client(after_call=lose)
    with pytest.raises(faulty.exceptions.ClientError):
        send(faulty, url, "a")
    assert backend.bodies("work") == ["a"]


def test_what_is_not_simulated_says_so(client: SQSClient) -> None:
    with pytest.raises(NotImplementedError, match="FifoQueue"):
        client.create_queue(QueueName="work.fifo", Attributes={"FifoQueue": "true"})
