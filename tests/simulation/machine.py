"""One run: a world, its model, and steps drawn from a seed. The same seed is the same run, byte for byte."""

from __future__ import annotations

import calendar
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from awsmp.adapters.dynamodb import from_wire, to_wire
from awsmp.domain.hours import BillingWindow, bucket_of, format_second
from awsmp.domain.quantities import QuantityType
from sandbox.fake_marketplace import Settings
from sandbox.fake_marketplace.settings import DedupScope, IdenticalResend
from sandbox.fake_marketplace.subscriptions import AgreementStatus
from sandbox.memory_aws import Delivery, Lag
from sandbox.simulation.world import LEDGER, PARKED, PRODUCT_CODE, SUBSCRIBERS, USAGE, World
from tests.simulation.checker import ROW_KEY, Broken, Checker, RowKey, surfaced, text
from tests.simulation.faults import MARKETPLACE_FAULTS, FaultPlan, Kind, Planned
from tests.simulation.model import HOUR, ZERO, GroupKey, Model, Written

MINUTE: Final = timedelta(minutes=1)
DIMENSIONS: Final = ("requests", "egress")
UNKNOWN_DIMENSION: Final = "not-on-the-listing"
ACCOUNTS: Final = ("111122223333", "111122223333", "444455556666")


def _allocations(quantity: int, key: str) -> list[Mapping[str, Any]]:
    return [{"AllocatedUsageQuantity": quantity, "Tags": [{"Key": key, "Value": "a"}]}]


#: Rows that are wrong, by flaw: the attributes that replace the right ones, and what the row still adds.
FLAWS: Final[Mapping[str, Mapping[str, Any]]] = {
    "NonNumericQuantity": {"quantity": "twelve"},
    "NegativeQuantity": {"quantity": -2},
    "MissingQuantity": {"quantity": None},
    "MalformedTimestamp": {"timestamp": "yesterday"},
    "MixedAllocatedAndUnallocated": {"quantity": 1, "usageAllocations": _allocations(1, "team")},
    "AllocationSumMismatch": {"quantity": 2, "usageAllocations": _allocations(1, "team")},
    "InvalidTag": {"quantity": 1, "usageAllocations": _allocations(1, "")},
}

#: Rows that no group can claim.
UNCLAIMED: Final[Mapping[str, Callable[[datetime], Mapping[str, Any]]]] = {
    "PendingBucketMismatch": lambda at: {"meteringPending": bucket_of(at - HOUR)},
    "SortKeyMismatch": lambda _at: {"dimension": "another"},
    "MissingDimension": lambda _at: {"dimension": None},
}


