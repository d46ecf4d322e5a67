"""A stand-in for AWS Marketplace Metering that enforces the service's rules and remembers everything.

``FakeMarketplace`` is the engine; ``InProcessMarketplaceClient`` calls it with boto3's method surface;
``python -m sandbox.fake_marketplace`` serves it to unmodified boto3 clients.
"""

from __future__ import annotations

from sandbox.fake_marketplace.client import InProcessMarketplaceClient
from sandbox.fake_marketplace.engine import FakeMarketplace, Reply
from sandbox.fake_marketplace.errors import Code, Status
from sandbox.fake_marketplace.faults import Fault, FaultRates, Lost, Moment, RecordEffect
from sandbox.fake_marketplace.history import Attempt, HonouredRecord, RecordOutcome, RequestEntry
from sandbox.fake_marketplace.registry import Subscription
from sandbox.fake_marketplace.settings import Settings

__all__ = [
    "Attempt",
    "Code",
    "FakeMarketplace",
    "Fault",
    "FaultRates",
    "HonouredRecord",
    "InProcessMarketplaceClient",
    "Lost",
    "Moment",
    "RecordEffect",
    "RecordOutcome",
    "Reply",
    "RequestEntry",
    "Settings",
    "Status",
    "Subscription",
]
