"""The JSONPath dialect of Kubernetes, as far as printer columns may use it.

Compiles and evaluates what k8s.io/client-go `util/jsonpath` does, quirks included, for one
expression without template text around it: fields with escaped dots, quoted keys, indices, slices,
unions, wildcards, recursive descent and filters. Missing keys give no result. `custom` makes cells
of the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Values = list[Any]


class JSONPathError(ValueError):
    """The expression cannot be parsed, or cannot be applied to this object."""


class Constant(int):
    """An integer that the path made, not the object: columns of numbers do not take it."""


Step = Callable[[Values], Values]

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_SLICE = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?", re.ASCII).fullmatch
_QUOTED = re.compile(r"'([^']*)'").fullmatch
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL).fullmatch
_NUMBER = re.compile(r"[+-]?[\d.]*", re.ASCII)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_PLAIN_ESCAPES = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled expression."""

    steps: tuple[Step, ...]

    def find(self, obj: Any) -> Values:
        """The values that the path leads to. Raises JSONPathError as upstream gives an error."""
        return _walk(self.steps, [obj])


def compile_path(expression: str) -> Path:
    """Compile `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`, …

    Raises JSONPathError when the expression is not valid.
    """
    try:
        return Path(_Parser(expression).parse())
    except RecursionError as error:
        raise JSONPathError(f"nested too deeply: {expression[:64]!r}") from error


def _walk(steps: tuple[Step, ...], values: Values) -> Values:
    for step in steps:
        values = step(values)
    return values


def _field(name: str) -> Step:
    def step(values: Values) -> Values:
        return [value[name] for value in values if isinstance(value, dict) and name in value]

    return step


def _constant(constant: Any) -> Step:
    def step(values: Values) -> Values:
        return [constant] * len(values)

    return step


def _text(constant: str) -> Step:
    def step(_: Values) -> Values:
        return [constant]

    return step


def _keyword(word: str) -> Step:
    """`range`, `end` or an unknown word: it parses, but never has a value without a template."""

    def step(_: Values) -> Values:
        raise JSONPathError(f"unrecognized identifier {word}")

    return step


def _children(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list):
        return value
    # Go ranges over the bytes of a string.
    return [Constant(byte) for byte in value.encode()] if isinstance(value, str) else []


def _wildcard(values: Values) -> Values:
    return [child for value in values for child in _children(value)]


def _descend(values: Values) -> Values:
    """`values` and what is below them, parents first; leaves but non-empty strings left out."""

    def visit(value: Any) -> Iterator[Any]:
        children = _children(value)
        if children:
            yield value
            if not isinstance(value, str):
                for child in children:
                    yield from visit(child)

    try:
        return [found for value in values for found in visit(value)]
    except RecursionError as error:
        raise JSONPathError("object nested too deeply") from error


def _slice(start: int | None, end: int | None, stride: int | None, *, single: bool) -> Step:
    def pick(value: Any) -> Values:
        if not isinstance(value, list):
            raise JSONPathError(f"{type(value).__name__} is not array or slice")
        length = len(value)
        first = start or 0
        first += length if first < 0 else 0
        last = length if end is None else end
        if last < 0 or (last == 0 and single):
            last += length
        if first == last:
            return []
        if not (0 <= first < length and 0 <= last <= length and first <= last):
            raise JSONPathError(f"array index out of bounds: [{first}:{last}], length {length}")
        if stride is not None and stride <= 0:
            raise JSONPathError("step must be > 0")
        return value[first:last:stride]

    def step(values: Values) -> Values:
        return [each for value in values if value is not None for each in pick(value)]

    return step


def _union(branches: list[tuple[Step, ...]]) -> Step:
    def step(values: Values) -> Values:
        return [each for branch in branches for each in _walk(branch, values)]

    return step


def _kind(value: Any) -> type:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind
    raise JSONPathError("invalid type for comparison")


def _equal(left: Any, right: Any) -> bool:
    if _kind(left) is not _kind(right):
        raise JSONPathError("incompatible types for comparison")
    return bool(left == right)


def _less(left: Any, right: Any) -> bool:
    if _kind(left) is not _kind(right) or isinstance(left, bool):
        raise JSONPathError("incompatible types for comparison")
    return bool(left < right)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _less,
    "<=": lambda left, right: _less(left, right) or _equal(left, right),
    ">": lambda left, right: not (_less(left, right) or _equal(left, right)),
    ">=": lambda left, right: not _less(left, right),
}


def _one(steps: tuple[Step, ...], value: Any) -> Values:
    found = _walk(steps, [value])
    if len(found) > 1:
        raise JSONPathError("can only compare one element at a time")
    return found


def _filter(keep: Callable[[Any], bool]) -> Step:
    def step(values: Values) -> Values:
        kept: Values = []
        for value in values:
            if not isinstance(value, list):
                raise JSONPathError("not array or slice and cannot be filtered")
            kept += [each for each in value if keep(each)]
        return kept

    return step


def _comparison(left: tuple[Step, ...], operator: str, right: tuple[Step, ...]) -> Step:
    def keep(value: Any) -> bool:
        lefts = _one(left, value)
        if not lefts:
            return False
        rights = _one(right, value)
        if not rights:
            return False
        compare = _OPERATORS.get(operator)
        if compare is None:
            raise JSONPathError(f"unrecognized filter operator {operator}")
        return compare(lefts[0], rights[0])

    return _filter(keep)


