"""JSON patches on their way to a member, operation by operation (RFC 6902).

An operation may stand on a projected field, above one (its value is then a whole subobject) or
on a mark. On labels and annotations it may also rely on what only the projected object has: every
one carries marks, so there adding a key never fails, while the member's object may have no such
map at all.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest, Cause, Conflict, Details, Invalid
from fleet.view.naming import (
    CLUSTER_LABEL,
    MEMBER_METADATA_ANNOTATION,
    MEMBER_REVISION_ANNOTATION,
)
from fleet.view.projection import marks
from fleet.view.projection.tree import METADATA, Node, Stripper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.view.projection.patches import PatchTarget
    from fleet.view.projection.projector import Projector

Operation = dict[str, Any]

_MAPS = ("labels", "annotations")
_MARKS = {
    ("labels", CLUSTER_LABEL),
    ("annotations", MEMBER_REVISION_ANNOTATION),
    ("annotations", MEMBER_METADATA_ANNOTATION),
}


def unproject(projector: Projector, patch: Sequence[Any], *, target: PatchTarget) -> list[Any]:
    """The operations that do to the member's object what `patch` does to the projected one.

    What is no operation stays, for the member to refuse.
    """
    translator = _Translator(projector, target)
    translated: list[Any] = []
    for operation in patch:
        translated += translator.translate(operation)
    projector.refuse(translator.stripper.causes, name=target.name)
    return translated


def hang_on_maps(patch: Sequence[Any]) -> bool:
    """Whether an operation reads or writes in labels or annotations: what is sent for it depends
    on whether the member's object has that map."""
    pointers = [
        _tokens(operation.get(key))
        for operation in patch
        if isinstance(operation, dict)
        for key in ("path", "from")
    ]
    return any(
        tokens is not None and tokens[:1] == [METADATA] and tokens[1:2] in ([_MAPS[0]], [_MAPS[1]])
        for tokens in pointers
    )


def _tokens(pointer: Any) -> list[str] | None:
    """A JSON pointer's reference tokens, None when it is none."""
    if pointer == "":
        return []
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        return None
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _field(tokens: Sequence[str]) -> str:
    """As messages name a field: `subjects[0].namespace`."""
    text = ""
    for token in tokens:
        text += f"[{token}]" if token.isdigit() or token == "-" else f".{token}"
    return text.lstrip(".")


def _without_marks(key: str, entries: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entries.items() if (key, k) not in _MARKS}


def _maps_in(metadata: Any) -> set[str]:
    if not isinstance(metadata, dict):
        return set()
    return {key for key in _MAPS if isinstance(metadata.get(key), dict)}


