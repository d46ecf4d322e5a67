"""The engine: AWS Marketplace Metering as a plain Python object with a clock of the caller's choice.

Requests and answers are in wire form (what the JSON body holds); the HTTP server and the in-process client
translate. Nothing here reads a wall clock or draws an unseeded random number, so equal calls at equal
instants give equal answers. Not safe for use from several threads at once: the server holds a lock around it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sandbox.fake_marketplace import limits, rules
from sandbox.fake_marketplace.errors import Code, Refusal, Status
from sandbox.fake_marketplace.faults import (
    BATCH_METER_USAGE,
    LOST,
    RESOLVE_CUSTOMER,
    UNKNOWN_STATUS,
    Fault,
    FaultPlan,
    FaultRates,
    Lost,
    Moment,
    RecordEffect,
    Strike,
)
from sandbox.fake_marketplace.history import (
    Attempt,
    AttemptKey,
    HonouredRecord,
    RecordOutcome,
    RequestEntry,
    attempts_by_key,
    busiest_second,
)
from sandbox.fake_marketplace.registry import Clock, Registry
from sandbox.fake_marketplace.rules import Quantity, WireRecord
from sandbox.fake_marketplace.settings import (
    BeforeActivation,
    DedupScope,
    IdenticalResend,
    ProductCodeWithLicense,
    ResendAfterClose,
    Settings,
    UnknownCustomer,
)
from sandbox.fake_marketplace.subscriptions import LegacyCustomer, Token

#: What a record that was put back is called in the history; AWS has no such status.
UNPROCESSED = "Unprocessed"
#: Without allocations, 25 records within their limits stay below this size, so it need not be measured.
_SMALL_REQUEST_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request: a body, or a refusal, or (``lost``) none at all."""

    request_id: str
    body: dict[str, Any] | None
    refusal: Refusal | None
    lost: Lost | None
    latency_seconds: float


class _Judged(NamedTuple):
    """A record that no request-level rule refuses; ``status`` is set when it may not be honoured."""

    record: WireRecord
    timestamp: int
    quantity: Quantity
    product_code: str
    license_arn: str | None
    customer: str
    status: Status | None


class _Arrival(NamedTuple):
    """One request at the door."""

    now: datetime
    region: str
    account: str
    operation: str
    request_id: str
    product_code: str | None
    records: Sequence[WireRecord]
    strike: Strike | None