def _existence(path: tuple[Step, ...]) -> Step:
    """Keep what has a value at `path`; like upstream, also what `path` cannot be applied to."""

    def keep(value: Any) -> bool:
        try:
            return bool(_walk(path, [value]))
        except JSONPathError:
            return True

    return _filter(keep)


class _Parser:
    """Recursive descent over one expression; `position` is the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.steps: list[Step] = []

    def parse(self) -> tuple[Step, ...]:
        while self.position < len(self.text):
            self._next()
        return tuple(self.steps)

    def _next(self) -> None:
        text, at = self.text, self.position
        if text.startswith("[?(", at):
            return self._filter()
        if text.startswith("..", at):
            return self._recursive()
        char = text[at]
        if char in " @$":
            self.position += 1
        elif char == "}":
            # What follows is text of the template, which is no part of the first result.
            self.position = len(text)
        elif char == "[":
            self._array()
        elif char in "\"'":
            self._quote(char)
        elif char == ".":
            self.position += 1
            self._field()
        elif char in "+-" or char.isdigit():
            self._number()
        elif char == "_" or char.isalnum():
            self._identifier()
        else:
            raise JSONPathError(f"unrecognized character in action: {char!r}")
        return None

    def _word(self) -> str:
        """The text up to the next unescaped terminator."""
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in _TERMINATORS:
            self.position += 2 if self.text[self.position] == "\\" else 1
        return self.text[start : self.position]

    def _field(self) -> None:
        word = self._word()
        self.steps.append(_wildcard if word == "*" else _field(word.replace("\\", "")))

    def _recursive(self) -> None:
        if self.steps and self.steps[-1] is _descend:
            raise JSONPathError("invalid multiple recursive descent")
        self.position += 2
        self.steps.append(_descend)
        following = self.text[self.position : self.position + 1]
        if following == "_" or following.isalnum():
            self._field()

    def _number(self) -> None:
        match = _NUMBER.match(self.text, self.position)
        word = match[0] if match else ""
        self.position += len(word)
        try:
            self.steps.append(_constant(float(word) if "." in word else Constant(word)))
        except ValueError as error:
            raise JSONPathError(f"cannot parse number {word}") from error

    def _identifier(self) -> None:
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in _TERMINATORS:
            self.position += 1
        word = self.text[start : self.position]
        known = word in ("true", "false")
        self.steps.append(_constant(word == "true") if known else _keyword(word))

    def _quote(self, quote: str) -> None:
        end = self.position + 1
        while True:
            end = self.text.find(quote, end)
            if end < 0:
                raise JSONPathError("unterminated quoted string")
            if self.text[end - 1] != "\\":
                break
            end += 1
        inner = self.text[self.position + 1 : end]
        self.position = end + 1
        self.steps.append(_text(_unquote(inner, quote)))

    def _array(self) -> None:
        end = self.text.find("]", self.position)
        if end < 0:
            raise JSONPathError("unterminated array")
        inner = self.text[self.position + 1 : end]
        self.position = end + 1
        if "," in inner:
            branches = [_Parser(f"[{part.strip(' ')}]").parse() for part in inner.split(",")]
            self.steps.append(_union(branches))
        elif quoted := _QUOTED(inner):
            self.steps += _Parser(f".{quoted[1]}").parse()
        else:
            self.steps.append(_index(":" if inner == "*" else inner))

    def _filter(self) -> None:
        start = self.position + 3
        end = _end_of_filter(self.text, start)
        if self.text[end + 1 : end + 2] != "]":
            raise JSONPathError("unclosed array expect ]")
        inner = self.text[start:end]
        self.position = end + 2
        parts = _COMPARISON(inner)
        if parts is None:
            self.steps.append(_existence(_Parser(inner).parse()))
        else:
            left, right = _Parser(parts[1]).parse(), _Parser(parts[3]).parse()
            self.steps.append(_comparison(left, parts[2], right))


def _end_of_filter(text: str, start: int) -> int:
    """Where the `)` is that ends the filter: outside the one quoted string that it may hold."""
    begun = ended = False
    pair = ""
    for at in range(start, len(text)):
        char = text[at]
        if char == "\n":
            break
        if char in "\"'":
            if not begun:
                begun, pair = True, char
            elif text[at - 1] != "\\" and char == pair:
                ended = True
        elif char == ")" and begun == ended:
            return at
    raise JSONPathError("unterminated filter")


def _index(inner: str) -> Step:
    match = _SLICE(inner)
    if match is None:
        raise JSONPathError(f"invalid array index {inner}")
    start, end, stride = match.groups()
    try:
        numbers = [int(part) if part else None for part in (start, end, stride)]
    except ValueError as error:
        raise JSONPathError(f"array index {inner} is not a number") from error
    single = end is None
    return _slice(
        numbers[0], (numbers[0] or 0) + 1 if single else numbers[1], numbers[2], single=single
    )


def _unquote(inner: str, quote: str) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        if code:
            return chr(int(code, 16))
        char = match[4]
        if char not in _PLAIN_ESCAPES or (char in "\"'" and char != quote):
            raise JSONPathError(f"invalid escape \\{char}")
        return _PLAIN_ESCAPES[char]

    try:
        return _ESCAPE.sub(replace, inner)
    except (ValueError, OverflowError) as error:
        raise JSONPathError(f"cannot unquote {inner!r}") from error
