"""Requirements: the terms of a label selector, their grammar, rules and tests.

A recursive descent over tokens, as k8s.io/apimachinery `labels` does it, with its wording.
`selectors` joins requirements into selectors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fleet.kube.causes import shown
from fleet.kube.gotext import int64, quoted
from fleet.kube.names import label_key_problems, label_value_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    LabelPredicate = Callable[[Mapping[str, str]], bool]

Operator = Literal["=", "!=", "in", "notin", "exists", "!", "gt", "lt"]
_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector. `values` are sorted and without repeats."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case "gt" | "lt":
                return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
        return f"{self.key}{self.operator}{self.values[0]}"

    def predicate(self) -> LabelPredicate:
        key, values = self.key, frozenset(self.values)
        match self.operator:
            case "exists":
                return lambda labels: key in labels
            case "!":
                return lambda labels: key not in labels
            case "=" | "in":
                return lambda labels: labels.get(key) in values
            case "!=" | "notin":
                return lambda labels: labels.get(key) not in values
        bound, above = int(self.values[0]), self.operator == "gt"
        return lambda labels: _compare(labels.get(key), bound, above=above)


def _compare(value: str | None, bound: int, *, above: bool) -> bool:
    number = int64(value) if value is not None else None
    return number is not None and (number > bound if above else number < bound)


class SelectorError(ValueError):
    """A label selector that cannot be read; says why in upstream's words."""


def requirement(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
    """A checked requirement; `==` has become `=` by the time this is called."""
    problems: list[str] = []
    if wrong := label_key_problems(key):
        problems.append(f"key: Invalid value: {quoted(key)}: {'; '.join(wrong)}")
    listed = "null" if not values else shown(list(values))
    match operator:
        case "in" | "notin" if not values:
            problems.append(
                "values: Invalid value: "
                f"{listed}: for 'in', 'notin' operators, values set can't be empty"
            )
        case "exists" | "!" if values:
            problems.append(
                f"values: Invalid value: {listed}: values set must be empty for exists and does "
                "not exist"
            )
        case "gt" | "lt":
            problems += [
                f"values[{i}]: Invalid value: {quoted(value)}: "
                "for 'Gt', 'Lt' operators, the value must be an integer"
                for i, value in enumerate(values)
                if int64(value) is None
            ]
    for i, value in enumerate(values):
        if wrong := label_value_problems(value):
            problems.append(
                f"values[{i}][{key}]: Invalid value: {quoted(value)}: {'; '.join(wrong)}"
            )
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, tuple(sorted(set(values))))


def parse_requirements(text: str) -> list[Requirement]:
    """The terms in a `labelSelector` query value, in its order. Raises SelectorError."""
    return _Parser(text).parse()


_SPECIAL = "=!(),><"
_OPERATORS = (")", ",", "!", "==", "=", ">", "<", "!=", "(")
_TOKEN = re.compile(r"[ \t\r\n]*([=!(),><]+|[^=!(),>< \t\r\n]+)")
_WORD, _END = "word", "end"


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """(token, literal) pairs up to and with the end; runs of symbols split longest first.

    A NUL ends the text, as it ends upstream's lexer.
    """
    text = text.partition("\0")[0]
    position = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        literal = found[1]
        if literal[0] not in _SPECIAL:
            yield (literal if literal in ("in", "notin") else _WORD), literal
            continue
        while literal:
            symbol = literal[:2] if literal[:2] in _OPERATORS else literal[:1]
            yield symbol, symbol
            literal = literal[len(symbol) :]
    yield _END, ""


class _Parser:
    """Recursive descent over the tokens, as upstream's."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.position = 0

    def peek(self) -> tuple[str, str]:
        token, literal = self.tokens[self.position]
        return (_WORD if token in ("in", "notin") else token), literal

    def take(self, *, operator: bool = False) -> tuple[str, str]:
        token, literal = self.tokens[self.position]
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return (_WORD if token in ("in", "notin") and not operator else token), literal

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            token, literal = self.peek()
            if token == _END:
                return found
            if token not in (_WORD, "!"):
                raise SelectorError(
                    f"found '{literal}', expected: !, identifier, or 'end of string'"
                )
            try:
                found.append(self.term())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token, literal = self.take()
            if token == _END:
                return found
            if token != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            token, literal = self.peek()
            if token not in (_WORD, "!"):
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def term(self) -> Requirement:
        token, key = self.take()
        absent = token == "!"
        if absent:
            token, key = self.take()
        if token != _WORD:
            raise SelectorError(f"found '{key}', expected: identifier")
        if wrong := label_key_problems(key):
            raise SelectorError(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(wrong)}")
        if absent:
            return requirement(key, "!", ())
        if self.peek()[0] in (_END, ","):
            return requirement(key, "exists", ())
        token, literal = self.take(operator=True)
        match token:
            case "in" | "notin":
                return requirement(key, "in" if token == "in" else "notin", self.values())
            case "=" | "==":
                return requirement(key, "=", [self.exact_value()])
            case "!=":
                return requirement(key, "!=", [self.exact_value()])
            case ">" | "<":
                return requirement(key, "gt" if token == ">" else "lt", [self.exact_value()])
        raise SelectorError(f"found '{literal}', expected: {', '.join(_BINARY)}")

    def exact_value(self) -> str:
        if self.peek()[0] in (_END, ","):
            return ""
        token, literal = self.take()
        if token != _WORD:
            raise SelectorError(f"found '{literal}', expected: identifier")
        return literal

    def values(self) -> list[str]:
        """The set in parentheses; an empty place in it is the empty value."""
        token, literal = self.take()
        if token != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        token, literal = self.peek()
        if token not in (_WORD, ",", ")"):
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        found: set[str] = set()
        expect_value = True
        while True:
            token, literal = self.take()
            if token == _WORD and expect_value:
                found.add(literal)
                expect_value = False
            elif token in (",", ")"):
                if expect_value:
                    found.add("")
                if token == ")":
                    return sorted(found)
                expect_value = True
            elif expect_value:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")
            else:
                raise SelectorError(f"found '{literal}', expected: ',' or ')'")
