"""The PartiQL of DynamoDB that touches one item: UPDATE, INSERT, DELETE and SELECT by full key.

Statements are parsed once into the nodes of :mod:`.expressions`. Two rules are stricter than the service:
reserved words must stand in double quotes wherever they name an attribute, and a SELECT must name its key.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .expressions import (
    MAX_IN_OPERANDS,
    Action,
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    Condition,
    Constant,
    In,
    Node,
    Not,
    Or,
    Path,
    Projection,
    References,
    Update,
    checked_call,
    compile_projection,
    compile_update,
    condition_of,
    refuse_overlaps,
)
from .rejection import Rejection, invalid
from .reserved_words import RESERVED_WORDS
from .values import Item, Wire, canonical, canonical_item

MAX_STATEMENT_BYTES = 8192

_WELL_FORMED = "Statement wasn't well formed, can't be processed: "
_TOKEN = re.compile(
    r"""(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*(?:
        (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<parameter>\?)
      | (?P<symbol><<|>>|<>|<=|>=|!=|[=<>()\[\]{},.:+*-])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_COMPARATORS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_WHERE_FUNCTIONS = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_NO_REFERENCES = References(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Template:
    """A literal, possibly with ``?`` inside: ``kind`` is param, wire, map, list or set."""

    kind: str
    content: Any

    def build(self, parameters: Sequence[Wire]) -> Wire:
        """Return the value with the request's parameters filled in."""
        match self.kind:
            case "param":
                return dict(parameters[self.content])
            case "map":
                return {"M": {name: inner.build(parameters) for name, inner in self.content.items()}}
            case "list":
                return {"L": [inner.build(parameters) for inner in self.content]}
            case "set":
                return _built_set([inner.build(parameters) for inner in self.content])
            case _:
                wire: Wire = self.content
                return wire


def _built_set(members: list[Wire]) -> Wire:
    kinds = {next(iter(member)) for member in members}
    if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
        raise invalid(
            "Unsupported data type: the members of a set must be of one type, string, number or binary"
        )
    kind = kinds.pop()
    return {f"{kind}S": [member[kind] for member in members]}


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed statement; ``constants`` are the values that its nodes refer to by name."""

    kind: str
    table: str
    index: str | None
    where: Node | None
    update: Update | None
    projection: Projection | None
    item: Template | None
    returning: str | None
    parameter_count: int
    constants: Mapping[str, Template] = field(default_factory=dict)

    def bind(self, parameters: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Wire], list[Wire]]:
        """Return the values of all constants and the parameters; raises Rejection when the count differs."""
        if len(parameters) != self.parameter_count:
            raise invalid("Number of parameters in request and statement don't match.")
        canonical_parameters = [canonical(parameter)[0] for parameter in parameters]
        return {
            name: (
                canonical_parameters[template.content]
                if template.kind == "param"
                else canonical(template.build(canonical_parameters))[0]
            )
            for name, template in self.constants.items()
        }, canonical_parameters

    def new_item(self, parameters: Sequence[Wire]) -> Item:
        """Return the item of an INSERT."""
        assert self.item is not None
        built = self.item.build(parameters)
        if "M" not in built:
            raise invalid("Expected a map or a parameter of type map in the VALUE clause")
        return canonical_item(built["M"])[0]


@dataclass(frozen=True, slots=True)
class Target:
    """The item that a statement names, and what must hold of it besides."""

    key: Mapping[str, str]
    condition: Condition | None


class _Parser:
    def __init__(self, text: str) -> None:
        if not text.strip():
            raise invalid("The statement was empty.")
        if len(text.encode()) > MAX_STATEMENT_BYTES:
            raise invalid(
                "1 validation error detected: Value at 'statement' failed to satisfy constraint: "
                "Member must have length less than or equal to 8192"
            )
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while True:
            match = _TOKEN.match(text, at)
            if match is None:
                raise invalid(_WELL_FORMED)
            kind = match.lastgroup
            assert kind is not None
            self.tokens.append((kind, match.group(kind)))
            if kind == "end":
                break
            at = match.end()
        self.position = 0
        self.parameter_count = 0
        self.constants: dict[str, Template] = {}

    # -- tokens -------------------------------------------------------------------------------------

    @staticmethod
    def malformed(detail: str) -> Rejection:
        return invalid(_WELL_FORMED + detail)

    @property
    def kind(self) -> str:
        return self.tokens[self.position][0]

    @property
    def text(self) -> str:
        return self.tokens[self.position][1]

    def is_keyword(self, word: str, ahead: int = 0) -> bool:
        index = self.position + ahead
        return index < len(self.tokens) and (
            self.tokens[index][0] == "name" and self.tokens[index][1].upper() == word
        )

    def keyword(self, word: str) -> bool:
        if self.is_keyword(word):
            self.position += 1
            return True
        return False

    def expect_keyword(self, word: str) -> None:
        if not self.keyword(word):
            raise self.malformed(f"Expected keyword {word}")

    def symbol(self, text: str) -> bool:
        if self.kind == "symbol" and self.text == text:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.symbol(text):
            raise self.malformed(f"Expected {text}")

    def name(self) -> str:
        kind, text = self.tokens[self.position]
        if kind == "quoted":
            self.position += 1
            return text[1:-1].replace('""', '"')
        if kind == "name":
            if text.upper() in RESERVED_WORDS:
                raise self.malformed(f"Unexpected keyword {text}; a reserved word stands in double quotes")
            self.position += 1
            return text
        raise self.malformed("Unexpected token, expected an identifier")

    def path(self) -> Path:
        parts: list[str | int] = [self.name()]
        while True:
            if self.symbol("."):
                parts.append(self.name())
            elif self.symbol("["):
                if self.kind != "number" or not self.text.isdigit():
                    raise self.malformed("Invalid path component, expected an index")
                parts.append(int(self.text))
                self.position += 1
                self.expect("]")
            else:
                return Path(tuple(parts))

    # -- literals -----------------------------------------------------------------------------------

    def starts_literal(self) -> bool:
        if self.kind in {"string", "number", "parameter"}:
            return True
        if self.kind == "symbol":
            return self.text in {"{", "[", "<<", "-"}
        return any(self.is_keyword(word) for word in ("TRUE", "FALSE", "NULL"))

    def literal(self) -> Template:
        kind, text = self.tokens[self.position]
        self.position += 1
        match kind, text:
            case "parameter", _:
                self.parameter_count += 1
                return Template("param", self.parameter_count - 1)
            case "string", _:
                return Template("wire", {"S": text[1:-1].replace("''", "'")})
            case "number", _:
                return Template("wire", self._number(text))
            case "symbol", "-" if self.kind == "number":
                self.position += 1
                return Template("wire", self._number("-" + self.tokens[self.position - 1][1]))
            case "symbol", "{":
                return Template("map", self._members())
            case "symbol", "[":
                return Template("list", self._sequence("]"))
            case "symbol", "<<":
                return self._set()
            case "name", _ if text.upper() in {"TRUE", "FALSE"}:
                return Template("wire", {"BOOL": text.upper() == "TRUE"})
            case "name", _ if text.upper() == "NULL":
                return Template("wire", {"NULL": True})
        raise self.malformed("Unexpected token, expected a literal")

    @staticmethod
    def _number(text: str) -> Wire:
        try:
            return canonical({"N": text})[0]
        except Rejection as refused:
            raise invalid(f"{refused.message} under root") from refused

    def _members(self) -> dict[str, Template]:
        members: dict[str, Template] = {}
        if self.symbol("}"):
            return members
        while True:
            if self.kind != "string":
                raise self.malformed("Expected a string as the key of a map")
            name = self.text[1:-1].replace("''", "'")
            self.position += 1
            self.expect(":")
            members[name] = self.literal()
            if self.symbol("}"):
                return members
            self.expect(",")

    def _sequence(self, close: str) -> tuple[Template, ...]:
        elements: list[Template] = []
        if self.symbol(close):
            return ()
        while True:
            elements.append(self.literal())
            if self.symbol(close):
                return tuple(elements)
            self.expect(",")

    def _set(self) -> Template:
        elements = self._sequence(">>")
        if not elements:
            raise invalid("Empty bags are not supported")
        return Template("set", elements)

    def constant(self) -> Constant:
        name = f"?{len(self.constants)}"
        self.constants[name] = self.literal()
        return Constant(name)

    # -- conditions ---------------------------------------------------------------------------------

    def operand(self) -> Node:
        if self.starts_literal():
            return self.constant()
        if self.kind == "name" and self.tokens[self.position + 1] == ("symbol", "("):
            return self.call()
        return self.path()

    def call(self) -> Call:
        name = self.text.lower()
        if name not in _WHERE_FUNCTIONS:
            raise invalid(f"Unrecognized function: {name}")
        self.position += 2
        arguments: list[Node] = []
        while not self.symbol(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.operand())
        return checked_call(name, tuple(arguments), _WHERE_FUNCTIONS, invalid)

    def condition(self) -> Node:
        terms = [self._conjunction()]
        while self.keyword("OR"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _conjunction(self) -> Node:
        terms = [self._negation()]
        while self.keyword("AND"):
            terms.append(self._negation())
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _negation(self) -> Node:
        if self.keyword("NOT"):
            return Not(self._negation())
        if self.symbol("("):
            inner = self.condition()
            self.expect(")")
            return inner
        return self._predicate()

    def _predicate(self) -> Node:
        left = self.operand()
        if self.kind == "symbol" and self.text in _COMPARATORS:
            comparator = "<>" if self.text == "!=" else self.text
            self.position += 1
            return Compare(comparator, left, self.operand())
        if self.keyword("IS"):
            return self._is(left)
        negated = self.keyword("NOT")
        node: Node
        if self.keyword("BETWEEN"):
            low = self.operand()
            self.expect_keyword("AND")
            node = Between(left, low, self.operand())
        elif self.keyword("IN"):
            node = In(left, self._choices())
        elif isinstance(left, Call) and left.function != "size" and not negated:
            node = left
        else:
            raise self.malformed("Unexpected token, expected an operator")
        return Not(node) if negated else node

    def _is(self, left: Node) -> Node:
        negated = self.keyword("NOT")
        if not isinstance(left, Path):
            raise self.malformed("IS requires a document path")
        node: Node
        if self.keyword("MISSING"):
            node = Call("attribute_not_exists", (left,))
        elif self.is_keyword("NULL"):
            node = Compare("=", left, self.constant())
        else:
            raise self.malformed("Expected MISSING or NULL after IS")
        return Not(node) if negated else node

    def _choices(self) -> tuple[Node, ...]:
        close = "]" if self.symbol("[") else ")"
        if close == ")":
            self.expect("(")
        choices = [self.operand()]
        while self.symbol(","):
            choices.append(self.operand())
        self.expect(close)
        if len(choices) > MAX_IN_OPERANDS:
            raise invalid("Number of operands of IN exceeds 100")
        return tuple(choices)

    # -- statements ---------------------------------------------------------------------------------

    def statement(self) -> Statement:
        if self.keyword("UPDATE"):
            return self._update()
        if self.keyword("INSERT"):
            return self._insert()
        if self.keyword("DELETE"):
            self.expect_keyword("FROM")
            table = self._table()
            where = self._where()
            return self._finish("DELETE", table, where=where, returning=self._returning())
        if self.keyword("SELECT"):
            return self._select()
        raise self.malformed("Expected SELECT, INSERT, UPDATE or DELETE")

    def _finish(
        self,
        kind: str,
        table: str,
        *,
        index: str | None = None,
        where: Node | None = None,
        update: Update | None = None,
        projection: Projection | None = None,
        item: Template | None = None,
        returning: str | None = None,
    ) -> Statement:
        if self.kind != "end":
            raise self.malformed("Unexpected token after expression")
        return Statement(
            kind,
            table,
            index,
            where,
            update,
            projection,
            item,
            returning,
            self.parameter_count,
            self.constants,
        )

    def _table(self) -> str:
        name = self.name()
        if self.kind in {"name", "quoted"} and not any(
            self.is_keyword(word) for word in ("SET", "REMOVE", "WHERE", "VALUE", "ORDER", "RETURNING")
        ):
            raise invalid("Aliasing is not supported")
        return name

    def _where(self) -> Node:
        self.expect_keyword("WHERE")
        return self.condition()

    def _select(self) -> Statement:
        projection = None
        if not self.symbol("*"):
            paths = [self.path()]
            while self.symbol(","):
                paths.append(self.path())
            refuse_overlaps(paths, invalid)
            projection = compile_projection(tuple(paths), _NO_REFERENCES)
        self.expect_keyword("FROM")
        table = self._table()
        index = self.name() if self.symbol(".") else None
        where = self._where() if self.is_keyword("WHERE") else None
        return self._finish("SELECT", table, index=index, where=where, projection=projection)

    def _insert(self) -> Statement:
        self.expect_keyword("INTO")
        table = self.name()
        if not self.is_keyword("VALUE"):
            raise self.malformed("Unexpected token after expression")
        self.position += 1
        return self._finish("INSERT", table, item=self.literal())

    def _update(self) -> Statement:
        table = self._table()
        actions: list[Action] = []
        while True:
            if self.keyword("SET"):
                actions.append(self._assignment())
                while self.symbol(","):
                    actions.append(self._assignment())
            elif self.keyword("REMOVE"):
                actions.append(Action("REMOVE", self.path(), None))
            else:
                break
        if not actions:
            raise self.malformed("Expected SET or REMOVE")
        where = self._where()
        update = compile_update(tuple(actions), _NO_REFERENCES, invalid)
        return self._finish("UPDATE", table, where=where, update=update, returning=self._returning())

    def _assignment(self) -> Action:
        path = self.path()
        self.expect("=")
        for function, kind in (("SET_ADD", "ADD"), ("SET_DELETE", "DELETE")):
            if self.is_keyword(function):
                return self._set_change(path, function, kind)
        left = self._value()
        for text, sign in (("+", 1), ("-", -1)):
            if self.symbol(text):
                return Action("SET", path, Arithmetic(left, self._value(), sign))
        return Action("SET", path, left)

    def _set_change(self, path: Path, function: str, kind: str) -> Action:
        self.position += 1
        self.expect("(")
        if self.starts_literal() or self.path() != path:
            raise invalid(f"The first argument to {function} must equal the assignment value")
        self.expect(",")
        constant = self.constant()
        self.expect(")")
        return Action(kind, path, constant)

    def _value(self) -> Node:
        if self.starts_literal():
            return self.constant()
        if self.is_keyword("LIST_APPEND"):
            self.position += 1
            self.expect("(")
            head = self._value()
            self.expect(",")
            tail = self._value()
            self.expect(")")
            return Call("list_append", (head, tail))
        return self.path()

    def _returning(self) -> str | None:
        if not self.keyword("RETURNING"):
            return None
        words = []
        for choices in (("ALL", "MODIFIED"), ("OLD", "NEW")):
            word = next((choice for choice in choices if self.keyword(choice)), None)
            if word is None:
                raise self.malformed("Expected ALL or MODIFIED, then OLD or NEW, after RETURNING")
            words.append(word)
        self.expect("*")
        return " ".join(words)


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Statement:
    """Parse one statement; raises Rejection (ValidationException) when the service would not read it."""
    statement = _Parser(text).statement()
    if statement.kind == "DELETE" and statement.returning not in {None, "ALL OLD"}:
        raise invalid(
            f"Invalid returning clause: RETURNING {statement.returning} *. "
            "Only RETURNING ALL OLD * is allowed in DELETE statements."
        )
    return statement


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, And):
        for term in node.terms:
            yield from _conjuncts(term)
    else:
        yield node


@functools.lru_cache(maxsize=4096)
def target(text: str, key_names: tuple[str, ...]) -> Target:
    """Split the WHERE of a statement into its key and its condition; raises Rejection without a full key."""
    statement = parse(text)
    terms = () if statement.where is None else tuple(_conjuncts(statement.where))
    key: dict[str, str] = {}
    rest: list[Node] = []
    for term in terms:
        match term:
            case Compare(
                comparator="=", left=Path(parts=(str() as name,)), right=Constant(name=constant)
            ) if name in key_names and name not in key:
                key[name] = constant
            case _:
                rest.append(term)
    if set(key) != set(key_names):
        raise invalid("Where clause does not contain a mandatory equality on all key attributes")
    if not rest:
        return Target(key, None)
    return Target(key, condition_of(rest[0] if len(rest) == 1 else And(tuple(rest)), _NO_REFERENCES))
