"""The form fields that a seller asks a buyer for, and the one definition of what each accepts.

The page checks the same rules before it sends anything; a table of cases holds both sides together. A value
is trimmed of what ECMAScript's ``trim`` removes, lengths count Unicode code points after that, and an absent
or empty value of an optional field is no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from awsmp.domain.errors import MeteringError, Misconfigured

#: Longest e-mail address that a mailbox can have (RFC 5321: a path of 256 octets with its brackets).
MAX_EMAIL_LENGTH: Final = 254

# ECMAScript's WhiteSpace and LineTerminator: Python's own strip() knows others.
_BLANKS: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
# The pattern that the HTML standard gives for a valid e-mail address, as browsers check it.
_EMAIL = re.compile(
    r"[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@"
    r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*",
    re.ASCII,
)
_TEL = re.compile(r"\+?[0-9 ().-]{5,32}", re.ASCII)
# Also halves of surrogate pairs: JSON can carry them, no store can.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_OF_TEXTAREA = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class FieldType(StrEnum):
    """What a field holds; the names are those of the HTML elements."""

    TEXT = "text"
    EMAIL = "email"
    TEL = "tel"
    TEXTAREA = "textarea"
    SELECT = "select"
    CHECKBOX = "checkbox"


class FieldCode(StrEnum):
    """Why a field's value is not accepted; the page has a sentence for each."""

    REQUIRED = "Required"
    TOO_LONG = "TooLong"
    INVALID_EMAIL = "InvalidEmail"
    INVALID_TEL = "InvalidTel"
    INVALID_CHOICE = "InvalidChoice"
    INVALID_TYPE = "InvalidType"
    UNKNOWN_FIELD = "UnknownField"
    CONTROL_CHARACTERS = "ControlCharacters"


class InvalidField(MeteringError):
    """One field's value is not accepted, for the reason ``code``."""

    def __init__(self, code: FieldCode) -> None:
        super().__init__(code.value)
        self.code = code


@dataclass(frozen=True, slots=True)
class RegistrationField:
    """One field of the form. ``max_length`` is in code points and unused for a checkbox and a select."""

    name: str
    type: FieldType
    max_length: int
    required: bool
    options: frozenset[str] = frozenset()

    def accept(self, value: object) -> str | bool | None:
        """Return the value as it is stored, None for none.

        Raises
        ------
        InvalidField
            It is not accepted.
        """
        if self.type is FieldType.CHECKBOX:
            return self._accept_checkbox(value)
        if value is None:
            value = ""
        if not isinstance(value, str):
            raise InvalidField(FieldCode.INVALID_TYPE)
        text = value.strip(_BLANKS)
        control = _CONTROL_OF_TEXTAREA if self.type is FieldType.TEXTAREA else _CONTROL
        if control.search(text):
            raise InvalidField(FieldCode.CONTROL_CHARACTERS)
        if not text:
            if self.required:
                raise InvalidField(FieldCode.REQUIRED)
            return None
        code = self._fault_of(text)
        if code is not None:
            raise InvalidField(code)
        return text

    def _accept_checkbox(self, value: object) -> bool | None:
        if value is not None and not isinstance(value, bool):
            raise InvalidField(FieldCode.INVALID_TYPE)
        if self.required and value is not True:
            raise InvalidField(FieldCode.REQUIRED)
        return value

    def _fault_of(self, text: str) -> FieldCode | None:
        if self.type is FieldType.SELECT:
            return None if text in self.options else FieldCode.INVALID_CHOICE
        limit = min(self.max_length, MAX_EMAIL_LENGTH) if self.type is FieldType.EMAIL else self.max_length
        if len(text) > limit:
            return FieldCode.TOO_LONG
        if self.type is FieldType.EMAIL and not _EMAIL.fullmatch(text):
            return FieldCode.INVALID_EMAIL
        if self.type is FieldType.TEL and not _TEL.fullmatch(text):
            return FieldCode.INVALID_TEL
        return None


def accept_all(
    fields: Sequence[RegistrationField], values: Mapping[str, object]
) -> tuple[dict[str, str | bool], dict[str, FieldCode]]:
    """Return the values to store and the code of every field that is not accepted, both by name."""
    accepted: dict[str, str | bool] = {}
    known = {field.name for field in fields}
    faults = {name: FieldCode.UNKNOWN_FIELD for name in values if name not in known}
    for field in fields:
        try:
            value = field.accept(values.get(field.name))
        except InvalidField as invalid:
            faults[field.name] = invalid.code
            continue
        if value is not None:
            accepted[field.name] = value
    return accepted, faults


def parse_fields(text: str) -> tuple[RegistrationField, ...]:
    """Return the fields of a JSON list, as the page's configuration holds it.

    Raises
    ------
    Misconfigured
        It is no such list, a field lacks something, or a name occurs twice.
    """
    try:
        fields = tuple(_field(entry) for entry in _entries(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Misconfigured(f"the registration fields are malformed: {type(error).__name__}") from error
    if len({field.name for field in fields}) < len(fields):
        raise Misconfigured("two registration fields have one name")
    return fields


def _entries(text: str) -> Iterable[Mapping[str, Any]]:
    entries = json.loads(text)
    if not isinstance(entries, list):
        raise TypeError("not a list")
    return entries


def _field(entry: Mapping[str, Any]) -> RegistrationField:
    name, kind, options = entry["name"], FieldType(entry["type"]), entry.get("options") or ()
    if not isinstance(name, str) or not name or type(entry["required"]) is not bool:
        raise TypeError("a field's name is a text and required a truth value")
    measured = kind not in (FieldType.CHECKBOX, FieldType.SELECT)
    max_length = entry["maxLength"] if measured else 0
    if type(max_length) is not int or (measured and max_length < 1):
        raise TypeError("maxLength is a whole number above 0")
    values = frozenset(_option_value(option) for option in options)
    if kind is FieldType.SELECT and not values:
        raise ValueError("a select without options accepts nothing")
    return RegistrationField(name, kind, max_length, entry["required"], values)


def _option_value(option: object) -> str:
    """An option is its value, or an object with ``value`` and a label for the buyer."""
    value = option.get("value") if isinstance(option, Mapping) else option
    if not isinstance(value, str) or not value:
        raise TypeError("an option's value is a text")
    return value