class _Bucket:
    """A token bucket; starts full."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, burst: int, at: float) -> None:
        self._tokens = float(burst)
        self._at = at

    def take(self, rate: float, burst: int, at: float) -> bool:
        """Take one token if there is one; ``rate`` tokens come back per second."""
        self._tokens = min(float(burst), self._tokens + max(0.0, at - self._at) * rate)
        self._at = at
        # Ten refills of a tenth must make one token again, whatever binary fractions make of them.
        if self._tokens < 1.0 - 1e-6:
            return False
        self._tokens = max(0.0, self._tokens - 1.0)
        return True


class FakeMarketplace(Registry):
    """AWS Marketplace Metering over its subscriptions: the API, its faults and its history."""

    def __init__(self, clock: Clock, settings: Settings | None = None) -> None:
        """``clock`` decides about windows, activation, quota and token life."""
        super().__init__(clock, settings)
        self.faults = FaultPlan(self._settings.seed)
        self._buckets: dict[tuple[str, str, str], _Bucket] = {}
        self._first: dict[tuple[str, str, str, str, int], tuple[Quantity, str]] = {}
        self._honoured: list[HonouredRecord] = []
        self._requests: list[RequestEntry] = []

    # ------------------------------------------------------------------ faults

    def arm(self, fault: Fault) -> None:
        """Add a scripted fault."""
        self.faults.arm(fault)

    def set_fault_rates(self, rates: FaultRates) -> None:
        """Set the chances of seeded faults."""
        self.faults.set_rates(rates)

    # ------------------------------------------------------------------ BatchMeterUsage

    def batch_meter_usage(
        self,
        payload: Mapping[str, Any],
        *,
        region: str,
        account: str | None = None,
        request_bytes: int | None = None,
    ) -> Reply:
        """Answer one BatchMeterUsage request in wire form; ``payload`` must not be changed afterwards.

        ``request_bytes`` is the size of the serialised body; measured here when the caller does not know it.
        """
        records = payload.get("UsageRecords") if isinstance(payload, Mapping) else None
        code = payload.get("ProductCode") if isinstance(payload, Mapping) else None
        seen = [r for r in records if isinstance(r, Mapping)] if isinstance(records, list) else []
        arrival = self._arrive(
            BATCH_METER_USAGE, region, account, seen, code if isinstance(code, str) else None
        )
        try:
            self._door(arrival, self._settings.quota_rate, self._settings.quota_burst)
            if request_bytes is None and self._size_matters(seen):
                request_bytes = serialized_size(payload)
            if request_bytes is not None:
                rules.check_size(request_bytes, self._settings)
            judged = self._judge(payload, arrival)
        except Refusal as refusal:
            return self._refused(arrival, refusal)
        except _Dropped as dropped:
            return self._dropped(arrival, dropped.lost, self._no_outcomes(arrival))
        return self._answer(arrival, judged)

    def _size_matters(self, records: Sequence[WireRecord]) -> bool:
        return self._settings.max_request_bytes <= _SMALL_REQUEST_BYTES or any(
            "UsageAllocations" in record for record in records
        )

    def _judge(self, payload: Mapping[str, Any], arrival: _Arrival) -> list[_Judged]:
        """Apply every request-level rule; what is returned may be honoured or has a status of its own."""
        records = rules.request_records(payload)
        shaped = [self._shape(record) for record in records]
        product_code = payload.get("ProductCode") or None
        licensed = [record.get("LicenseArn") is not None for record in records]
        if product_code is not None and product_code not in self._products:
            raise Refusal(Code.INVALID_PRODUCT_CODE, "The product code is not one of the seller's.")
        if (
            product_code is not None
            and any(licensed)
            and self._settings.product_code_with_license is ProductCodeWithLicense.REFUSE
        ):
            raise Refusal(Code.INVALID_PRODUCT_CODE, "ProductCode and LicenseArn exclude each other.")
        window = rules.Window(arrival.now, self._settings)
        judged = []
        for record, has_license, (timestamp, quantity) in zip(records, licensed, shaped, strict=True):
            judge = self._judge_licensed if has_license else self._judge_legacy
            judged.append(judge(record, timestamp, quantity, product_code, arrival))
            window.check(timestamp)
        if len({item.product_code for item in judged}) > 1:
            raise Refusal(Code.INVALID_LICENSE, "The records belong to more than one product.")
        return judged

    def _shape(self, record: WireRecord) -> tuple[int, Quantity]:
        timestamp = rules.record_timestamp(record)
        arn, dimension = record.get("LicenseArn"), record.get("Dimension")
        grant = self._licenses.get(arn) if type(arn) is str else None
        # What equals a granted license's own values has the right shape: the patterns need not be run.
        if (
            grant is None
            or type(dimension) is not str
            or dimension not in grant.dimensions
            or record.get("CustomerAWSAccountId") != grant.customer_account
            or record.get("CustomerIdentifier")
        ):
            rules.record_dimension(record)
            rules.check_customer(record)
            if arn is not None:
                rules.check_license_arn(arn)
        whole = record.get("Quantity")
        if whole is not None and "UsageAllocations" not in record and "QuantityAsDecimal" not in record:
            return timestamp, rules.whole_number(whole, "Quantity")
        return timestamp, rules.record_quantity(record, self._settings)

    def _judge_licensed(
        self,
        record: WireRecord,
        timestamp: int,
        quantity: Quantity,
        product_code: str | None,
        arrival: _Arrival,
    ) -> _Judged:
        grant = self._licenses.get(record["LicenseArn"])
        if grant is None:
            raise Refusal(Code.INVALID_LICENSE, "The license does not exist.")
        if record.get("CustomerAWSAccountId") != grant.customer_account:
            raise Refusal(Code.INVALID_LICENSE, "The license is not this customer's.")
        product = self._products[grant.product_code]
        if product.owner_account not in (None, arrival.account):
            raise Refusal(Code.INVALID_LICENSE, "The license is of another seller's product.")
        if product_code is not None and product_code != grant.product_code:
            raise Refusal(Code.INVALID_PRODUCT_CODE, "The license is of another product.")
        if record["Dimension"] not in grant.dimensions:
            raise Refusal(Code.INVALID_USAGE_DIMENSION, "The dimension is none of the product's.")
        status = None
        if grant.activated_at is None or timestamp < grant.activated_at.timestamp():
            status = self._before_activation()
        if self._closed(grant.customer_account, grant.deprovisioned_at, arrival.now):
            status = Status.CUSTOMER_NOT_SUBSCRIBED
        return _Judged(
            record, timestamp, quantity, grant.product_code, grant.arn, grant.customer_account, status
        )

    def _before_activation(self) -> Status | None:
        switch = self._settings.before_activation
        if switch is BeforeActivation.INVALID_LICENSE:
            raise Refusal(Code.INVALID_LICENSE, "The usage is outside the license's activation period.")
        return Status.CUSTOMER_NOT_SUBSCRIBED if switch is BeforeActivation.CUSTOMER_NOT_SUBSCRIBED else None

    def _closed(self, account: str, ended_at: datetime | None, now: datetime) -> bool:
        if account in self._suspended:
            return True
        if ended_at is None:
            return False
        return now >= ended_at + timedelta(seconds=self._settings.deprovision_grace_seconds)

    def _judge_legacy(
        self,
        record: WireRecord,
        timestamp: int,
        quantity: Quantity,
        product_code: str | None,
        arrival: _Arrival,
    ) -> _Judged:
        if product_code is None:
            raise Refusal(Code.INVALID_PRODUCT_CODE, "A record without a license needs a product code.")
        product = self._products[product_code]
        if product.owner_account not in (None, arrival.account):
            raise Refusal(Code.INVALID_PRODUCT_CODE, "The product is another seller's.")
        if record["Dimension"] not in product.dimensions:
            raise Refusal(Code.INVALID_USAGE_DIMENSION, "The dimension is none of the product's.")
        customer = self._legacy_customer(product_code, record)
        if customer is None:
            if self._settings.unknown_customer is UnknownCustomer.INVALID_CUSTOMER_IDENTIFIER:
                raise Refusal(Code.INVALID_CUSTOMER_IDENTIFIER, "The customer does not exist.")
            name = str(record.get("CustomerIdentifier") or record.get("CustomerAWSAccountId"))
            return _Judged(
                record, timestamp, quantity, product_code, None, name, Status.CUSTOMER_NOT_SUBSCRIBED
            )
        closed = self._closed(customer.customer_account, customer.ended_at, arrival.now)
        status = Status.CUSTOMER_NOT_SUBSCRIBED if closed else None
        return _Judged(record, timestamp, quantity, product_code, None, customer.customer_identifier, status)

    def _legacy_customer(self, product_code: str, record: WireRecord) -> LegacyCustomer | None:
        identifier = record.get("CustomerIdentifier")
        if identifier:
            return self._legacy.get((product_code, identifier))
        account = record["CustomerAWSAccountId"]
        matches = (
            c
            for c in self._legacy.values()
            if (c.product_code, c.customer_account) == (product_code, account)
        )
        return next(matches, None)

    def _answer(self, arrival: _Arrival, judged: Sequence[_Judged]) -> Reply:
        effects = arrival.strike.records if arrival.strike is not None else {}
        outcomes: list[RecordOutcome] = []
        results: list[dict[str, Any]] = []
        unprocessed: list[WireRecord] = []
        for position, item in enumerate(judged):
            effect = effects.get(position)
            if effect is RecordEffect.UNPROCESSED:
                unprocessed.append(item.record)
                outcomes.append(RecordOutcome(item.record, UNPROCESSED, None, newly_honoured=False))
                continue
            outcome = self._meter(item, arrival)
            outcomes.append(outcome)
            if effect is RecordEffect.OMITTED:
                continue
            status = UNKNOWN_STATUS if effect is RecordEffect.UNKNOWN_STATUS else outcome.status
            result = {"UsageRecord": item.record, "Status": status}
            if outcome.metering_record_id is not None:
                result["MeteringRecordId"] = outcome.metering_record_id
            results.append(result)
        body = {"Results": results, "UnprocessedRecords": unprocessed}
        return self._finish(arrival, body, tuple(outcomes))

    def _meter(self, item: _Judged, arrival: _Arrival) -> RecordOutcome:
        """Decide one record: the first write of a key wins, compared by value."""
        hour = item.timestamp // 3600
        dimension = item.record["Dimension"]
        scope = arrival.region if self._settings.dedup_scope is DedupScope.REGION else ""
        owner = item.license_arn if item.license_arn is not None else f"legacy {item.product_code}"
        key = (scope, owner, item.customer, dimension, hour)
        first = self._first.get(key)
        if item.status is not None and not (
            first is not None
            and first[0] == item.quantity
            and self._settings.resend_after_close is ResendAfterClose.AS_BEFORE
        ):
            return RecordOutcome(item.record, item.status.value, None, newly_honoured=False)
        if first is not None:
            quantity, record_id = first
            same = quantity == item.quantity
            if same and self._settings.identical_resend is IdenticalResend.SUCCESS:
                return RecordOutcome(item.record, Status.SUCCESS.value, record_id, newly_honoured=False)
            return RecordOutcome(item.record, Status.DUPLICATE_RECORD.value, None, newly_honoured=False)
        record_id = self._uuid("metering-record")
        self._first[key] = (item.quantity, record_id)
        self._honoured.append(
            HonouredRecord(
                at=arrival.now,
                region=arrival.region,
                seller_account=arrival.account,
                product_code=item.product_code,
                license_arn=item.license_arn,
                customer=item.customer,
                dimension=dimension,
                hour=hour,
                timestamp=datetime.fromtimestamp(item.timestamp, UTC),
                quantity=item.quantity,
                metering_record_id=record_id,
                record=item.record,
            )
        )
        return RecordOutcome(item.record, Status.SUCCESS.value, record_id, newly_honoured=True)

    # ------------------------------------------------------------------ ResolveCustomer

    def resolve_customer(
        self, payload: Mapping[str, Any], *, region: str, account: str | None = None
    ) -> Reply:
        """Answer one ResolveCustomer request in wire form."""
        arrival = self._arrive(RESOLVE_CUSTOMER, region, account, (), None)
        try:
            self._door(arrival, self._settings.resolve_quota_rate, self._settings.resolve_quota_burst)
            body = self._resolve(payload, arrival)
        except Refusal as refusal:
            return self._refused(arrival, refusal)
        except _Dropped as dropped:
            return self._dropped(arrival, dropped.lost, ())
        return self._finish(arrival, body, ())

    def _resolve(self, payload: Mapping[str, Any], arrival: _Arrival) -> dict[str, Any]:
        text = payload.get("RegistrationToken") if isinstance(payload, Mapping) else None
        if not limits.REGISTRATION_TOKEN.accepts(text):
            raise Refusal(Code.VALIDATION, "RegistrationToken is required and must not be empty.")
        token = self._tokens.get(str(text))
        if token is None:
            raise Refusal(Code.INVALID_TOKEN, "The registration token is invalid.")
        if arrival.now >= token.expires_at or (token.resolved and not self._settings.token_repeatable):
            raise Refusal(Code.EXPIRED_TOKEN, "The registration token has expired.")
        body = (
            self._resolved_legacy(*token.legacy)
            if token.legacy is not None
            else self._resolved_license(token)
        )
        if self._products[body["ProductCode"]].owner_account not in (None, arrival.account):
            raise Refusal(Code.INVALID_TOKEN, "The registration token is of another seller's product.")
        self._tokens[token.text] = replace(token, resolved=token.resolved + 1)
        return body

    def _resolved_legacy(self, product_code: str, customer_identifier: str) -> dict[str, Any]:
        customer = self._legacy[product_code, customer_identifier]
        return {
            "CustomerIdentifier": customer.customer_identifier,
            "CustomerAWSAccountId": customer.customer_account,
            "ProductCode": customer.product_code,
        }

    def _resolved_license(self, token: Token) -> dict[str, Any]:
        assert token.license_arn is not None
        grant = self._licenses[token.license_arn]
        body: dict[str, Any] = {
            "CustomerIdentifier": "",
            "CustomerAWSAccountId": grant.customer_account,
            "ProductCode": grant.product_code,
            "LicenseArn": grant.arn,
        }
        if self._settings.agreement_id_in_metadata:
            body["Metadata"] = {"AgreementId": grant.agreement_id}
        return body

    # ------------------------------------------------------------------ the door

    def _arrive(
        self,
        operation: str,
        region: str,
        account: str | None,
        records: Sequence[WireRecord],
        product_code: str | None,
    ) -> _Arrival:
        now = self._clock.now()
        account = account or self._settings.seller_account
        strike = self.faults.strike(operation, region, account, now, len(records))
        request_id = self._uuid("request")
        return _Arrival(now, region, account, operation, request_id, product_code, records, strike)

    def _door(self, arrival: _Arrival, rate: float, burst: int) -> None:
        """Let the request in, or stop it before it has any effect."""
        fault = arrival.strike.fault if arrival.strike is not None else None
        if fault is not None and fault.answer is not None and fault.moment is Moment.BEFORE:
            if fault.answer in LOST:
                raise _Dropped(Lost(fault.answer))
            raise Refusal(fault.answer, "Injected before any effect.")
        if arrival.region in self._settings.disabled_regions:
            raise Refusal(Code.DISABLED_API, "The API is disabled in this Region.")
        if rate <= 0:
            return
        at = arrival.now.timestamp()
        key = (arrival.operation, arrival.region, arrival.account)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(burst, at)
        if not bucket.take(rate, burst, at):
            raise Refusal(Code.THROTTLING, "Rate exceeded.")

    def _finish(self, arrival: _Arrival, body: dict[str, Any], outcomes: tuple[RecordOutcome, ...]) -> Reply:
        """Give the answer, unless a fault takes it away after the effect."""
        fault = arrival.strike.fault if arrival.strike is not None else None
        if fault is not None and fault.answer is not None:
            if fault.answer in LOST:
                return self._dropped(arrival, Lost(fault.answer), outcomes)
            return self._refused(arrival, Refusal(fault.answer, "Injected after the effect."), outcomes)
        self._record(arrival, outcomes, None, answered=True)
        return Reply(arrival.request_id, body, None, None, self._latency(arrival))

    def _refused(
        self, arrival: _Arrival, refusal: Refusal, outcomes: tuple[RecordOutcome, ...] | None = None
    ) -> Reply:
        outcomes = self._no_outcomes(arrival) if outcomes is None else outcomes
        self._record(arrival, outcomes, refusal.code, answered=True)
        return Reply(arrival.request_id, None, refusal, None, self._latency(arrival))

    def _dropped(self, arrival: _Arrival, lost: Lost, outcomes: tuple[RecordOutcome, ...]) -> Reply:
        self._record(arrival, outcomes, None, answered=False)
        return Reply(arrival.request_id, None, None, lost, self._latency(arrival))

    @staticmethod
    def _no_outcomes(arrival: _Arrival) -> tuple[RecordOutcome, ...]:
        return tuple(RecordOutcome(record, None, None, newly_honoured=False) for record in arrival.records)

    @staticmethod
    def _latency(arrival: _Arrival) -> float:
        return arrival.strike.latency_seconds if arrival.strike is not None else 0.0

    def _record(
        self,
        arrival: _Arrival,
        outcomes: tuple[RecordOutcome, ...],
        exception: str | None,
        *,
        answered: bool,
    ) -> None:
        fault = arrival.strike.fault if arrival.strike is not None else None
        self._requests.append(
            RequestEntry(
                at=arrival.now,
                region=arrival.region,
                account=arrival.account,
                operation=arrival.operation,
                request_id=arrival.request_id,
                product_code=arrival.product_code,
                outcomes=outcomes,
                exception=exception,
                answered=answered,
                fault=fault.kind if fault is not None else None,
            )
        )

    # ------------------------------------------------------------------ what tests judge by

    def honoured(self) -> Sequence[HonouredRecord]:
        """Return every record that AWS would bill, oldest first."""
        return tuple(self._honoured)

    def honoured_count(self) -> int:
        """Return the number of honoured records without copying them."""
        return len(self._honoured)

    def requests(self, operation: str | None = BATCH_METER_USAGE) -> Sequence[RequestEntry]:
        """Return the requests of one operation (``None``: of all), oldest first."""
        return tuple(entry for entry in self._requests if operation in (None, entry.operation))

    def attempts(self) -> Mapping[AttemptKey, Sequence[Attempt]]:
        """Return every record ever sent, honoured or not, by Region and billing key."""
        return attempts_by_key(self._requests)

    def max_requests_in_any_second(self, operation: str = BATCH_METER_USAGE) -> int:
        """Return the busiest half-open second of any Region and account, throttled requests included."""
        return busiest_second(self.requests(operation))

    def billed_twice(self) -> Mapping[tuple[str, str, str, int], Sequence[HonouredRecord]]:
        """Return the honoured records that share license, customer, dimension and hour, by that key.

        Only Regions apart, or a switch, can bring this about.
        """
        groups: dict[tuple[str, str, str, int], list[HonouredRecord]] = {}
        for record in self._honoured:
            groups.setdefault(record.billing_key, []).append(record)
        return {key: records for key, records in groups.items() if len(records) > 1}


class _Dropped(Exception):
    """The connection ends before the request has any effect."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(lost.value)
        self.lost = lost


def serialized_size(payload: Mapping[str, Any]) -> int:
    """Return the bytes of a request's body as botocore serialises it (ASCII, blank after separators)."""
    return len(json.dumps(payload))
