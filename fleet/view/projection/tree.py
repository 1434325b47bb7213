"""The reference table of one kind as a tree along which objects are walked.

`forward` compiles it to the walk that projects: nothing but the fields of the table is looked at,
and what has another shape than the API says is passed over. `Stripper` walks back, over whole
objects and over merge patches alike, and notes each reference that is none of the member's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleet.errors import Cause
from fleet.view.references import ITEMS, Field, Reference, Typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Walk = Callable[[Any], None]

METADATA = "metadata"
DIRECTIVE = "$patch"


@dataclass(slots=True)
class Node:
    """What is projected at and below one place of an object.

    `to` is set at a text, `typed` at an object whose name depends on its kind.
    """

    children: dict[str, Node] = field(default_factory=dict)
    items: Node | None = None
    to: str = ""
    typed: Typed | None = None

    def at(self, path: Iterable[str]) -> Node:
        """The node at `path`, made where it is missing."""
        node = self
        for step in path:
            if step == ITEMS:
                node.items = node.items or Node()
                node = node.items
            else:
                node = node.children.setdefault(step, Node())
        return node


def build(references: Iterable[Reference]) -> Node:
    root = Node()
    for reference in references:
        node = root.at(reference.path)
        match reference:
            case Field():
                node.to = reference.to
            case Typed():
                node.typed = reference
    return root


# -- there


def forward(node: Node, suffix: str) -> Walk | None:
    """The walk that adds `suffix` to every reference below a place; None when there are none.

    Compiled to closures, so that an object pays for the places of its own kind and no others.
    """
    if node.items is not None:
        return _forward_items(node.items, suffix)
    texts = tuple(key for key, child in node.children.items() if child.to)
    inner = tuple(
        (key, walk)
        for key, child in node.children.items()
        if (walk := forward(child, suffix)) is not None
    )
    typed = node.typed
    if not texts and not inner and typed is None:
        return None
    if len(inner) == 1 and not texts and typed is None:
        ((only, below),) = inner

        def single(value: Any) -> None:
            if type(value) is dict and (found := value.get(only)) is not None:
                below(found)

        return single

    def several(value: Any) -> None:
        if type(value) is not dict:
            return
        for key in texts:
            text = value.get(key)
            if type(text) is str and text:
                value[key] = text + suffix
        for key, walk in inner:
            found = value.get(key)
            if found is not None:
                walk(found)
        if typed is not None and typed.cluster_scoped(value):
            name_forward(value, typed, suffix)

    return several


def _forward_items(node: Node, suffix: str) -> Walk | None:
    walk = forward(node, suffix)
    if walk is None:
        return None

    def items(value: Any) -> None:
        if type(value) is list:
            for item in value:
                walk(item)

    return items


def name_forward(reference: dict[str, Any], typed: Typed, suffix: str) -> None:
    name = reference.get("name")
    if not isinstance(name, str) or not name:
        return
    uid = reference.get("uid") if typed.uid else None
    if isinstance(uid, str) and says_name(uid, name, suffix):
        reference["uid"] = uid + suffix
    reference["name"] = name + suffix


def says_name(uid: str, name: str, suffix: str) -> bool:
    """Whether a UID is the name, or the name with suffixes: those that gain or lose one."""
    rest = uid.removeprefix(name)
    return uid.startswith(name) and rest == suffix * (len(rest) // len(suffix))


# -- and back


class Stripper:
    """One body's way back: strips the suffix in place and collects what cannot be stripped.

    `merges`: the body is a patch in which an object may be a part of one; `strategic`: so may
    the items of `ownerReferences`, which are merged by uid, and `$patch: replace` makes an object
    whole again.
    """

    def __init__(self, member: str, *, merges: bool = False, strategic: bool = False) -> None:
        self.member = member
        self.suffix = "." + member
        self.merges = merges
        self.strategic = strategic
        self.causes: list[Cause] = []

    def strip(self, node: Node, value: Any, path: str = "") -> None:
        """Strip every reference of the (sub)object `value`; `path` names it in messages."""
        self._strip(node, value, path, partial=self.merges)

    def text(self, value: Any, *, to: str, path: str) -> Any:
        """A single reference stripped; anything but a text comes back as it is."""
        if not isinstance(value, str) or not value:
            return value
        name = value.removesuffix(self.suffix)
        if not name or name == value:
            self._refuse(value, to=to, path=path)
        return name

    def _strip(self, node: Node, value: Any, path: str, *, partial: bool) -> None:
        if node.items is not None:
            if isinstance(value, list):
                # Only ownerReferences have a merge key and a name that depends on the kind.
                merged = self.strategic and node.items.typed is not None and not node.items.children
                for index, item in enumerate(value):
                    self._strip(node.items, item, f"{path}[{index}]", partial=merged)
            return
        if not isinstance(value, dict):
            return
        partial = partial and not (self.strategic and value.get(DIRECTIVE) == "replace")
        typed = node.typed
        if typed is not None:
            told = sum(key in value for key in typed.deciding)
            if partial and 0 < told < len(typed.deciding):
                self._refuse_part(path, typed)
            elif typed.cluster_scoped(value):
                self._strip_name(value, typed, path)
        for key, child in node.children.items():
            if key not in value:
                continue
            below = f"{path}.{key}" if path else key
            if child.to:
                value[key] = self.text(value[key], to=child.to, path=below)
            else:
                self._strip(child, value[key], below, partial=partial)

    def _strip_name(self, reference: dict[str, Any], typed: Typed, path: str) -> None:
        projected = reference.get("name")
        if not isinstance(projected, str) or not projected:
            return
        reference["name"] = self.text(projected, to=str(reference[typed.kind]), path=f"{path}.name")
        uid = reference.get("uid") if typed.uid else None
        if isinstance(uid, str) and says_name(uid, projected, self.suffix):
            reference["uid"] = uid.removesuffix(self.suffix)

    def _refuse(self, value: str, *, to: str, path: str) -> None:
        if to == "namespace":
            plain = value.partition(".")[0]
        else:
            plain = "" if "." in value else value
        meant = f'; did you mean "{plain}{self.suffix}"?' if plain else ""
        self.causes.append(
            Cause(
                "FieldValueInvalid",
                f'Invalid value: "{value}": names no {to} of member {self.member}, '
                f'whose names end in "{self.suffix}"{meant}',
                path,
            )
        )

    def _refuse_part(self, path: str, typed: Typed) -> None:
        *first, last = typed.deciding
        self.causes.append(
            Cause(
                "FieldValueRequired",
                "Required value: a patch of a reference gives "
                f"{', '.join(first)} and {last} together, or none of them",
                path,
            )
        )
