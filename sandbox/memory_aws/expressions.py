"""DynamoDB's expression language: parsed once, checked, and compiled into closures.

A condition becomes ``test(item, values)``, an update ``apply(item, values)``, a projection
``project(item)``. ``values`` maps placeholders (``:v``) to canonical attribute values. PartiQL statements
are compiled through the same nodes, so both languages share one meaning.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .rejection import Rejection, invalid
from .reserved_words import RESERVED_WORDS
from .values import Item, Wire, add_numbers, comparable, kind_of

MAX_EXPRESSION_BYTES = 4096
MAX_IN_OPERANDS = 100

Values = Mapping[str, Wire]
Operand = Callable[[Mapping[str, Wire], Values], Wire | None]
Test = Callable[[Mapping[str, Wire], Values], bool]
Parts = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Path:
    """A document path such as ``a.b[3]``, names resolved."""

    parts: Parts

    def __str__(self) -> str:
        """Show the path as AWS does in its messages."""
        return "[" + ", ".join(f"[{part}]" if isinstance(part, int) else part for part in self.parts) + "]"


@dataclass(frozen=True, slots=True)
class Constant:
    """A placeholder whose value comes with the request."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function call: ``size(path)``, ``begins_with(a, b)``, ``if_not_exists(path, operand)`` and so on."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left + right`` (sign 1) or ``left - right`` (sign -1)."""

    left: Node
    right: Node
    sign: int


@dataclass(frozen=True, slots=True)
class Compare:
    """``left <comparator> right``."""

    comparator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """``operand BETWEEN low AND high``, both ends included."""

    operand: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In:
    """``operand IN (a, b, ...)``."""

    operand: Node
    choices: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class And:
    """Every term holds."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one term holds."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The term does not hold."""

    term: Node


Node = Path | Constant | Call | Arithmetic | Compare | Between | In | And | Or | Not


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an update: ``kind`` is SET, REMOVE, ADD or DELETE; REMOVE has no operand."""

    kind: str
    path: Path
    operand: Node | None


@dataclass(frozen=True, slots=True)
class References:
    """The placeholders that an expression uses, with their leading ``#`` and ``:``."""

    names: frozenset[str]
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class TypeRule:
    """A constant operand whose type the service checks before it looks at any item."""

    function: str
    constant: str
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition or filter."""

    node: Node
    test: Test
    references: References
    attributes: frozenset[str]
    rules: tuple[TypeRule, ...]
    ranges: tuple[tuple[str, str], ...]

    def check(self, values: Values, label: str) -> None:
        """Refuse constants whose type the operators cannot take; ``label`` opens the message."""
        check_rules(self.rules, self.ranges, values, label)


@dataclass(frozen=True, slots=True)
class Update:
    """A compiled update."""

    actions: tuple[Action, ...]
    apply: Callable[[Mapping[str, Wire], Values], Item]
    references: References
    attributes: frozenset[str]
    """The top-level attributes that the update may change."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The document paths that the update may change."""
        return tuple(action.path for action in self.actions)