@dataclass(frozen=True, slots=True)
class Buyer:
    """A licence and its account."""

    license_arn: str
    account: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What kind of world a run is: where in the calendar, which switches, how many Regions."""

    name: str
    month_end: tuple[int, int]
    regions: tuple[str, ...] = ("eu-west-1",)
    window: int = 24
    lock: int = 1
    decimals: bool = False
    settings: Settings = field(default_factory=Settings)

    @property
    def wall(self) -> datetime:
        """Midnight at the end of the month."""
        year, month = self.month_end
        return datetime(year, month, calendar.monthrange(year, month)[1], tzinfo=UTC) + timedelta(days=1)


_TWO: Final = ("eu-west-1", "us-west-2")

PROFILES: Final = (
    Profile("february-of-28-days", (2027, 2)),
    Profile("february-of-29-days", (2028, 2), decimals=True),
    Profile("month-of-30-days", (2026, 9), lock=2),
    Profile("month-of-31-days", (2026, 10), window=6),
    Profile("year-end", (2026, 12), lock=3),
    Profile("two-regions", (2026, 11), regions=_TWO),
    Profile(
        "two-regions-one-dedup", (2026, 4), regions=_TWO, settings=Settings(dedup_scope=DedupScope.GLOBAL)
    ),
    Profile(
        "identical-resend-is-a-duplicate",
        (2026, 5),
        settings=Settings(identical_resend=IdenticalResend.DUPLICATE_RECORD),
    ),
    Profile("short-window", (2026, 6), window=3),
    Profile("long-lock", (2026, 7), lock=20),
)


class Simulation:
    """A world with its model and checker, and everything that can happen to it, by name."""

    def __init__(self, profile: Profile, start: datetime, *, seed: int = 0, skip_idle: bool = True) -> None:
        """Create the deployment; its buyers are subscribed, their events delivered."""
        self.profile = profile
        self.world = World(
            start,
            seed=seed,
            window=BillingWindow(billable_hours=profile.window, lock_hours=profile.lock),
            marketplace_settings=profile.settings,
            region_names=profile.regions,
            skip_idle=skip_idle,
            quantity_type=QuantityType.DECIMAL if profile.decimals else QuantityType.INTEGER,
        )
        self.model = Model(
            lock=profile.lock,
            window=profile.window,
            dedup_is_global=profile.settings.dedup_scope is DedupScope.GLOBAL,
            resend_is_duplicate=profile.settings.identical_resend is IdenticalResend.DUPLICATE_RECORD,
        )
        self.checker = Checker(self.world, self.model, start)
        self.seen: Counter[str] = Counter()
        self.faults = FaultPlan(self._struck)
        self.world.fault_plan, self.world.entry_faults = self.faults, self.faults.entry
        self.history = hashlib.sha256()
        self.down_until: dict[str, datetime] = {}
        self.held: list[Mapping[str, Any]] = []
        self.delivered: list[Mapping[str, Any]] = []
        self.buyers: list[Buyer] = []
        self.weather = False
        self._marketplace_hits = 0
        self._failures = 0
        self.world.marketplace.create_product(PRODUCT_CODE, DIMENSIONS)
        for account in ACCOUNTS:
            self.subscribe(account, start - timedelta(days=12))
        self.world.pump()

    # --- time ----------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The instant that it is."""
        return self.world.clock.now()

    def run(self, span: timedelta) -> None:
        """Let the schedules run for ``span``; what is past its deadline is looked for every five minutes."""
        end = self.now + span
        while self.now < end:
            self.world.run_until(min(end, self.now + 5 * MINUTE))
            self._lift()
            self._note_trouble()
            self.checker.check_deadlines()

    def _lift(self) -> None:
        """End the outages that are over."""
        for what in [what for what, until in self.down_until.items() if until <= self.now]:
            del self.down_until[what]
            self._trouble()
            if what in self.world.regions:
                self.world.regions[what].down = False
            else:
                self.world.paused.discard(what)

    def _note_trouble(self) -> None:
        hits = sum(self.world.marketplace.faults.hits.values())
        failures = sum(self.world.failures.values())
        if self.down_until or self.weather or hits > self._marketplace_hits or failures > self._failures:
            self._trouble()
        self._marketplace_hits, self._failures = hits, failures

    def _struck(self, _kind: str) -> None:
        self._trouble()

    def _trouble(self) -> None:
        if not self.model.troubles or self.model.troubles[-1] != self.now:
            self.model.troubles.append(self.now)
        self.checker.calm_since = self.now

    # --- the seller ----------------------------------------------------------------------------------

    def write(
        self,
        region: str,
        buyer: Buyer,
        dimension: str,
        at: datetime,
        quantity: Any,
        *,
        flaw: str | None = None,
    ) -> None:
        """Put one row, with a flaw or without."""
        stamp = format_second(at)
        item: dict[str, Any] = {
            "licenseArn": buyer.license_arn,
            ROW_KEY: f"{buyer.account}#{dimension}#{stamp}",
            "customerAWSAccountId": buyer.account,
            "dimension": dimension,
            "timestamp": stamp,
            "quantity": quantity,
            "meteringPending": bucket_of(at),
        }
        hour = bucket_of(at)
        if flaw is not None and flaw in UNCLAIMED:
            item |= UNCLAIMED[flaw](at)
            hour = f"row:{hour}"
        elif flaw is not None:
            item |= FLAWS[flaw]
        elif dimension == UNKNOWN_DIMENSION:
            flaw = "InvalidUsageDimensionException"
        item = {name: value for name, value in item.items() if value is not None}
        self.world.regions[region].writer.put_item(TableName=USAGE, Item=to_wire(item))
        self._book(region, item, GroupKey(region, buyer.license_arn, buyer.account, dimension, hour), flaw)

    def update(self, key: RowKey, quantity: Any, *, add: bool) -> None:
        """Set or add to a row's quantity in place, as a writer that accumulates does: stamps stay on it."""
        bucket = self.model.rows[key].group.hour
        verb = (
            "ADD quantity :q SET meteringPending = :b" if add else "SET quantity = :q, meteringPending = :b"
        )
        client = self.world.regions[key.region].writer
        stored = client.update_item(
            TableName=USAGE,
            Key=to_wire({"licenseArn": key.license_arn, ROW_KEY: key.sort_key}),
            UpdateExpression=verb,
            ExpressionAttributeValues=to_wire({":q": quantity, ":b": bucket}),
            ReturnValues="ALL_NEW",
        )["Attributes"]
        self._book(key.region, from_wire(stored), self.model.rows[key].group, None)

    def correct_bucket(self, key: RowKey) -> None:
        """Give a row that no group could claim its right hour bucket, in place."""
        group = self.model.rows[key].group
        right = group._replace(hour=group.hour.removeprefix("row:"))
        stored = self.world.regions[key.region].writer.update_item(
            TableName=USAGE,
            Key=to_wire({"licenseArn": key.license_arn, ROW_KEY: key.sort_key}),
            UpdateExpression="SET meteringPending = :b, dimension = :d",
            ExpressionAttributeValues=to_wire({":b": right.hour, ":d": right.dimension}),
            ReturnValues="ALL_NEW",
        )["Attributes"]
        self._book(key.region, from_wire(stored), right, None)

    def _book(self, region: str, item: Mapping[str, Any], group: GroupKey, flaw: str | None) -> None:
        quantity = item.get("quantity")
        value = Decimal(quantity) if isinstance(quantity, int | Decimal) else ZERO
        key = RowKey(region, item["licenseArn"], item[ROW_KEY])
        self.model.write(key, Written(group, value, self.now, flaw))

    # --- the Marketplace -----------------------------------------------------------------------------

    def subscribe(self, account: str, activated: datetime, *, hold: bool = False) -> Buyer:
        """Make a purchase, activated at ``activated``; with ``hold`` the licence's event comes later."""
        bought = self.world.marketplace.subscribe(PRODUCT_CODE, account, activate_at=activated)
        buyer = Buyer(bought.license.arn, account)
        self.buyers.append(buyer)
        self.model.activated[buyer.license_arn] = activated.replace(microsecond=0)
        created, updated = bought.events
        self.deliver(created)
        if hold:
            self.held.append(updated)
        else:
            self.deliver(updated)
        return buyer

    def deliver(self, envelope: Mapping[str, Any]) -> None:
        """Deliver a lifecycle event."""
        self.delivered.append(envelope)
        self.world.deliver(envelope)

    def deprovision(self, buyer: Buyer, *, hold: bool = False) -> None:
        """End a licence; with ``hold`` its event comes later."""
        self.model.closings[buyer.license_arn].append(self.now.replace(microsecond=0))
        envelope = self.world.marketplace.deprovision_license(buyer.license_arn)
        if hold:
            self.held.append(envelope)
            self._trouble()
        else:
            self.deliver(envelope)

    def revive(self, buyer: Buyer) -> None:
        """Bring a licence back."""
        _, envelope = self.world.marketplace.activate_license(buyer.license_arn)
        self.deliver(envelope)

    # --- faults --------------------------------------------------------------------------------------

    def pause(self, what: str, hours: int) -> None:
        """Stop a function, or everything in a Region, for some hours."""
        self.down_until[what] = self.now + hours * HOUR
        if what in self.world.regions:
            self.world.regions[what].down = True
        else:
            self.world.paused.add(what)
        self._trouble()

    def set_weather(self, delivery: Delivery, lag: Lag | None) -> None:
        """Change how badly queues deliver and how far indexes and eventual reads are behind."""
        self.world.events_sqs.delivery = delivery
        self.world.us_east_1.index_lag = self.world.us_east_1.base_lag = lag
        for region in self.world.regions.values():
            region.sqs.delivery = delivery
            region.dynamodb.index_lag = region.dynamodb.base_lag = lag
        if lag is None:
            self.world.us_east_1.settle()
            for region in self.world.regions.values():
                region.dynamodb.settle()
        self.weather = delivery != Delivery() or lag is not None
        self._trouble()

    # --- judging -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Broken unless every promise holds now."""
        self._note_trouble()
        self.checker.check()

    def calm(self) -> None:
        """End every fault: from here on everything works, and everything has to be done."""
        self.faults.clear()
        self.world.traps.clear()
        self.world.marketplace.faults.clear()
        self.set_weather(Delivery(), None)
        self.down_until = dict.fromkeys(self.down_until, self.now)
        self._lift()
        for envelope in self.held:
            self.deliver(envelope)
        self.held.clear()

    def drain(self) -> None:
        """Let the calm world run until nothing is pending; Broken unless that is so in a bounded time.

        The bound is the deadline of the newest hour that was written, and P3's twenty minutes.
        """
        self.calm()
        groups = [group for group in self.model.writes if group.hour]
        hours = [group._replace(hour=group.hour.removeprefix("row:")) for group in groups]
        last = max((self.model.row_deadline(group) for group in hours), default=self.now)
        bound = max(last, self.now) + 20 * MINUTE
        while self.now < bound and self.checker.pending():
            self.run(min(30 * MINUTE, bound - self.now))
        if left := self.checker.pending():
            raise Broken("still pending after the drain: " + "; ".join(left))
        self.check()

    def note(self, what: object) -> None:
        """Add to the history that tells two runs apart."""
        self.history.update(repr(what).encode())

    def digest(self) -> str:
        """Return a digest of everything that happened and of everything that is stored."""
        world = self.world
        stores = [(world.us_east_1, (SUBSCRIBERS, PARKED))]
        stores += [(region.dynamodb, (USAGE, LEDGER)) for region in world.regions.values()]
        for backend, names in stores:
            for name in names:
                self.note(sorted(repr(sorted(item.items())) for item in backend.items(name)))
        self.note(list(world.marketplace.requests()))
        self.note(
            [
                (level, message, sorted(fields.items(), key=str))
                for level, message, fields in world.recorder.lines
            ]
        )
        self.note(sorted(world.recorder.metrics.items(), key=str))
        self.note(list(world.dead_letters()))
        self.note((self.now, world.crashes))
        return self.history.hexdigest()


