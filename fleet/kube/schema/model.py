"""One node of an OpenAPI v3 schema, with references resolved and `x-kubernetes-*` at hand.

A `SchemaSet` holds one document; `Schema` is a view on one of its nodes. What stands beside a
`$ref` (patch strategy, list type, default) belongs to the place of use, everything else to the
definition; a `Schema` joins both. Views are cached, so walking the same path twice costs two
dictionary look-ups.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REF = "#/components/schemas/"
_GVK = "x-kubernetes-group-version-kind"
_STRING: Mapping[str, Any] = {"type": "string"}

GroupVersionKind = tuple[str, str, str]


class SchemaSet:
    """The schemas of one OpenAPI v3 document.

    `metadata` supplies the schema of `metadata` for custom resources, whose own schema says only
    `type: object` there.
    """

    def __init__(
        self, document: Mapping[str, Any], *, metadata: Callable[[], Schema] | None = None
    ) -> None:
        self._definitions: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
        self._views: dict[int, Schema] = {}
        self._pinned: list[Mapping[str, Any]] = []
        self._metadata = metadata

    @classmethod
    def structural(
        cls, schema: Mapping[str, Any], *, metadata: Callable[[], Schema] | None = None
    ) -> Schema:
        """The root of a CRD version's `openAPIV3Schema`."""
        return Schema(cls({}, metadata=metadata), schema, definition="", custom=True, root=True)

    def for_kind(self, group: str, version: str, kind: str) -> Schema | None:
        name = self._kinds.get((group, version, kind))
        return self.definition(name) if name else None

    def definition(self, name: str) -> Schema | None:
        """The component schema called `name`, e.g. `io.k8s.api.core.v1.PodSpec`."""
        node = self._definitions.get(name)
        return None if node is None else self.view(node, definition=name)

    @property
    def kinds(self) -> tuple[GroupVersionKind, ...]:
        return tuple(sorted(self._kinds))

    @cached_property
    def _kinds(self) -> dict[GroupVersionKind, str]:
        return {
            (gvk["group"], gvk["version"], gvk["kind"]): name
            for name, node in self._definitions.items()
            for gvk in node.get(_GVK, ())
        }

    def view(
        self, node: Mapping[str, Any], *, definition: str = "", custom: bool = False
    ) -> Schema:
        found = self._views.get(id(node))
        if found is None:
            found = Schema(self, node, definition=definition, custom=custom)
            # Ids stay unique only while the node lives.
            self._pinned.append(node)
            self._views[id(node)] = found
        return found

    def resolve(self, node: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """The definition that `node` refers to and its name, or `node` itself and ""."""
        ref = node.get("$ref")
        if ref is None:
            parts: list[Mapping[str, Any]] = node.get("allOf") or []
            ref = parts[0].get("$ref") if len(parts) == 1 else None
        if not isinstance(ref, str) or not ref.startswith(_REF):
            return node, ""
        name = ref.removeprefix(_REF)
        return self._definitions.get(name, node), name

    @property
    def metadata(self) -> Schema | None:
        return self._metadata() if self._metadata else None


class Schema:
    """A schema node: its type, children and Kubernetes extensions.

    `definition` is the component's name (`io.k8s.api.core.v1.Container`) or "" for an anonymous
    node. `custom` marks schemas that came from a CRD.
    """

    __slots__ = (
        "_defaulted", "_fields", "_items", "_set", "_site", "_values", "custom", "definition",
        "node", "root",
    )  # fmt: skip

    def __init__(
        self,
        schemas: SchemaSet,
        site: Mapping[str, Any],
        *,
        definition: str,
        custom: bool,
        root: bool = False,
    ) -> None:
        self._set = schemas
        self._site = site
        self.node, referred = schemas.resolve(site)
        self.definition = referred or definition
        self.custom = custom
        self.root = root
        self._fields: dict[str, Schema | None] = {}
        self._items: Schema | None = None
        self._values: Schema | None = None
        self._defaulted: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"<Schema {self.definition or self.type or 'any'}>"

    def _either(self, key: str) -> Any:
        value = self._site.get(key)
        return self.node.get(key) if value is None else value

    @property
    def type(self) -> str:
        """`object`, `array`, `string`, `integer`, `number`, `boolean`, or "" for any."""
        return str(self.node.get("type", ""))

    @property
    def format(self) -> str:
        return str(self.node.get("format", ""))

    @property
    def properties(self) -> tuple[str, ...]:
        return tuple(self.node.get("properties", ()))

    def field(self, name: str) -> Schema | None:
        """The schema of field `name`; None when it is not declared."""
        if name in self._fields:
            return self._fields[name]
        node = self.node.get("properties", {}).get(name)
        found = None if node is None else self._set.view(node, custom=self.custom)
        if self.custom and self.is_resource:
            if name == "metadata":
                found = self._set.metadata or found
            elif name in ("apiVersion", "kind"):
                found = found or self._set.view(_STRING, custom=True)
        self._fields[name] = found
        return found

    @property
    def items(self) -> Schema | None:
        """The schema of an array's elements."""
        if self._items is None and isinstance(node := self.node.get("items"), dict):
            self._items = self._set.view(node, custom=self.custom)
        return self._items

    @property
    def values(self) -> Schema | None:
        """The schema of a map's values (`additionalProperties`)."""
        if self._values is None and isinstance(node := self.node.get("additionalProperties"), dict):
            self._values = self._set.view(node, custom=self.custom)
        return self._values

    def at(self, *path: str) -> Schema | None:
        """Walk properties; `[]` steps into an array's items, `*` into a map's values."""
        found: Schema | None = self
        for step in path:
            if found is None:
                return None
            if step == "[]":
                found = found.items
            elif step == "*":
                found = found.values
            else:
                found = found.field(step)
        return found

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(self.node.get("required", ()))

    @property
    def enum(self) -> tuple[Any, ...]:
        return tuple(self.node.get("enum", ()))

    @property
    def nullable(self) -> bool:
        return bool(self._either("nullable"))

    @property
    def default(self) -> Any:
        """The declared default, or None. In built-in documents mostly Go's zero value."""
        return self._either("default")

    @property
    def defaulted(self) -> tuple[str, ...]:
        """The fields that declare a default."""
        if self._defaulted is None:
            children = ((name, self.field(name)) for name in self.properties)
            self._defaulted = tuple(
                name for name, child in children if child is not None and child.default is not None
            )
        return self._defaulted

    @property
    def is_struct(self) -> bool:
        """True when the fields are declared one by one."""
        return "properties" in self.node

    @property
    def is_resource(self) -> bool:
        """True for the root of a custom resource and for objects embedded in one."""
        return self.root or bool(self.node.get("x-kubernetes-embedded-resource"))

    @property
    def int_or_string(self) -> bool:
        return self.format == "int-or-string" or bool(self.node.get("x-kubernetes-int-or-string"))

    @property
    def preserve_unknown_fields(self) -> bool:
        """True where undeclared fields stay: by declaration, or when nothing is declared."""
        if self.node.get("x-kubernetes-preserve-unknown-fields"):
            return True
        return not self.custom and not self.is_struct and self.values is None

    @property
    def patch_strategies(self) -> tuple[str, ...]:
        """`merge`, `replace`, `retainKeys`: strategic merge only, unrelated to the list type."""
        text = self._either("x-kubernetes-patch-strategy")
        return tuple(text.split(",")) if text else ()

    @property
    def patch_merge_key(self) -> str:
        return str(self._either("x-kubernetes-patch-merge-key") or "")

    @property
    def list_type(self) -> str:
        return str(self._either("x-kubernetes-list-type") or "")

    @property
    def list_map_keys(self) -> tuple[str, ...]:
        return tuple(self._either("x-kubernetes-list-map-keys") or ())