@dataclass(frozen=True, slots=True)
class Projection:
    """A compiled projection."""

    paths: tuple[Path, ...]
    project: Callable[[Mapping[str, Wire]], Item]
    references: References

    @property
    def attributes(self) -> frozenset[str]:
        """The top-level attributes that the projection reads."""
        return frozenset(str(path.parts[0]) for path in self.paths)


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<alias>\#[A-Za-z0-9_]+)
      | (?P<value>:[A-Za-z0-9_]+)
      | (?P<number>[0-9]+)
      | (?P<symbol><>|<=|>=|[=<>()\[\],.+-])
    )""",
    re.VERBOSE,
)
_COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SCALAR_KINDS = frozenset({"S", "N", "B"})
_TYPE_NAMES = frozenset({"S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"})
_CONDITION_FUNCTIONS = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_UPDATE_FUNCTIONS = {"if_not_exists": 2, "list_append": 2}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


class _Parser:
    """Recursive descent over one expression; raises Rejection with AWS's wording."""

    def __init__(self, text: str, names: Mapping[str, str], label: str) -> None:
        self.label = label
        self.names = names
        self.used_names: set[str] = set()
        self.used_values: set[str] = set()
        if not text.strip():
            raise self.error("The expression can not be empty;")
        if len(text.encode()) > MAX_EXPRESSION_BYTES:
            raise self.error(
                "Expression size has exceeded the maximum allowed size; "
                f"expression size: {len(text.encode())}"
            )
        self.tokens = self._tokenize(text)
        self.position = 0

    def error(self, message: str) -> Rejection:
        return invalid(f"Invalid {self.label}: {message}")

    def _tokenize(self, text: str) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                bad = text[at:].lstrip()[:1]
                raise self.error(
                    f'Syntax error; token: "{bad}", near: "{text[max(at - 8, 0) : at + 8].strip()}"'
                )
            kind = match.lastgroup
            assert kind is not None
            tokens.append(_Token(kind, match.group(kind)))
            at = match.end()
        tokens.append(_Token("end", "<EOF>"))
        return tokens

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def syntax_error(self) -> Rejection:
        start = max(self.position - 1, 0)
        near = " ".join(token.text for token in self.tokens[start : self.position + 2] if token.kind != "end")
        return self.error(f'Syntax error; token: "{self.token.text}", near: "{near}"')

    def take(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def accept(self, symbol: str) -> bool:
        if self.token.kind == "symbol" and self.token.text == symbol:
            self.position += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self.syntax_error()

    def keyword(self, word: str) -> bool:
        if self.token.kind == "name" and self.token.text.upper() == word:
            self.position += 1
            return True
        return False

    def finish(self) -> None:
        if self.token.kind != "end":
            raise self.syntax_error()

    # -- operands -----------------------------------------------------------------------------------

    def path(self) -> Path:
        parts: list[str | int] = [self._path_name()]
        while True:
            if self.accept("."):
                parts.append(self._path_name())
            elif self.accept("["):
                if self.token.kind != "number":
                    raise self.syntax_error()
                parts.append(int(self.take().text))
                self.expect("]")
            else:
                return Path(tuple(parts))

    def _path_name(self) -> str:
        token = self.token
        if token.kind == "alias":
            self.position += 1
            self.used_names.add(token.text)
            if token.text not in self.names:
                raise self.error(
                    "An expression attribute name used in the document path is not defined; "
                    f"attribute name: {token.text}"
                )
            return self.names[token.text]
        if token.kind != "name":
            raise self.syntax_error()
        if token.text.upper() in RESERVED_WORDS:
            raise self.error(f"Attribute name is a reserved keyword; reserved keyword: {token.text}")
        self.position += 1
        return token.text

    def constant(self) -> Constant:
        token = self.take()
        self.used_values.add(token.text)
        return Constant(token.text)

    def operand(self, functions: Mapping[str, int]) -> Node:
        token = self.token
        if token.kind == "value":
            return self.constant()
        if token.kind == "name" and self._next_is_call():
            return self.call(functions)
        return self.path()

    def _next_is_call(self) -> bool:
        following = self.tokens[self.position + 1]
        return following.kind == "symbol" and following.text == "("

    def call(self, functions: Mapping[str, int]) -> Call:
        name = self.take().text
        if name not in _CONDITION_FUNCTIONS and name not in _UPDATE_FUNCTIONS:
            raise self.error(f"Invalid function name; function: {name}")
        if name not in functions:
            raise self.error(f"The function is not allowed in this expression; function: {name}")
        self.expect("(")
        arguments = [self.operand(functions)]
        while self.accept(","):
            arguments.append(self.operand(functions))
        self.expect(")")
        return checked_call(name, tuple(arguments), functions, self.error)

    # -- conditions ---------------------------------------------------------------------------------

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
        if self.accept("("):
            doubled = self.token.text == "("
            start = self.position
            inner = self.condition()
            if doubled and self._closes(start):
                raise self.error("The expression has redundant parentheses;")
            self.expect(")")
            return inner
        return self._predicate()

    def _closes(self, start: int) -> bool:
        """Say whether the group opened at ``start`` ended just before the current token."""
        depth = 0
        for index in range(start, self.position):
            text = self.tokens[index].text
            depth += (text == "(") - (text == ")")
            if depth == 0:
                return index == self.position - 1
        return False

    def _predicate(self) -> Node:
        left = self.operand(_CONDITION_FUNCTIONS)
        if self.token.kind == "symbol" and self.token.text in _COMPARATORS:
            comparator = self.take().text
            right = self.operand(_CONDITION_FUNCTIONS)
            return self._distinct(Compare(comparator, left, right))
        if self.keyword("BETWEEN"):
            low = self.operand(_CONDITION_FUNCTIONS)
            if not self.keyword("AND"):
                raise self.syntax_error()
            return Between(left, low, self.operand(_CONDITION_FUNCTIONS))
        if self.keyword("IN"):
            self.expect("(")
            choices = [self.operand(_CONDITION_FUNCTIONS)]
            while self.accept(","):
                choices.append(self.operand(_CONDITION_FUNCTIONS))
            self.expect(")")
            if len(choices) > MAX_IN_OPERANDS:
                raise self.error("Invalid number of operands for operator IN")
            return In(left, tuple(choices))
        if isinstance(left, Call) and left.function != "size":
            return left
        raise self.syntax_error()

    def _distinct(self, comparison: Compare) -> Compare:
        if isinstance(comparison.left, Path) and comparison.left == comparison.right:
            raise self.error(
                "The first operand must be distinct from the remaining "
                "operands for this operator or function; "
                f"operator: {comparison.comparator}, first operand: {comparison.left}"
            )
        return comparison

    # -- updates ------------------------------------------------------------------------------------

    def update(self) -> tuple[Action, ...]:
        actions: list[Action] = []
        seen: set[str] = set()
        while self.token.kind != "end":
            clause = self.token.text.upper()
            if self.token.kind != "name" or clause not in {"SET", "REMOVE", "ADD", "DELETE"}:
                raise self.syntax_error()
            if clause in seen:
                raise self.error(f'The "{clause}" section can only be used once in an update expression;')
            seen.add(clause)
            self.position += 1
            actions.append(self._action(clause))
            while self.accept(","):
                actions.append(self._action(clause))
        return tuple(actions)

    def _action(self, clause: str) -> Action:
        path = self.path()
        if clause == "REMOVE":
            return Action(clause, path, None)
        if clause == "SET":
            self.expect("=")
            return Action(clause, path, self._set_value())
        if self.token.kind != "value":
            raise self.syntax_error()
        return Action(clause, path, self.constant())

    def _set_value(self) -> Node:
        left = self._set_operand()
        for symbol, sign in (("+", 1), ("-", -1)):
            if self.accept(symbol):
                return Arithmetic(left, self._set_operand(), sign)
        return left

    def _set_operand(self) -> Node:
        if self.accept("("):
            inner = self._set_value()
            self.expect(")")
            return inner
        return self.operand(_UPDATE_FUNCTIONS)

    def projection(self) -> tuple[Path, ...]:
        paths = [self.path()]
        while self.accept(","):
            paths.append(self.path())
        return tuple(paths)

    def references(self) -> References:
        return References(frozenset(self.used_names), frozenset(self.used_values))


def checked_call(
    name: str, arguments: tuple[Node, ...], functions: Mapping[str, int], error: Callable[[str], Rejection]
) -> Call:
    """Return the call after checking its operands' number and that paths stand where AWS asks for paths."""
    if len(arguments) != functions[name]:
        raise error(
            "Incorrect number of operands for operator or function; "
            f"operator or function: {name}, number of operands: {len(arguments)}"
        )
    needs_path = name in {
        "attribute_exists",
        "attribute_not_exists",
        "attribute_type",
        "size",
        "if_not_exists",
    }
    if needs_path and not isinstance(arguments[0], Path):
        raise error(f"Operator or function requires a document path; operator or function: {name}")
    return Call(name, arguments)


# -- compilation ------------------------------------------------------------------------------------


def resolve(item: Mapping[str, Wire], parts: Parts) -> Wire | None:
    """Return the value at a document path, or None."""
    current: Wire | None = item.get(parts[0])  # type: ignore[arg-type]
    for part in parts[1:]:
        if current is None:
            return None
        if isinstance(part, int):
            elements = current.get("L")
            current = elements[part] if elements is not None and part < len(elements) else None
        else:
            members = current.get("M")
            current = members.get(part) if members is not None else None
    return current


def compile_operand(node: Node) -> Operand:
    """Compile what yields a value."""
    match node:
        case Path(parts=(str() as name,)):
            return lambda item, values: item.get(name)
        case Path(parts=parts):
            return lambda item, values: resolve(item, parts)
        case Constant(name=placeholder):
            return lambda item, values: values[placeholder]
        case Call(function="size", arguments=(argument,)):
            inner = compile_operand(argument)
            return lambda item, values: _size(inner(item, values))
        case Call(function="if_not_exists", arguments=(present, fallback)):
            return _first_present(compile_operand(present), compile_operand(fallback))
        case Call(function="list_append", arguments=(head, tail)):
            return _list_append(compile_operand(head), compile_operand(tail))
        case Arithmetic(left=left, right=right, sign=sign):
            first, second = _required(compile_operand(left)), _required(compile_operand(right))
            return lambda item, values: add_numbers(first(item, values), second(item, values), sign)
    raise invalid(f"An operand is not allowed here: {node}")


def _size(value: Wire | None) -> Wire | None:
    if value is None:
        return None
    ((kind, raw),) = value.items()
    return {"N": str(len(raw))} if kind in {"S", "B", "SS", "NS", "BS", "L", "M"} else None


def _required(operand: Operand) -> Operand:
    def evaluate(item: Mapping[str, Wire], values: Values) -> Wire:
        value = operand(item, values)
        if value is None:
            raise invalid("The provided expression refers to an attribute that does not exist in the item")
        return value

    return evaluate


def _first_present(present: Operand, fallback: Operand) -> Operand:
    def evaluate(item: Mapping[str, Wire], values: Values) -> Wire | None:
        value = present(item, values)
        return fallback(item, values) if value is None else value

    return evaluate


def _list_append(head: Operand, tail: Operand) -> Operand:
    first, second = _required(head), _required(tail)

    def evaluate(item: Mapping[str, Wire], values: Values) -> Wire:
        left, right = first(item, values), second(item, values)
        if left is None or right is None or "L" not in left or "L" not in right:
            raise invalid("An operand in the update expression has an incorrect data type")
        return {"L": [*left["L"], *right["L"]]}

    return evaluate


def compile_test(node: Node) -> Test:
    """Compile what yields true or false."""
    match node:
        case And(terms=terms):
            tests = tuple(compile_test(term) for term in terms)
            return lambda item, values: all(test(item, values) for test in tests)
        case Or(terms=terms):
            tests = tuple(compile_test(term) for term in terms)
            return lambda item, values: any(test(item, values) for test in tests)
        case Not(term=term):
            inner = compile_test(term)
            return lambda item, values: not inner(item, values)
        case Compare(comparator=comparator, left=left, right=right):
            return _comparison(comparator, compile_operand(left), compile_operand(right))
        case Between(operand=operand, low=low, high=high):
            at_least = _comparison(">=", compile_operand(operand), compile_operand(low))
            at_most = _comparison("<=", compile_operand(operand), compile_operand(high))
            return lambda item, values: at_least(item, values) and at_most(item, values)
        case In(operand=operand, choices=choices):
            subject = compile_operand(operand)
            candidates = tuple(compile_operand(choice) for choice in choices)
            return lambda item, values: _is_in(subject(item, values), candidates, item, values)
        case Call(function=function, arguments=arguments) if function != "size":
            return _function_test(function, arguments)
    raise invalid(f"A condition is expected: {node}")


def _comparison(comparator: str, left: Operand, right: Operand) -> Test:
    if comparator == "=":

        def equal(item: Mapping[str, Wire], values: Values) -> bool:
            value = left(item, values)
            return value is not None and value == right(item, values)

        return equal
    if comparator == "<>":
        # An absent attribute is unequal to everything, another absent attribute included.
        def unequal(item: Mapping[str, Wire], values: Values) -> bool:
            value = left(item, values)
            return value is None or value != right(item, values)

        return unequal
    ordering = _ORDERINGS[comparator]

    def ordered(item: Mapping[str, Wire], values: Values) -> bool:
        first, second = left(item, values), right(item, values)
        if first is None or second is None:
            return False
        kind = kind_of(first)
        return (
            kind == kind_of(second)
            and kind in _SCALAR_KINDS
            and ordering(comparable(first), comparable(second))
        )

    return ordered


def _is_in(
    subject: Wire | None, candidates: tuple[Operand, ...], item: Mapping[str, Wire], values: Values
) -> bool:
    return subject is not None and any(candidate(item, values) == subject for candidate in candidates)


def _function_test(function: str, arguments: tuple[Node, ...]) -> Test:
    first = compile_operand(arguments[0])
    if function == "attribute_exists":
        return lambda item, values: first(item, values) is not None
    if function == "attribute_not_exists":
        return lambda item, values: first(item, values) is None
    second = compile_operand(arguments[1])
    tests = {"attribute_type": _has_type, "begins_with": _begins_with, "contains": _contains}
    test = tests[function]

    def evaluate(item: Mapping[str, Wire], values: Values) -> bool:
        subject, argument = first(item, values), second(item, values)
        return subject is not None and argument is not None and test(subject, argument)

    return evaluate


def _has_type(subject: Wire, wanted: Wire) -> bool:
    return kind_of(subject) == wanted.get("S")


def _begins_with(subject: Wire, prefix: Wire) -> bool:
    kind = kind_of(subject)
    return kind in {"S", "B"} and kind in prefix and subject[kind].startswith(prefix[kind])


def _contains(subject: Wire, wanted: Wire) -> bool:
    ((kind, raw),) = subject.items()
    if kind in {"S", "B"}:
        return kind in wanted and wanted[kind] in raw
    if kind in {"SS", "NS", "BS"}:
        return kind[0] in wanted and wanted[kind[0]] in raw
    return kind == "L" and wanted in raw


def constraints(node: Node) -> tuple[tuple[TypeRule, ...], tuple[tuple[str, str], ...]]:
    """Return the type rules of a condition's constants and the (low, high) constants of its BETWEENs."""
    rules: list[TypeRule] = []
    ranges: list[tuple[str, str]] = []
    for part in walk(node):
        match part:
            case Compare(comparator=comparator, left=left, right=right) if comparator in _ORDERINGS:
                rules += _rules(comparator, _SCALAR_KINDS, (left, right))
            case Between(operand=operand, low=low, high=high):
                rules += _rules("BETWEEN", _SCALAR_KINDS, (operand, low, high))
                if isinstance(low, Constant) and isinstance(high, Constant):
                    ranges.append((low.name, high.name))
            case Call(function="begins_with", arguments=arguments):
                rules += _rules("begins_with", frozenset({"S", "B"}), arguments)
            case Call(function="attribute_type", arguments=(_, wanted)):
                rules += _rules("attribute_type", frozenset({"S"}), (wanted,))
    return tuple(rules), tuple(ranges)


def _rules(function: str, kinds: frozenset[str], nodes: Iterable[Node]) -> list[TypeRule]:
    return [TypeRule(function, node.name, kinds) for node in nodes if isinstance(node, Constant)]


def walk(node: Node) -> Iterable[Node]:
    """Yield ``node`` and every node below it."""
    yield node
    match node:
        case And(terms=children) | Or(terms=children) | Call(arguments=children):
            below: tuple[Node, ...] = children
        case Not(term=child):
            below = (child,)
        case Compare(left=left, right=right) | Arithmetic(left=left, right=right):
            below = (left, right)
        case Between(operand=operand, low=low, high=high):
            below = (operand, low, high)
        case In(operand=operand, choices=choices):
            below = (operand, *choices)
        case _:
            below = ()
    for child in below:
        yield from walk(child)


def attributes_of(node: Node) -> frozenset[str]:
    """Return the top-level attributes that ``node`` reads."""
    return frozenset(str(part.parts[0]) for part in walk(node) if isinstance(part, Path))


def check_rules(
    rules: tuple[TypeRule, ...], ranges: tuple[tuple[str, str], ...], values: Values, label: str
) -> None:
    """Raise Rejection for a constant whose type its operator cannot take."""
    for rule in rules:
        kind = kind_of(values[rule.constant])
        if kind not in rule.kinds:
            raise invalid(
                f"{label}Incorrect operand type for operator or function; "
                f"operator or function: {rule.function}, operand type: {kind}"
            )
        if rule.function == "attribute_type" and values[rule.constant]["S"] not in _TYPE_NAMES:
            raise invalid(f"{label}Invalid attribute type name found; type: {values[rule.constant]['S']}")
    for low, high in ranges:
        if kind_of(values[low]) != kind_of(values[high]):
            raise invalid(
                f"{label}The BETWEEN operator requires same data type for lower and upper bounds; "
                f"lower bound operand: AttributeValue: {values[low]}, "
                f"upper bound operand: AttributeValue: {values[high]}"
            )
        if comparable(values[low]) > comparable(values[high]):
            raise invalid(
                f"{label}The BETWEEN operator requires upper bound to be "
                "greater than or equal to lower bound; "
                f"lower bound operand: AttributeValue: {values[low]}, "
                f"upper bound operand: AttributeValue: {values[high]}"
            )


# -- updates and projections --------------------------------------------------------------------------


def compile_update(
    actions: tuple[Action, ...], references: References, error: Callable[[str], Rejection]
) -> Update:
    """Compile checked actions; raises Rejection when two of their paths overlap."""
    refuse_overlaps([action.path for action in actions], error)
    assignments = [
        (action.kind, action.path.parts, _required(compile_operand(action.operand)))
        for action in actions
        if action.operand is not None
    ]
    # Removals run last and from the highest list index down: every index means the list as it was before.
    removals = sorted(
        (action.path.parts for action in actions if action.operand is None),
        key=lambda parts: [part if isinstance(part, int) else -1 for part in parts],
        reverse=True,
    )
    # Elements beyond a list's end are appended in the order of their indexes.
    assignments.sort(key=lambda entry: entry[1][-1] if isinstance(entry[1][-1], int) else -1)

    def apply(item: Mapping[str, Wire], values: Values) -> Item:
        computed = [(kind, parts, operand(item, values)) for kind, parts, operand in assignments]
        changed = dict(item)
        for kind, parts, value in computed:
            assert value is not None
            if kind == "SET":
                set_path(changed, parts, value)
            else:
                _change_set(changed, parts, kind, resolve(item, parts), value)
        for parts in removals:
            remove_path(changed, parts)
        return changed

    attributes = frozenset(str(action.path.parts[0]) for action in actions)
    return Update(actions, apply, references, attributes)


def _change_set(changed: Item, parts: Parts, kind: str, present: Wire | None, value: Wire) -> None:
    """Apply ADD or DELETE to what is ``present`` at the path."""
    given = kind_of(value)
    if given not in ({"N", "SS", "NS", "BS"} if kind == "ADD" else {"SS", "NS", "BS"}):
        raise invalid(
            "Invalid UpdateExpression: Incorrect operand type for operator or function; "
            f"operator: {kind}, operand type: {_LONG_NAMES[given]}, typeSet: ALLOWED_FOR_{kind}_OPERAND"
        )
    if present is None:
        if kind == "ADD":
            set_path(changed, parts, value)
        return
    if kind_of(present) != given:
        raise invalid("An operand in the update expression has an incorrect data type")
    if given == "N":
        set_path(changed, parts, add_numbers(present, value))
        return
    members = set(present[given])
    members = members | set(value[given]) if kind == "ADD" else members - set(value[given])
    if members:
        ordered = sorted(members, key=lambda member: comparable({given[0]: member}))
        set_path(changed, parts, {given: ordered})
    else:
        remove_path(changed, parts)


_LONG_NAMES = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "BOOL": "BOOLEAN",
    "NULL": "NULL",
    "L": "LIST",
    "M": "MAP",
    "SS": "STRING_SET",
    "NS": "NUMBER_SET",
    "BS": "BINARY_SET",
}
_BAD_PATH = "The document path provided in the update expression is invalid for update"