class _Translator:
    """One patch; remembers which maps it has made sure of."""

    def __init__(self, projector: Projector, target: PatchTarget) -> None:
        self.projector = projector
        self.target = target
        self.stripper = Stripper(projector.member)
        self.coordinate = "namespace" if projector.resource.namespaced else "name"
        self.present: set[str] = self._maps_of_member()

    def _maps_of_member(self) -> set[str]:
        """Which of labels and annotations the member's object has; both when it is not known."""
        metadata = (self.target.current or {}).get(METADATA)
        if not isinstance(metadata, dict):
            return set(_MAPS)
        metadata = deepcopy(metadata)
        try:
            kept = marks.kept_by(metadata)
        except marks.Unreadable:
            kept = {}
        marks.remove(metadata, kept)
        return _maps_in(metadata)

    def _now(self, operation: Operation, metadata: Any) -> None:
        """Take note of a metadata that the patch has written, without its marks."""
        if operation["op"] != "test":
            self.present = _maps_in(metadata)

    def translate(self, operation: Any) -> list[Any]:
        if not isinstance(operation, dict):
            return [operation]
        tokens = _tokens(operation.get("path"))
        if tokens is None:
            return [operation]
        match operation.get("op"):
            case "move" | "copy":
                return self._transfer(operation, tokens)
            case "remove":
                return self._remove(operation, tokens)
            case "add" | "replace" | "test":
                return self._set({"value": None} | operation, tokens)
        return [operation]

    # -- move and copy

    def _transfer(self, operation: Operation, tokens: list[str]) -> list[Any]:
        source = _tokens(operation.get("from"))
        if source is None:
            return [operation]
        if self._place(source) != self._place(tokens):
            raise BadRequest(
                f'{operation["op"]} from "{operation["from"]}" to "{operation["path"]}": one of '
                "them holds names or marks that differ between the fleet and member "
                f'{self.projector.member}; write the value with "add" instead'
            )
        return [*self._ensure(source), *self._ensure(tokens), operation]

    def _place(self, tokens: list[str]) -> object:
        """What is projected at `tokens`, as a value that is equal at places of one kind."""
        match tokens:
            case [] | ["metadata"] | ["metadata", "labels" | "annotations"]:
                return object()  # holds marks, and is like no other place
            case ["metadata", key, entry] if (key, entry) in _MARKS:
                return object()
            case ["metadata", key] if key in (self.coordinate, "resourceVersion"):
                return key
        node, rest = self._descend(tokens)
        if rest:
            return object() if self._decides(node, rest) else None
        return None if node is None else id(node)

    # -- remove

    def _remove(self, operation: Operation, tokens: list[str]) -> list[Any]:
        match tokens:
            case ["metadata", ("labels" | "annotations") as key]:
                # With the marks it is never absent in the fleet; in the member it may be.
                self.present.add(key)
                return [{"op": "add", "path": operation["path"], "value": {}}]
            case ["metadata", key, entry] if (key, entry) in _MARKS:
                return []
        node, rest = self._descend(tokens)
        if self._decides(node, rest):
            self._refuse_part(operation, tokens)
        return [*self._ensure(tokens), operation]

    # -- add, replace and test

    def _set(self, operation: Operation, tokens: list[str]) -> list[Any]:
        if not tokens:
            if isinstance(operation["value"], dict):
                self.projector.unproject(
                    operation["value"],
                    namespace=self.target.namespace,
                    name=self.target.name,
                    revision_of=self.target.revision_of,
                )
                self._now(operation, operation["value"].get(METADATA))
            return [operation]
        if tokens[0] == METADATA and tokens[1:2] != ["ownerReferences"]:
            return self._set_metadata(operation, tokens)
        return self._set_reference(operation, tokens)

    def _set_metadata(self, operation: Operation, tokens: list[str]) -> list[Any]:
        value = operation["value"]
        match tokens[1:]:
            case [] if isinstance(value, dict):
                self.projector.metadata_back(
                    value,
                    stripper=self.stripper,
                    namespace=self.target.namespace,
                    name=self.target.name,
                    revision_of=self.target.revision_of,
                )
                self.stripper.strip(self.projector.tree.children[METADATA], value, METADATA)
                self._now(operation, value)
            case [key] if key == self.coordinate and isinstance(value, str) and value:
                operation["value"] = self._coordinate(operation, value)
            case ["resourceVersion"] if isinstance(value, str) and value not in ("", "0"):
                operation["value"] = self._revision(operation, value)
            case [("labels" | "annotations") as key]:
                return self._set_map(operation, key)
            case [key, entry] if (key, entry) in _MARKS:
                return self._set_mark(operation, entry)
            case _:
                return [*self._ensure(tokens), operation]
        return [operation]

    def _coordinate(self, operation: Operation, value: str) -> str:
        expected = self.target.namespace if self.coordinate == "namespace" else self.target.name
        if operation["op"] == "test" and not self._is_member_name(value, expected):
            raise self._test_failed(operation)
        return self.projector.coordinate_back(value, expected=expected)

    def _is_member_name(self, value: str, expected: str) -> bool:
        suffix = self.projector.suffix
        return value.endswith(suffix) and value != suffix and expected in ("", value)

    def _revision(self, operation: Operation, value: str) -> str:
        try:
            return self.projector.revision_back(
                value, told=None, name=self.target.name, revision_of=self.target.revision_of
            )
        except Conflict:
            if operation["op"] == "test":
                raise self._test_failed(operation) from None
            raise

    def _set_map(self, operation: Operation, key: str) -> list[Any]:
        """All labels or all annotations: without the marks."""
        value = operation["value"]
        if operation["op"] == "test":
            return self._test_map(operation, key)
        if isinstance(value, dict):
            said = value.get(CLUSTER_LABEL) if key == "labels" else None
            if said not in (None, self.projector.member):
                self.stripper.causes.append(self.projector.label_cause(said))
            operation["value"] = _without_marks(key, value)
        # In the fleet the map is always there to be replaced.
        self.present.add(key)
        return [operation | {"op": "add"}]

    def _test_map(self, operation: Operation, key: str) -> list[Any]:
        value = operation["value"]
        if not isinstance(value, dict):
            raise self._test_failed(operation)
        tests: list[Any] = []
        for mark_key, mark in sorted(_MARKS):
            if mark_key == key:
                path = f"{operation['path']}/{mark.replace('/', '~1')}"
                tests += self._set_mark(
                    {"op": "test", "path": path, "value": value.get(mark)}, mark
                )
        plain = _without_marks(key, value)
        operation["value"] = plain if plain or key in self.present else None
        return [*tests, operation]

    def _set_mark(self, operation: Operation, entry: str) -> list[Any]:
        value, tested = operation["value"], operation["op"] == "test"
        if entry == CLUSTER_LABEL:
            if value == self.projector.member:
                return []
            if not tested:
                self.stripper.causes.append(self.projector.label_cause(value))
                return []
        elif not tested:
            return []
        elif entry == MEMBER_REVISION_ANNOTATION and value is not None:
            return [operation | {"path": "/metadata/resourceVersion"}]
        elif self._annotation(entry) == value:
            return []
        raise self._test_failed(operation)

    def _annotation(self, key: str) -> Any:
        metadata = (self.target.current or {}).get(METADATA) or {}
        return (metadata.get("annotations") or {}).get(key)

    def _set_reference(self, operation: Operation, tokens: list[str]) -> list[Any]:
        node, rest = self._descend(tokens)
        if node is None:
            return [operation]
        if rest:
            if self._decides(node, rest) and not self._tests_kind(operation, node, rest):
                self._refuse_part(operation, tokens)
            return [operation]
        value = operation["value"]
        if not node.to:
            self.stripper.strip(node, value, _field(tokens))
        elif isinstance(value, str) and value:
            if operation["op"] == "test" and not self._is_member_name(value, ""):
                raise self._test_failed(operation)
            operation["value"] = self.stripper.text(value, to=node.to, path=_field(tokens))
        return [operation]

    def _descend(self, tokens: Sequence[str]) -> tuple[Node | None, list[str]]:
        """The node at `tokens`, or the typed reference that they end inside of and what is left
        of them; None when nothing at or below them is projected."""
        node = self.projector.tree
        for position, token in enumerate(tokens):
            if node.items is not None:
                node = node.items
            elif token in node.children:
                node = node.children[token]
            elif node.typed is not None:
                return node, list(tokens[position:])
            else:
                return None, []
        return node, []

    @staticmethod
    def _decides(node: Node | None, rest: list[str]) -> bool:
        """Whether a field inside a typed reference is one that its name's reading hangs on."""
        typed = node.typed if node is not None else None
        return typed is not None and len(rest) == 1 and rest[0] in typed.deciding

    @staticmethod
    def _tests_kind(operation: Operation, node: Node, rest: list[str]) -> bool:
        assert node.typed is not None
        return operation["op"] == "test" and rest[0] in (node.typed.kind, node.typed.group)

    def _refuse_part(self, operation: Operation, tokens: list[str]) -> None:
        self.stripper.causes.append(
            Cause(
                "FieldValueInvalid",
                f"Invalid value: how a reference is read depends on {tokens[-1]}; "
                f"{operation['op']} the reference as a whole",
                _field(tokens),
            )
        )

    # -- what every operation may need

    def _ensure(self, tokens: list[str]) -> list[Operation]:
        """Operations that make sure of the map which `tokens` end in, guarded against a race."""
        if len(tokens) != 3 or tokens[0] != METADATA or tokens[1] not in _MAPS:
            return []
        key = tokens[1]
        if key in self.present:
            return []
        self.present.add(key)
        path = f"/{METADATA}/{key}"
        return [
            {"op": "test", "path": path, "value": None},
            {"op": "add", "path": path, "value": {}},
        ]

    def _test_failed(self, operation: Operation) -> Invalid:
        gvr = self.projector.subject.gvr
        return Invalid(
            "the server rejected our request due to an error in our request: "
            f"testing value {operation['path']} failed",
            details=Details(group=gvr.group, kind=gvr.resource, name=self.target.name),
        )
