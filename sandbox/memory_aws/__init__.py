"""DynamoDB and SQS in memory: strict, deterministic, metered, with hooks for faults.

A simulation runs the real code on these; ``tests/contract`` holds them to other implementations.
"""

from __future__ import annotations

from .client import Meter, aws_error, raise_aws_error
from .clock import ManualClock
from .dynamodb import DynamoDBClient, MemoryDynamoDB
from .sqs import Batch, Delivery, EventSource, MemorySQS, SQSClient
from .tables import Lag

__all__ = [
    "Batch",
    "Delivery",
    "DynamoDBClient",
    "EventSource",
    "Lag",
    "ManualClock",
    "MemoryDynamoDB",
    "MemorySQS",
    "Meter",
    "SQSClient",
    "aws_error",
    "raise_aws_error",
]