def set_path(item: Item, parts: Parts, value: Wire) -> None:
    """Set a document path, copying the containers on the way; raises Rejection when one is missing."""
    if len(parts) == 1:
        item[str(parts[0])] = value
        return
    container = _opened(item, parts)
    last = parts[-1]
    if isinstance(last, int):
        if not isinstance(container, list):
            raise invalid(_BAD_PATH)
        if last < len(container):
            container[last] = value
        else:
            container.append(value)
    elif isinstance(container, dict):
        container[last] = value
    else:
        raise invalid(_BAD_PATH)


def remove_path(item: Item, parts: Parts) -> None:
    """Remove what a document path names; nothing happens when the last step is absent."""
    if len(parts) == 1:
        item.pop(str(parts[0]), None)
        return
    container = _opened(item, parts)
    last = parts[-1]
    if isinstance(last, int) and isinstance(container, list):
        if last < len(container):
            del container[last]
    elif isinstance(last, str) and isinstance(container, dict):
        container.pop(last, None)
    else:
        raise invalid(_BAD_PATH)


def _opened(item: Item, parts: Parts) -> Any:
    """Return a private copy of the container that holds the last part of a path."""
    holder: Any = item
    key: Any = parts[0]
    for part in parts[1:]:
        value = holder.get(key) if isinstance(holder, dict) else _element(holder, key)
        kind = "L" if isinstance(part, int) else "M"
        if value is None or kind not in value:
            raise invalid(_BAD_PATH)
        inner = list(value["L"]) if kind == "L" else dict(value["M"])
        holder[key] = {kind: inner}
        holder, key = inner, part
    return holder


