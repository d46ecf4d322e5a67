"""Attribute values in DynamoDB's wire form: canonical form, size in bytes, ordering, copying.

The canonical form makes equality plain ``==``: numbers are written out in full without superfluous zeros and
sets are sorted. Stored values are never changed in place, so readers may share them.
"""

from __future__ import annotations

import decimal
import functools
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from .rejection import Rejection, invalid

Wire = dict[str, Any]
Item = dict[str, Wire]

MAX_ITEM_BYTES = 400 * 1024
MAX_NUMBER_DIGITS = 38
MAX_NUMBER_EXPONENT = 125
MIN_NUMBER_EXPONENT = -130
MAX_NESTING = 32

_EXACT = decimal.Context(prec=400, Emax=100_000, Emin=-100_000)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?\Z")
_SET_KINDS = {"SS": "S", "NS": "N", "BS": "B"}
_SET_WORDS = {"SS": "string", "NS": "number", "BS": "binary"}
_CONTAINER_OVERHEAD = 3
_ELEMENT_OVERHEAD = 1


def utf8_length(text: str) -> int:
    """Return the length of ``text`` in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


@functools.lru_cache(maxsize=65536)
def number(text: str) -> tuple[str, Decimal, int]:
    """Return canonical text, value and stored bytes of a DynamoDB number.

    The size follows what the service charges: one byte, one per two digits of the integer part and one per
    two digits of the fraction (each rounded up, outer zeros trimmed), one more when negative. Raises
    Rejection beyond 38 significant digits or the magnitudes 1E-130 to 9.99E+125.
    """
    if not _NUMBER.match(text):
        raise invalid(f"The parameter cannot be converted to a numeric value: {text}")
    sign, digits, exponent = _trimmed(Decimal(text, _EXACT))
    if not digits:
        return "0", Decimal(0), 1
    magnitude = len(digits) + exponent - 1
    if len(digits) > MAX_NUMBER_DIGITS:
        raise invalid("Attempting to store more than 38 significant digits in a Number")
    if magnitude > MAX_NUMBER_EXPONENT:
        raise invalid(
            "Number overflow. Attempting to store a number with magnitude larger than supported range"
        )
    if magnitude < MIN_NUMBER_EXPONENT:
        raise invalid(
            "Number underflow. Attempting to store a number with magnitude smaller than supported range"
        )
    value = Decimal((sign, digits, exponent))
    fraction = min(len(digits), -exponent) if exponent < 0 else 0
    if exponent < 0 and len(digits) > -exponent:
        fraction = -exponent
    size = 1 + (len(digits) - fraction + 1) // 2 + (fraction + 1) // 2 + sign
    return format(value, "f"), value, size


def _trimmed(value: Decimal) -> tuple[int, tuple[int, ...], int]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    end = len(digits)
    while end and digits[end - 1] == 0:
        end -= 1
    start = 0
    while start < end and digits[start] == 0:
        start += 1
    return sign, digits[start:end], exponent + len(digits) - end


def add_numbers(left: Wire | None, right: Wire | None, sign: int = 1) -> Wire:
    """Return ``left + sign * right``, exact; raises Rejection for what is no number."""
    if left is None or right is None or "N" not in left or "N" not in right:
        raise invalid("An operand in the update expression has an incorrect data type")
    total = _EXACT.add(number(left["N"])[1], sign * number(right["N"])[1])
    return {"N": number(str(total))[0]}


def canonical(value: Mapping[str, Any], depth: int = 0) -> tuple[Wire, int]:
    """Return the canonical form of ``value`` and its size in bytes; raises Rejection when it is not valid."""
    text = value.get("S")
    if type(text) is str and len(value) == 1:
        return {"S": text}, len(text) if text.isascii() else len(text.encode("utf-8"))
    if len(value) != 1:
        raise invalid(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
            if not value
            else "Supplied AttributeValue has more than one datatypes set, "
            "must contain exactly one of the supported datatypes"
        )
    ((kind, raw),) = value.items()
    if kind == "S" and isinstance(raw, str):
        return {"S": raw}, utf8_length(raw)
    if kind == "N" and isinstance(raw, str):
        text, _, size = number(raw)
        return {"N": text}, size
    return _canonical_other(kind, raw, depth)


def _canonical_other(kind: str, raw: Any, depth: int) -> tuple[Wire, int]:
    if depth >= MAX_NESTING:
        raise invalid("Nesting Levels have exceeded supported limits")
    if kind == "B" and isinstance(raw, bytes | bytearray):
        return {"B": bytes(raw)}, len(raw)
    if kind == "BOOL" and isinstance(raw, bool):
        return {"BOOL": raw}, 1
    if kind == "NULL":
        if raw is not True:
            raise invalid(
                "One or more parameter values were invalid: Null attribute value "
                "types must have the value of true"
            )
        return {"NULL": True}, 1
    if kind == "L" and isinstance(raw, Sequence):
        pairs = [canonical(element, depth + 1) for element in raw]
        return (
            {"L": [element for element, _ in pairs]},
            _CONTAINER_OVERHEAD + sum(size + _ELEMENT_OVERHEAD for _, size in pairs),
        )
    if kind == "M" and isinstance(raw, Mapping):
        entries = {name: canonical(element, depth + 1) for name, element in raw.items()}
        return (
            {"M": {name: element for name, (element, _) in entries.items()}},
            _CONTAINER_OVERHEAD
            + sum(utf8_length(name) + size + _ELEMENT_OVERHEAD for name, (_, size) in entries.items()),
        )
    if (
        kind in _SET_KINDS
        and isinstance(raw, Sequence | set | frozenset)
        and not isinstance(raw, str | bytes)
    ):
        return _canonical_set(kind, list(raw), depth)
    raise Rejection("SerializationException", f"{type(raw).__name__} can not be converted to {kind}")


def _canonical_set(kind: str, members: list[Any], depth: int) -> tuple[Wire, int]:
    if not members:
        raise invalid(
            f"One or more parameter values were invalid: An {_SET_WORDS[kind]} set  may not be empty"
        )
    inner = _SET_KINDS[kind]
    pairs = [canonical({inner: member}, depth) for member in members]
    plain = [element[inner] for element, _ in pairs]
    if len(set(plain)) != len(plain):
        listed = ", ".join(str(member) for member in members)
        raise invalid(
            f"One or more parameter values were invalid: Input collection [{listed}] contains duplicates."
        )
    plain.sort(key=(lambda text: number(text)[1]) if kind == "NS" else None)
    return {kind: plain}, sum(size for _, size in pairs)


def canonical_item(item: Mapping[str, Mapping[str, Any]]) -> tuple[Item, int]:
    """Return the canonical form of ``item`` and its size: names and values, in bytes."""
    out: Item = {}
    total = 0
    for name, value in item.items():
        text = value.get("S") if len(value) == 1 else None
        if type(text) is str:
            # The common case, inlined: most attributes are strings.
            out[name] = {"S": text}
            total += len(text) if text.isascii() else len(text.encode())
        else:
            out[name], size = canonical(value)
            total += size
        total += len(name) if name.isascii() else len(name.encode())
    return out, total


def item_size(item: Mapping[str, Wire]) -> int:
    """Return the bytes of a canonical item, as the 400 KB limit and page sizes count them."""
    total = 0
    for name, value in item.items():
        ((kind, raw),) = value.items()
        total += len(name) if name.isascii() else len(name.encode())
        if kind == "S":
            total += len(raw) if raw.isascii() else len(raw.encode())
        elif kind == "N":
            total += number(raw)[2]
        else:
            total += canonical(value)[1]
    return total


def kind_of(value: Wire) -> str:
    """Return the type of ``value``: S, N, B, BOOL, NULL, L, M, SS, NS or BS."""
    return next(iter(value))


def comparable(value: Wire) -> Any:
    """Return what orders a scalar: text (code points order as UTF-8 does), Decimal or bytes."""
    ((kind, raw),) = value.items()
    return number(raw)[1] if kind == "N" else raw


def copy_value(value: Wire) -> Wire:
    """Return a deep copy that the caller may change."""
    ((kind, raw),) = value.items()
    if kind == "M":
        return {"M": {name: copy_value(element) for name, element in raw.items()}}
    if kind == "L":
        return {"L": [copy_value(element) for element in raw]}
    if kind in _SET_KINDS:
        return {kind: list(raw)}
    return {kind: raw}


_SCALARS = frozenset({"S", "N", "B", "BOOL", "NULL"})


def copy_item(item: Mapping[str, Wire]) -> Item:
    """Return a deep copy of ``item``."""
    return {
        name: value.copy() if next(iter(value)) in _SCALARS else copy_value(value)
        for name, value in item.items()
    }
