"""What the product relies on in SQS, asked of every implementation that tests run on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from .conftest import Aws

LIMIT = 1_048_576


def create(aws: Aws, name: str, **attributes: str) -> str:
    url: str = aws.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def receive(aws: Aws, url: str, **arguments: Any) -> list[dict[str, Any]]:
    answer = aws.sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
        **arguments,
    )
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return sorted(message["Body"] for message in messages)


def refusal(call: Callable[[], Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value


def entries(*contents: str) -> list[dict[str, Any]]:
    return [{"Id": str(number), "MessageBody": content} for number, content in enumerate(contents)]


def test_a_batch_is_received_with_its_attributes(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name)
    sent = aws.sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            *entries("first", "second"),
            {
                "Id": "attributed",
                "MessageBody": "third",
                "MessageAttributes": {"kind": {"DataType": "String", "StringValue": "x"}},
            },
        ],
    )
    assert {entry["Id"] for entry in sent["Successful"]} == {"0", "1", "attributed"}
    assert not sent.get("Failed")
    messages = receive(aws, url)
    assert bodies(messages) == ["first", "second", "third"]
    assert {message["Attributes"]["ApproximateReceiveCount"] for message in messages} == {"1"}
    third = next(message for message in messages if message["Body"] == "third")
    assert third["MessageAttributes"]["kind"]["StringValue"] == "x"


@pytest.mark.parametrize(
    ("batch", "exception"),
    [
        pytest.param([], "EmptyBatchRequest", id="empty"),
        pytest.param(entries(*"abcdefghijk"), "TooManyEntriesInBatchRequest", id="11-entries"),
        pytest.param([*entries("a"), *entries("b")], "BatchEntryIdsNotDistinct", id="equal-ids"),
        pytest.param([{"Id": "a b", "MessageBody": "a"}], "InvalidBatchEntryId", id="id-with-space"),
        pytest.param(
            entries("x" * (LIMIT // 2), "x" * (LIMIT // 2 + 1)), "BatchRequestTooLong", id="too-long"
        ),
    ],
)
def test_wrong_batches_are_refused_whole(
    aws: Aws, queue_name: str, batch: list[dict[str, Any]], exception: str
) -> None:
    url = create(aws, queue_name)
    error = refusal(lambda: aws.sqs.send_message_batch(QueueUrl=url, Entries=batch))
    assert isinstance(error, getattr(aws.sqs.exceptions, exception))
    assert receive(aws, url) == []


def test_a_batch_may_have_one_mebibyte_in_all(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name)
    sent = aws.sqs.send_message_batch(QueueUrl=url, Entries=entries("x" * (LIMIT // 2), "y" * (LIMIT // 2)))
    assert len(sent["Successful"]) == 2


def test_a_message_may_not_be_longer_than_one_mebibyte(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name)
    error = refusal(lambda: aws.sqs.send_message(QueueUrl=url, MessageBody="x" * (LIMIT + 1)))
    assert error.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_received_message_is_hidden_until_its_visibility_timeout_ends(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name, VisibilityTimeout="1")
    aws.sqs.send_message(QueueUrl=url, MessageBody="a")
    first = receive(aws, url)
    assert bodies(first) == ["a"]
    assert receive(aws, url) == []
    aws.wait(1.2)
    again = receive(aws, url)
    assert [message["Attributes"]["ApproximateReceiveCount"] for message in again] == ["2"]
    assert again[0]["ReceiptHandle"] != first[0]["ReceiptHandle"]
    assert again[0]["MessageId"] == first[0]["MessageId"]


def test_a_deleted_message_stays_away(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name, VisibilityTimeout="1")
    aws.sqs.send_message_batch(QueueUrl=url, Entries=entries("a", "b"))
    handles = {message["Body"]: message["ReceiptHandle"] for message in receive(aws, url)}
    deleted = aws.sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": handles["a"]}])
    assert [entry["Id"] for entry in deleted["Successful"]] == ["a"]
    aws.sqs.delete_message(QueueUrl=url, ReceiptHandle=handles["a"])
    aws.wait(1.2)
    assert bodies(receive(aws, url)) == ["b"]


def test_visibility_can_be_given_back_and_prolonged(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name, VisibilityTimeout="30")
    aws.sqs.send_message(QueueUrl=url, MessageBody="a")
    handle = receive(aws, url)[0]["ReceiptHandle"]
    aws.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    (message,) = receive(aws, url, VisibilityTimeout=1)
    aws.sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=60
    )
    aws.wait(1.2)
    assert receive(aws, url) == []


def test_a_delayed_message_appears_later(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name, DelaySeconds="1")
    aws.sqs.send_message(QueueUrl=url, MessageBody="queue's delay")
    aws.sqs.send_message(QueueUrl=url, MessageBody="own delay", DelaySeconds=0)
    assert bodies(receive(aws, url)) == ["own delay"]
    aws.wait(1.2)
    assert bodies(receive(aws, url)) == ["queue's delay"]


def test_a_message_received_too_often_moves_to_the_dead_letter_queue(aws: Aws, queue_name: str) -> None:
    dead = create(aws, queue_name + "-dlq")
    dead_arn = aws.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    url = create(
        aws,
        queue_name,
        VisibilityTimeout="0",
        RedrivePolicy=json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2}),
    )
    sent = aws.sqs.send_message(QueueUrl=url, MessageBody="poison")["MessageId"]
    assert [bodies(receive(aws, url)) for _ in range(3)] == [["poison"], ["poison"], []]
    (message,) = receive(aws, dead)
    assert message["Body"] == "poison"
    assert message["MessageId"] == sent
    counts = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    assert counts["Attributes"] == {"ApproximateNumberOfMessages": "0"}


def test_counts_tell_visible_from_hidden(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name)
    aws.sqs.send_message_batch(QueueUrl=url, Entries=entries("a", "b", "c"))
    aws.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    counts = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert [counts[name] for name in names] == ["2", "1"]


def test_a_queue_is_found_by_its_name(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name)
    assert aws.sqs.get_queue_url(QueueName=queue_name)["QueueUrl"] == url


def test_an_absent_queue_is_the_modeled_exception_under_its_older_code(aws: Aws, queue_name: str) -> None:
    error = refusal(lambda: aws.sqs.get_queue_url(QueueName=queue_name))
    assert isinstance(error, aws.sqs.exceptions.QueueDoesNotExist)
    assert error.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_nonsense_receipt_handle_is_refused(aws: Aws, queue_name: str) -> None:
    url = create(aws, queue_name)
    error = refusal(lambda: aws.sqs.delete_message(QueueUrl=url, ReceiptHandle="nonsense"))
    assert isinstance(error, aws.sqs.exceptions.ReceiptHandleIsInvalid)