def _element(elements: list[Wire], index: int) -> Wire | None:
    return elements[index] if index < len(elements) else None


def refuse_overlaps(paths: list[Path], error: Callable[[str], Rejection]) -> None:
    """Raise Rejection when one path is, or contains, another."""
    for index, one in enumerate(paths):
        for two in paths[index + 1 :]:
            shared = min(len(one.parts), len(two.parts))
            if one.parts[:shared] == two.parts[:shared]:
                raise error(
                    "Two document paths overlap with each other; must remove or rewrite one of these paths; "
                    f"path one: {one}, path two: {two}"
                )


def compile_projection(paths: tuple[Path, ...], references: References) -> Projection:
    """Compile paths into a function that keeps only them."""
    if all(len(path.parts) == 1 for path in paths):
        flat = tuple(str(path.parts[0]) for path in paths)
        return Projection(paths, lambda item: {name: item[name] for name in flat if name in item}, references)

    def project(item: Mapping[str, Wire]) -> Item:
        out: Item = {}
        for name in dict.fromkeys(str(path.parts[0]) for path in paths):
            below = [path.parts[1:] for path in paths if path.parts[0] == name]
            kept = _kept(item.get(name), below)
            if kept is not None:
                out[name] = kept
        return out

    return Projection(paths, project, references)