Step = tuple[str, tuple[Any, ...]]


@dataclass(slots=True)
class Machine:
    """Draws steps from ``random`` and carries them out; after each one every promise is checked."""

    profile: Profile
    random: random.Random
    skip_idle: bool = True
    simulation: Simulation = field(init=False)
    steps: Counter[str] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin some hours before the end of a month."""
        start = self.profile.wall - self.random.randint(2, 30) * HOUR + self.random.randrange(60) * MINUTE
        seed = self.random.getrandbits(32)
        self.simulation = Simulation(self.profile, start, seed=seed, skip_idle=self.skip_idle)

    def play(self, steps: int) -> Simulation:
        """Carry out ``steps`` steps, then end every fault and drain."""
        for _ in range(steps):
            self.step()
        self.simulation.drain()
        return self.simulation

    def step(self) -> None:
        """Draw one step, carry it out and check."""
        name = self.random.choices(_NAMES, _WEIGHTS)[0]
        self.steps[name] += 1
        self.simulation.note((name, self.simulation.now))
        getattr(self, f"_{name}")()
        self.simulation.check()

    # --- the seller ----------------------------------------------------------------------------------

    def _region(self) -> str:
        return self.random.choice(self.profile.regions)

    def _buyer(self) -> Buyer:
        """Return any licence; one whose hour for final usage is running more often."""
        sim = self.simulation
        closings = sim.model.closings
        closing = [b for b in sim.buyers if any(at > sim.now - HOUR for at in closings[b.license_arn])]
        return self.random.choice(closing if closing and self.random.random() < 0.4 else sim.buyers)

    def _quantity(self) -> int | Decimal:
        if self.profile.decimals:
            return Decimal(self.random.randrange(0, 40)) / 8
        return self.random.choice((0, 1, 1, 2, 3, 5, 8))

    def _when(self) -> datetime:
        """Return a time for a row: mostly now, sometimes late by hours or days, sometimes ahead."""
        sim, draw = self.simulation, self.random.random()
        if draw < 0.70:
            back = timedelta(minutes=self.random.randrange(40))
        elif draw < 0.85:
            back = timedelta(minutes=self.random.randrange(40, 300))
        elif draw < 0.93:
            back = timedelta(minutes=self.random.randrange(300, 25 * 60))
            sim.seen["row-late-by-hours"] += 1
        elif draw < 0.96:
            back = timedelta(hours=self.random.randrange(26, 24 * 6))
            sim.seen["row-late-by-days"] += 1
        else:
            back = -timedelta(minutes=self.random.randrange(1, 100))
            sim.seen["writer-clock-ahead"] += 1
        at = sim.now - back
        return at.replace(minute=at.minute // 20 * 20, second=self.random.choice((0, 59)), microsecond=0)

    def _write(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.simulation.write(
                self._region(), self._buyer(), self.random.choice(DIMENSIONS), self._when(), self._quantity()
            )

    def _write_flawed(self) -> None:
        sim, flaw = self.simulation, self.random.choice((*FLAWS, *UNCLAIMED))
        at = self._when()
        buyer, dimension, region = self._buyer(), self.random.choice(DIMENSIONS), self._region()
        known = sim.model.rows.get(
            RowKey(region, buyer.license_arn, f"{buyer.account}#{dimension}#{format_second(at)}")
        )
        if flaw in UNCLAIMED and known is not None and not known.group.hour.startswith("row:"):
            sim.seen["claimed-row-overwritten-by-an-unclaimable-one"] += 1
        sim.seen[f"flaw {flaw}"] += 1
        sim.write(region, buyer, dimension, at, self._quantity(), flaw=flaw)

    def _write_unknown_dimension(self) -> None:
        buyer = self.random.choice(self.simulation.buyers)
        self.simulation.write(self._region(), buyer, UNKNOWN_DIMENSION, self._when(), 1)

    def _rewrite(self) -> None:
        sim = self.simulation
        keys = [RowKey(*key) for key in sorted(sim.model.rows)]
        if not keys:
            return
        key = self.random.choice(keys[-12:] if self.random.random() < 0.5 else keys)
        row = sim.model.rows[key]
        if row.group.hour.startswith("row:"):
            sim.seen["unclaimed-row-corrected"] += 1
            sim.correct_bucket(key)
            return
        if self.random.random() < 0.1:
            self._overwrite(key, self.random.choice(tuple(UNCLAIMED)))
            return
        how = self.random.choice(("put", "set", "add"))
        quantity = self._quantity()
        if how == "put" or row.flaw is not None:
            sim.seen["flawed-row-corrected" if row.flaw else "row-rewritten"] += 1
            self._overwrite(key, None)
        else:
            sim.seen[f"row-rewritten-by-{how}"] += 1
            sim.update(key, quantity, add=how == "add")

    def _overwrite(self, key: RowKey, flaw: str | None) -> None:
        if flaw is not None:
            self.simulation.seen["claimed-row-overwritten-by-an-unclaimable-one"] += 1
        account, dimension, stamp = key.sort_key.split("#")
        at = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
        buyer = Buyer(key.license_arn, account)
        self.simulation.write(key.region, buyer, dimension, at, self._quantity(), flaw=flaw)

    # --- time and functions --------------------------------------------------------------------------

    def _tick(self) -> None:
        self.simulation.run(self.random.choice((1, 5, 15, 30, 60)) * MINUTE)

    def _long_tick(self) -> None:
        self.simulation.run(self.random.choice((2, 3, 5)) * HOUR)

    def _invoke(self) -> None:
        """Run one function out of turn, as a duplicate of a scheduled invocation; often into a fault."""
        function, event = self.random.choice(_INVOCATIONS)
        if self.random.random() < 0.5:
            self._arm(function)
        self._call(self._region(), function, event)
        self.simulation.world.pump()

    def _call(self, region: str, function: str, event: Mapping[str, Any]) -> None:
        if not self.simulation.world.regions[region].down:
            self.simulation.world.invoke(function, event, region=region)

    def _redeliver(self) -> None:
        """Deliver a work message again that was worked off long ago."""
        sim = self.simulation
        groups = [group for group in sorted(sim.model.writes) if not group.hour.startswith("row:")]
        if not groups:
            return
        group = self.random.choice(groups)
        if self.random.random() < 0.3:
            sim.deliver(self.random.choice(sim.delivered))
            sim.seen["event-delivered-again"] += 1
            return
        license_arn, account, dimension, hour = group[1:]
        body = {
            "licenseArn": license_arn,
            "customerAWSAccountId": account,
            "dimension": dimension,
            "hour": hour,
        }
        region = sim.world.regions[group.region]
        if hour <= bucket_of(sim.now) and bucket_of(sim.now - self.profile.lock * HOUR) >= hour:
            sim.seen["work-delivered-again"] += 1
            region.sqs.client().send_message(
                QueueUrl=region.urls["work"], MessageBody=json.dumps({"group": body})
            )

    def _poison_message(self) -> None:
        region = self.simulation.world.regions[self._region()]
        queue = self.random.choice(sorted(region.urls))
        region.sqs.client().send_message(QueueUrl=region.urls[queue], MessageBody='{"group": "nobody\'s"}')
        self.simulation.seen["poison-message"] += 1
        self.simulation._trouble()

    # --- lifecycle -----------------------------------------------------------------------------------

    def _open(self) -> list[Buyer]:
        license_of = self.simulation.world.marketplace.license
        return [b for b in self.simulation.buyers if license_of(b.license_arn).deprovisioned_at is None]

    def _deprovision(self) -> None:
        if buyers := self._open():
            hold = self.random.random() < 0.2
            self.simulation.seen["event-delayed" if hold else "deprovisioned"] += 1
            self.simulation.deprovision(self.random.choice(buyers), hold=hold)

    def _end_in_use(self) -> None:
        """End a licence and go on writing until after its final flush."""
        sim, region, dimension = self.simulation, self._region(), self.random.choice(DIMENSIONS)
        if not (buyers := self._open()):
            return
        buyer = self.random.choice(buyers)
        sim.deprovision(buyer)
        for span in (52, 6):
            sim.run(span * MINUTE)
            sim.write(region, buyer, dimension, sim.now, self.random.choice((1, 2, 3)))
        sim.seen["licence-ends-in-use"] += 1

    def _release_event(self) -> None:
        sim = self.simulation
        if sim.held:
            sim.deliver(sim.held.pop(self.random.randrange(len(sim.held))))

    def _revive(self) -> None:
        sim = self.simulation
        closed = [b for b in sim.buyers if sim.world.marketplace.license(b.license_arn).deprovisioned_at]
        if closed:
            sim.seen["revived"] += 1
            sim.revive(self.random.choice(closed))

    def _suspend(self) -> None:
        sim, account = self.simulation, self.random.choice(ACCOUNTS)
        sim.seen["account-suspended"] += 1
        sim.model.suspended.add(account)
        sim.world.marketplace.suspend_account(account)

    def _resume(self) -> None:
        for account in sorted(set(ACCOUNTS)):
            self.simulation.world.marketplace.resume_account(account)

    def _subscribe(self) -> None:
        sim = self.simulation
        if len(sim.buyers) < 6:
            sim.seen["activated-within-the-hour"] += 1
            hold = self.random.random() < 0.4
            buyer = sim.subscribe(f"7777{len(sim.buyers):08d}", sim.now, hold=hold)
            if hold:
                self._end_agreement(buyer)

    def _agreement(self) -> None:
        self._end_agreement(self.random.choice(self.simulation.buyers))

    def _end_agreement(self, buyer: Buyer) -> None:
        """End or amend the agreement: nothing that is metered may depend on it."""
        marketplace = self.simulation.world.marketplace
        agreement = marketplace.license(buyer.license_arn).agreement_id
        if self.random.random() < 0.5:
            envelope = marketplace.end_agreement(agreement, self.random.choice(_ENDS))
        else:
            envelope = marketplace.amend_agreement(agreement, end_time=self.simulation.now + 90 * HOUR)
        self.simulation.deliver(envelope)

    # --- faults --------------------------------------------------------------------------------------

    def _fault(self) -> None:
        """Plan a fault of one of the next calls of a function."""
        self._arm(self.random.choice(FUNCTIONS))

    def _arm(self, function: str) -> None:
        kind = self.random.choice((*Kind, Kind.INTERRUPTED, Kind.INTERRUPTED))
        action = self._interruption() if kind is Kind.INTERRUPTED else None
        skip = self.random.choice((0, 0, 1, 1, 2, 3, 5, 8))
        self.simulation.faults.arm(Planned(kind, function, skip, action))

    def _interruption(self) -> Callable[[], None]:
        """Return something that happens while a function waits for AWS: a write, or another run."""
        region = self._region()
        if self.random.random() < 0.6:
            function, event = self.random.choice(_OVERLAPS)

            def run_another() -> None:
                self.simulation.seen[f"overlap with {function}"] += 1
                self._call(region, function, event)

            return run_another

        def write_meanwhile() -> None:
            self.simulation.seen["write-during-a-run"] += 1
            self._rewrite() if self.random.random() < 0.6 else self._write()

        return write_meanwhile

    def _marketplace_fault(self) -> None:
        self.simulation.world.marketplace.arm(
            MARKETPLACE_FAULTS[self.random.choice(tuple(MARKETPLACE_FAULTS))]
        )

    def _batch_entries(self) -> None:
        operation = self.random.choice(("BatchGetItem", "BatchExecuteStatement", "SendMessageBatch"))
        self.simulation.faults.entries[operation] += self.random.choice((1, 2, 5, 12))

    def _weather(self) -> None:
        sim = self.simulation
        if sim.weather:
            sim.set_weather(Delivery(), None)
            return
        delivery = Delivery(
            duplicate=self.random.choice((0.0, 0.2)),
            delay=self.random.choice((0.0, 0.5)),
            delay_seconds=self.random.choice((60, 900)),
            reorder=self.random.random() < 0.5,
        )
        lag = self.random.choice((None, Lag(writes=5, seconds=60), Lag(seconds=600)))
        for name, on in (
            ("duplicate-messages", delivery.duplicate),
            ("delayed-messages", delivery.delay),
            ("reordered-messages", delivery.reorder),
            ("stale-reads", lag),
        ):
            sim.seen[name] += bool(on)
        sim.set_weather(delivery, lag)

    def _outage(self) -> None:
        sim = self.simulation
        if sim.down_until:
            return
        what = self.random.choice((*FUNCTIONS, "submitter", "submitter", *self.profile.regions))
        hours = self.random.choice((1, 1, 1, 5, 5, 23, 25))
        sim.seen[f"down for {hours} h"] += 1
        sim.seen["region-down" if what in sim.world.regions else f"{what}-down"] += 1
        sim.pause(what, hours)
        if hours > 5:
            sim.run(hours * HOUR)

    def _redeploy(self) -> None:
        self.simulation.seen["redeployed"] += 1
        self.simulation.world.redeploy()

    def _redrive(self) -> None:
        self.simulation.seen["redriven"] += self.simulation.world.redrive()


def branches(sim: Simulation) -> Counter[str]:
    """Return what a run went through, by name: its faults, and what can be read from tables and metrics."""
    seen = Counter({name: count for name, count in (sim.seen + sim.faults.hits).items() if count})
    seen.update(sim.world.marketplace.faults.hits)
    for entry in sim.world.marketplace.requests():
        seen[f"answer {entry.exception or 'without exception'}"] += 1
        for outcome in entry.outcomes:
            seen[f"record {outcome.status}"] += outcome.status is not None
            hour = outcome.record["Timestamp"] // 3600 * 3600
            seen["stamped with the activation"] += outcome.record["Timestamp"] != hour
            seen["zero sent"] += outcome.status == "Success" and not outcome.record.get("Quantity", 1)
            seen["allocations sent"] += "UsageAllocations" in outcome.record
            seen["identical resend"] += outcome.status == "Success" and not outcome.newly_honoured
            previous = datetime.fromtimestamp(hour, UTC).month != entry.at.month
            seen["previous month billed before the wall"] += outcome.newly_honoured and previous
    for region in sim.world.regions.values():
        for item in region.dynamodb.items(LEDGER):
            if "version" in item:
                status = text(item, "meteringStatus")
                seen[f"ended {status}"] += 1
                seen["success after an unknown outcome"] += status == "Success" and "attemptUnknown" in item
                for code in surfaced(item):
                    seen[f"surfaced {code}"] += 1
        for item in region.dynamodb.items(USAGE):
            if "meteringStatus" in item:
                seen[f"stamped {text(item, 'meteringStatus')}"] += 1
    for metric, reason in sim.world.recorder.metrics:
        seen[f"metric {metric}"] += 1
        seen[f"metric {metric} {reason}"] += 1
    seen["dead letter"] += any(True for _ in sim.world.dead_letters())
    return +seen


FUNCTIONS: Final = (
    "discoverer",
    "aggregator",
    "cleanup",
    "submitter",
    "expiry",
    "subscription",
    "deprovision_cleanup",
)

_INVOCATIONS: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    *(("discoverer", {"mode": "meter", "hourOffset": offset}) for offset in (1, 1, 2, 3, 5, 23)),
    *(("discoverer", {"mode": "ageout", "shard": shard}) for shard in (0, 3, 6)),
    ("discoverer", {"mode": "flush-deprovisioning"}),
    ("submitter", {"mode": "submit"}),
    ("submitter", {"mode": "submit"}),
    ("submitter", {"mode": "deprovisioning"}),
    ("expiry", {}),
    ("expiry", {}),
    ("expiry", {}),
    ("deprovision_cleanup", {}),
)

_ENDS: Final = (AgreementStatus.CANCELLED, AgreementStatus.RENEWED, AgreementStatus.REPLACED)

#: What is started while another function waits.
_OVERLAPS: Final = (*_INVOCATIONS, *(3 * (("submitter", {"mode": "submit"}),)))

#: Every step and how often it is drawn.
STEPS: Final = {
    "write": 20,
    "write_flawed": 3,
    "write_unknown_dimension": 1,
    "rewrite": 7,
    "tick": 22,
    "long_tick": 5,
    "invoke": 6,
    "redeliver": 3,
    "poison_message": 2,
    "deprovision": 2,
    "end_in_use": 1,
    "release_event": 1,
    "revive": 1,
    "suspend": 1,
    "resume": 1,
    "subscribe": 1,
    "agreement": 1,
    "fault": 12,
    "marketplace_fault": 5,
    "batch_entries": 3,
    "weather": 3,
    "outage": 2,
    "redeploy": 1,
    "redrive": 1,
}
_NAMES: Final = tuple(STEPS)
_WEIGHTS: Final = tuple(STEPS.values())
