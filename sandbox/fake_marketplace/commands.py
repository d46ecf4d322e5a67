"""The admin API's commands and queries: JSON in, JSON out, over the engine's methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sandbox.fake_marketplace.engine import FakeMarketplace
from sandbox.fake_marketplace.events import CancellationStatus
from sandbox.fake_marketplace.faults import BATCH_METER_USAGE, Fault, FaultRates, Moment, RecordEffect
from sandbox.fake_marketplace.subscriptions import AgreementStatus, Intent

Arguments = Mapping[str, Any]


class UnknownCommand(Exception):
    """No command or query has this name."""


def to_json(value: Any) -> Any:
    """Return JSON types: instants as ISO text, decimals as plain text, sets sorted."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_json(value._asdict())
    if isinstance(value, Mapping):
        return {str(name): to_json(item) for name, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(to_json(item) for item in value)
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value


def parse_instant(text: object) -> datetime:
    """Return an aware instant.

    Raises:
        ValueError: no ISO 8601 text, or one without an offset.
    """
    instant = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} lacks an offset from UTC")
    return instant


def _optional_instant(arguments: dict[str, Any], name: str) -> None:
    if arguments.get(name) is not None:
        arguments[name] = parse_instant(arguments[name])


def _life(arguments: dict[str, Any]) -> None:
    seconds = arguments.pop("life_seconds", None)
    if seconds is not None:
        arguments["life"] = timedelta(seconds=float(seconds))


def fault_from_json(arguments: Arguments) -> Fault:
    """Return a fault.

    Raises:
        TypeError: an argument is unknown.
        ValueError: a value does not fit.
    """
    values = dict(arguments)
    _optional_instant(values, "until")
    if "moment" in values:
        values["moment"] = Moment(values["moment"])
    if values.get("effect") is not None:
        values["effect"] = RecordEffect(values["effect"])
    if values.get("positions") is not None:
        values["positions"] = tuple(int(position) for position in values["positions"])
    return Fault(**values)


def _create_agreement(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    _optional_instant(arguments, "end_time")
    if "intent" in arguments:
        arguments["intent"] = Intent(arguments["intent"])
    agreement, event = engine.create_agreement(**arguments)
    return {"agreement": agreement, "events": [event]}


def _activate_license(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    _optional_instant(arguments, "at")
    grant, event = engine.activate_license(**arguments)
    return {"license": grant, "events": [event]}


def _subscribe(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    _optional_instant(arguments, "end_time")
    _optional_instant(arguments, "activate_at")
    return engine.subscribe(**arguments)


def _amend_agreement(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    _optional_instant(arguments, "end_time")
    return {"events": [engine.amend_agreement(**arguments)]}


def _end_agreement(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    if "status" in arguments:
        arguments["status"] = AgreementStatus(arguments["status"])
    return {"events": [engine.end_agreement(**arguments)]}


def _request_cancellation(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    arguments["status"] = CancellationStatus(arguments["status"])
    return {"events": [engine.request_cancellation(**arguments)]}


def _mint_token(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    _life(arguments)
    return {"token": engine.mint_token(**arguments)}


def _mint_legacy_token(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    _life(arguments)
    return {"token": engine.mint_legacy_token(**arguments)}


def _configure(engine: FakeMarketplace, arguments: dict[str, Any]) -> Any:
    engine.configure(**arguments)
    return engine.settings.to_json()


def _none(call: Callable[..., object]) -> Callable[[dict[str, Any]], Any]:
    def run(arguments: dict[str, Any]) -> Any:
        call(**arguments)
        return {}

    return run


def run_command(engine: FakeMarketplace, name: str, arguments: Arguments) -> Any:
    """Run the command ``name`` and return its JSON answer.

    Raises:
        UnknownCommand: there is none of this name.
        KeyError, TypeError, ValueError: an argument is missing, unknown or does not fit.
    """
    values = dict(arguments)
    table: dict[str, Callable[[], Any]] = {
        "create-product": lambda: engine.create_product(**values),
        "create-agreement": lambda: _create_agreement(engine, values),
        "create-license": lambda: engine.create_license(**values),
        "activate-license": lambda: _activate_license(engine, values),
        "update-license": lambda: {"events": [engine.update_license(**values)]},
        "deprovision-license": lambda: {"events": [engine.deprovision_license(**values)]},
        "subscribe": lambda: _subscribe(engine, values),
        "amend-agreement": lambda: _amend_agreement(engine, values),
        "end-agreement": lambda: _end_agreement(engine, values),
        "request-cancellation": lambda: _request_cancellation(engine, values),
        "suspend-account": lambda: _none(engine.suspend_account)(values),
        "resume-account": lambda: _none(engine.resume_account)(values),
        "create-legacy-customer": lambda: engine.create_legacy_customer(**values),
        "end-legacy-customer": lambda: _none(engine.end_legacy_customer)(values),
        "mint-token": lambda: _mint_token(engine, values),
        "mint-legacy-token": lambda: _mint_legacy_token(engine, values),
        "expire-token": lambda: _none(engine.expire_token)(values),
        "configure": lambda: _configure(engine, values),
        "arm-fault": lambda: _none(engine.arm)({"fault": fault_from_json(values)}),
        "set-fault-rates": lambda: _none(engine.set_fault_rates)({"rates": FaultRates(**values)}),
        "clear-faults": lambda: _none(engine.faults.clear)(values),
    }
    if name not in table:
        raise UnknownCommand(name)
    return to_json(table[name]())


def run_query(engine: FakeMarketplace, name: str, since: int) -> Any:
    """Answer the query ``name``; lists start at their ``since``-th entry, so that a reader can follow them.

    Raises:
        UnknownCommand: there is none of this name.
    """
    table: dict[str, Callable[[], Any]] = {
        "settings": engine.settings.to_json,
        "requests": lambda: engine.requests(None)[since:],
        "honoured": lambda: engine.honoured()[since:],
        "events": lambda: engine.events()[since:],
        "licenses": engine.licenses,
        "agreements": engine.agreements,
        "faults": lambda: {"armed": [asdict(f) for f in engine.faults.pending()], "hits": engine.faults.hits},
        "summary": lambda: _summary(engine),
    }
    if name not in table:
        raise UnknownCommand(name)
    return to_json(table[name]())


def _summary(engine: FakeMarketplace) -> dict[str, Any]:
    return {
        "requests": len(engine.requests(BATCH_METER_USAGE)),
        "requests_in_busiest_second": engine.max_requests_in_any_second(),
        "honoured": engine.honoured_count(),
        "quantity": sum((Decimal(record.quantity) for record in engine.honoured()), Decimal(0)),
        "billed_twice": len(engine.billed_twice()),
    }