def _kept(value: Wire | None, below: list[Parts]) -> Wire | None:
    """Return the part of ``value`` that the paths below it keep, or None."""
    if value is None or () in below:
        return value
    if "M" in value:
        members = {
            name: kept
            for name in dict.fromkeys(parts[0] for parts in below)
            if isinstance(name, str)
            and (kept := _kept(value["M"].get(name), [parts[1:] for parts in below if parts[0] == name]))
            is not None
        }
        return {"M": members} if members else None
    if "L" in value:
        wanted = sorted({parts[0] for parts in below if isinstance(parts[0], int)})
        elements = [
            kept
            for index in wanted
            if (kept := _kept(_element(value["L"], index), [p[1:] for p in below if p[0] == index]))
            is not None
        ]
        return {"L": elements} if elements else None
    return None


# -- cached entry points ------------------------------------------------------------------------------

Names = tuple[tuple[str, str], ...]


def condition_of(node: Node, references: References) -> Condition:
    """Compile a parsed condition."""
    rules, ranges = constraints(node)
    return Condition(node, compile_test(node), references, attributes_of(node), rules, ranges)


@functools.lru_cache(maxsize=4096)
def condition(text: str, names: Names, label: str) -> Condition:
    """Compile a Condition-, Filter- or KeyConditionExpression (``label`` names it in messages)."""
    parser = _Parser(text, dict(names), label)
    node = parser.condition()
    parser.finish()
    return condition_of(node, parser.references())


@functools.lru_cache(maxsize=4096)
def update(text: str, names: Names) -> Update:
    """Compile an UpdateExpression."""
    parser = _Parser(text, dict(names), "UpdateExpression")
    actions = parser.update()
    parser.finish()
    return compile_update(actions, parser.references(), parser.error)


@functools.lru_cache(maxsize=4096)
def projection(text: str, names: Names) -> Projection:
    """Compile a ProjectionExpression."""
    parser = _Parser(text, dict(names), "ProjectionExpression")
    paths = parser.projection()
    parser.finish()
    refuse_overlaps(list(paths), parser.error)
    return compile_projection(paths, parser.references())
