"""Label and field selectors: canonical text and fast matching.

Semantics and wording follow k8s.io/apimachinery `labels` and `fields`. A selector is a value:
equal selectors have equal canonical text. The terms of label selectors are in `requirements`;
which fields a resource can be selected by is `fields`' business.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from fleet.errors import BadRequest
from fleet.kube.gotext import quoted
from fleet.kube.requirements import SelectorError, parse_requirements, requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.kube.requirements import LabelPredicate, Operator, Requirement

_OBJECT_OPERATORS: Mapping[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


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
            return cls(parse_requirements(text))
        except SelectorError as error:
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
                requirement(key, "=", [value])
                for key, value in (selector.get("matchLabels") or {}).items()
            ]
            for term in selector.get("matchExpressions") or ():
                operator = _OBJECT_OPERATORS.get(term.get("operator", ""))
                if operator is None:
                    raise SelectorError(
                        f"{quoted(term.get('operator', ''))} is not a valid label selector operator"
                    )
                values = term.get("values") or []
                requirements.append(requirement(term.get("key", ""), operator, values))
        except SelectorError as error:
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
        for term in self.requirements:
            if term.key == key and term.operator in ("=", "in") and len(term.values) == 1:
                return term.values[0]
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
