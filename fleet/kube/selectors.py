"""Label and field selectors: grammar, canonical text, fast matching.

Grammar and wording follow k8s.io/apimachinery `labels` and `fields`. A selector is a value: equal
selectors have equal canonical text. Which fields a resource can be selected by is `fields`'
business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fleet.errors import BadRequest
from fleet.kube.causes import quoted, shown
from fleet.kube.names import label_key_problems, label_value_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    LabelPredicate = Callable[[Mapping[str, str]], bool]


_INT64 = 1 << 63

Operator = Literal["=", "!=", "in", "notin", "exists", "!", "gt", "lt"]
_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_OBJECT_OPERATORS: dict[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


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
    number = _int64(value) if value is not None else None
    return number is not None and (number > bound if above else number < bound)


def _int64(text: str) -> int | None:
    """As Go's ParseInt(text, 10, 64), None where it fails."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


class LabelSelector:
    """An AND of requirements over labels, sorted by key; without any it selects everything."""

    __slots__ = ("_matches", "_text", "nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda r: (r.key, str(r))))
        self.nothing = nothing
        self._text = ",".join(map(str, self.requirements))
        self._matches: LabelPredicate = (
            (lambda _: False) if nothing else _conjunction(self.requirements)
        )

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """The selector in a `labelSelector` query value.

        Raises BadRequest with upstream's wording when it does not follow the grammar.
        """
        if not text:
            return EVERYTHING
        try:
            return cls(_Parser(text).parse())
        except _SyntaxError as error:
            raise BadRequest(str(error)) from None

    @classmethod
    def from_object(cls, selector: Mapping[str, Any] | None) -> LabelSelector:
        """The selector in a LabelSelector object (`matchLabels`, `matchExpressions`).

        None selects nothing, an empty object everything. Raises BadRequest for an unknown
        operator or values that do not fit it.
        """
        if selector is None:
            return NOTHING
        try:
            requirements = [
                _requirement(key, "=", [value])
                for key, value in (selector.get("matchLabels") or {}).items()
            ]
            for term in selector.get("matchExpressions") or ():
                operator = _OBJECT_OPERATORS.get(term.get("operator", ""))
                if operator is None:
                    raise _SyntaxError(
                        f"{quoted(term.get('operator', ''))} is not a valid label selector operator"
                    )
                values = term.get("values") or []
                requirements.append(_requirement(term.get("key", ""), operator, values))
        except _SyntaxError as error:
            raise BadRequest(str(error)) from None
        return cls(requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self._matches(labels)

    @property
    def predicate(self) -> LabelPredicate:
        """The compiled test, for loops over many objects."""
        return self._matches

    @property
    def empty(self) -> bool:
        """Whether every object is selected."""
        return not self.requirements and not self.nothing

    def exact(self, key: str) -> str | None:
        """The one value that `key` must have, or None when there is no such requirement."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator in ("=", "in"):
                if len(requirement.values) == 1:
                    return requirement.values[0]
        return None

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"LabelSelector({'<nothing>' if self.nothing else self._text!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSelector):
            return NotImplemented
        return self.nothing == other.nothing and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash((self.nothing, self.requirements))


def _conjunction(requirements: Sequence[Requirement]) -> LabelPredicate:
    """One test for all requirements; the forms that nearly all selectors have go straight."""
    if not requirements:
        return lambda _: True
    if all(r.operator == "=" for r in requirements):
        pairs = [(r.key, r.values[0]) for r in requirements]
        if len(pairs) == 1:
            ((key, value),) = pairs
            return lambda labels: labels.get(key) == value

        def equal(labels: Mapping[str, str]) -> bool:
            for key, value in pairs:
                if labels.get(key) != value:
                    return False
            return True

        return equal
    tests = [r.predicate() for r in requirements]
    if len(tests) == 1:
        return tests[0]

    def every(labels: Mapping[str, str]) -> bool:
        for test in tests:
            if not test(labels):
                return False
        return True

    return every


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(nothing=True)


class _SyntaxError(ValueError):
    pass


def _requirement(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
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
                if _int64(value) is None
            ]
    for i, value in enumerate(values):
        if wrong := label_value_problems(value):
            problems.append(
                f"values[{i}][{key}]: Invalid value: {quoted(value)}: {'; '.join(wrong)}"
            )
    if problems:
        raise _SyntaxError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, tuple(sorted(set(values))))


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
                raise _SyntaxError(
                    f"found '{literal}', expected: !, identifier, or 'end of string'"
                )
            try:
                found.append(self.requirement())
            except _SyntaxError as error:
                raise _SyntaxError(f"unable to parse requirement: {error}") from None
            token, literal = self.take()
            if token == _END:
                return found
            if token != ",":
                raise _SyntaxError(f"found '{literal}', expected: ',' or 'end of string'")
            token, literal = self.peek()
            if token not in (_WORD, "!"):
                raise _SyntaxError(f"found '{literal}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        token, key = self.take()
        absent = token == "!"
        if absent:
            token, key = self.take()
        if token != _WORD:
            raise _SyntaxError(f"found '{key}', expected: identifier")
        if wrong := label_key_problems(key):
            raise _SyntaxError(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(wrong)}")
        if absent:
            return _requirement(key, "!", ())
        if self.peek()[0] in (_END, ","):
            return _requirement(key, "exists", ())
        token, literal = self.take(operator=True)
        match token:
            case "in" | "notin":
                return _requirement(key, "in" if token == "in" else "notin", self.values())
            case "=" | "==":
                return _requirement(key, "=", [self.exact_value()])
            case "!=":
                return _requirement(key, "!=", [self.exact_value()])
            case ">" | "<":
                return _requirement(key, "gt" if token == ">" else "lt", [self.exact_value()])
        raise _SyntaxError(f"found '{literal}', expected: {', '.join(_BINARY)}")

    def exact_value(self) -> str:
        if self.peek()[0] in (_END, ","):
            return ""
        token, literal = self.take()
        if token != _WORD:
            raise _SyntaxError(f"found '{literal}', expected: identifier")
        return literal

    def values(self) -> list[str]:
        """The set in parentheses; an empty place in it is the empty value."""
        token, literal = self.take()
        if token != "(":
            raise _SyntaxError(f"found '{literal}' expected: '('")
        token, literal = self.peek()
        if token not in (_WORD, ",", ")"):
            raise _SyntaxError(f"found '{literal}', expected: ',', ')' or identifier")
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
                raise _SyntaxError(f"found '{literal}', expected: ',', or identifier")
            else:
                raise _SyntaxError(f"found '{literal}', expected: ',' or ')'")


FieldRequirement = tuple[str, Literal["=", "!="], str]
_ESCAPED = str.maketrans({"\\": r"\\", ",": r"\,", "=": r"\="})


class FieldSelector:
    """An AND of `field=value` and `field!=value` terms, sorted by their text."""

    __slots__ = ("requirements",)

    def __init__(self, requirements: Sequence[FieldRequirement] = ()) -> None:
        self.requirements = tuple(sorted(set(requirements), key=_field_term))

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """The selector in a `fieldSelector` query value; `==` equals `=`, terms may be empty.

        Raises BadRequest with upstream's wording. Which fields exist is checked elsewhere.
        """
        if not text:
            return ALL_FIELDS
        # Sorted, so that of several faults the one that upstream names is named.
        found = [_field_requirement(term, text) for term in sorted(_field_terms(text))]
        return cls([(name, op, value) for name, op, value in found if name or value])

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether the object whose field values `get` returns is selected."""
        for name, operator, value in self.requirements:
            if (get(name) == value) != (operator == "="):
                return False
        return True

    @property
    def empty(self) -> bool:
        """Whether every object is selected."""
        return not self.requirements

    def exact(self, name: str) -> str | None:
        """The one value that field `name` must have, or None."""
        for field, operator, value in self.requirements:
            if field == name and operator == "=":
                return value
        return None

    def map(self, fn: Callable[[str, str], tuple[str, str]]) -> FieldSelector:
        """The selector with each (field, value) replaced; ("", "") drops the term."""
        changed = [(*fn(name, value), op) for name, op, value in self.requirements]
        return FieldSelector([(n, op, v) for n, v, op in changed if n or v])

    def __str__(self) -> str:
        return ",".join(map(_field_term, self.requirements))

    def __repr__(self) -> str:
        return f"FieldSelector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSelector):
            return NotImplemented
        return self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)


def _field_term(requirement: FieldRequirement) -> str:
    name, operator, value = requirement
    return f"{name}{operator}{value.translate(_ESCAPED)}"


def _field_terms(text: str) -> list[str]:
    """Split at commas that no backslash escapes; escapes stay."""
    return re.findall(r"(?:[^\\,]|\\.|\\$)+", text, re.DOTALL)


def _field_requirement(term: str, whole: str) -> FieldRequirement:
    found = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
    if found is None:
        raise BadRequest(f"invalid selector: '{whole}'; can't understand '{term}'")
    return found[1], "!=" if found[2] == "!=" else "=", _unescape(found[3])


def _unescape(text: str) -> str:
    out: list[str] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in ("\\", ",", "="):
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{following}")
            out.append(following)
        elif character in (",", "="):
            raise BadRequest(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        else:
            out.append(character)
    return "".join(out)


ALL_FIELDS = FieldSelector()
