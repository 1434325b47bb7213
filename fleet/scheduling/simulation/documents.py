"""Files as documents: what stands where in them, and which of two of one name counts.

Reads text, opens nothing. Objects are YAML or JSON, several in a file, lists too; a table of work
is CSV (`table`). A later source overrides an earlier one by kind, namespace and name, so that a
what-if is a file with what is different; `$patch: delete` takes an object away, a Cluster with its
Nodes. Whatever is wrong
is said with its file, its document and its field, all of it at once. Next step: `scenario`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
import yaml

from fleet.errors import ApiError, ConfigError
from fleet.scheduling.simulation import table
from fleet.scheduling.simulation.inventory import cluster_named
from policies import CLUSTER
from policies.schema import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Object = dict[str, Any]

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOLD: Final = 20


class Source(NamedTuple):
    """A file that was read; its name is for messages, its ending says what it is."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Document:
    where: str
    """`fleet.yaml, document 2`."""
    source: int
    """Position of its source: a later one overrides."""
    obj: Object
    made: bool = False
    """Whether it was made of a row of a table."""

    @property
    def kind(self) -> str:
        return str(self.obj["kind"])

    @property
    def group(self) -> str:
        return str(self.obj["apiVersion"]).rpartition("/")[0]

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"].get("namespace") or "")

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.group, self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.where} ({self.kind} {self.name})"


@dataclass(slots=True)
class Problems:
    """Everything that is wrong, said together."""

    lines: list[str] = field(default_factory=list)

    def add(self, where: object, what: str | ApiError) -> None:
        if isinstance(what, ApiError):
            causes = what.details.causes if what.details is not None else ()
            told = [f"{each.field}: {each.message}" if each.field else each.message
                    for each in causes] or [what.message]  # fmt: skip
        else:
            told = [what]
        self.lines += [f"{where}: {each}" for each in told]

    def raise_if_any(self) -> None:
        """Raises ConfigError."""
        if not self.lines:
            return
        more = len(self.lines) - _TOLD
        told = self.lines[:_TOLD] + ([f"… and {more} more"] if more > 0 else [])
        raise ConfigError("\n  ".join(told))


def documents_of(sources: Sequence[Source], *, namespace: str = "default") -> tuple[Document, ...]:
    """What counts, in the order of its first mention; `namespace` is that of work that names none.

    Raises ConfigError.
    """
    problems = Problems()
    found: dict[tuple[str, str, str, str], Document] = {}
    for position, source in enumerate(sources):
        for each in _read(source, position, namespace, problems):
            before = found.get(each.key)
            if "$patch" in each.obj:
                _take_away(each, found, problems)
            elif before is not None and before.source == position:
                problems.add(each, f"there is one of that name in {before.where} already")
            else:
                found[each.key] = each
    problems.raise_if_any()
    return tuple(found.values())


def _take_away(
    document: Document, found: dict[tuple[str, str, str, str], Document], problems: Problems
) -> None:
    if document.obj["$patch"] != "delete":
        problems.add(document, '$patch: only "delete" is known here')
    elif found.pop(document.key, None) is None:
        problems.add(document, f"there is no {document.kind} {document.name} to take away")
    elif (document.group, document.kind) == (GROUP, CLUSTER.name):
        for key, each in [*found.items()]:
            if key[:2] == ("", "Node") and cluster_named(each.obj) == document.name:
                del found[key]


def _read(source: Source, position: int, namespace: str, problems: Problems) -> Iterator[Document]:
    if source.name.endswith(".csv"):
        for line, row in table.rows(source.name, source.data):
            where = f"{source.name}, line {line}"
            try:
                yield Document(where, position, table.job(row, namespace=namespace), made=True)
            except ValueError as error:
                problems.add(where, str(error))
        return
    for where, obj in _objects(source, problems):
        told = _unsound(obj)
        if told:
            problems.add(where, told)
            continue
        if obj["kind"] in NAMESPACED:
            obj["metadata"].setdefault("namespace", namespace)
        yield Document(where, position, obj)


NAMESPACED: Final = frozenset(
    {"Job", "Pod", "Deployment", "JobSet", "LeaderWorkerSet", "PlacementPolicy", "Placement"}
)


def _objects(source: Source, problems: Problems) -> Iterator[tuple[str, Any]]:
    try:
        for number, document in enumerate(_parsed(source.data), start=1):
            where = f"{source.name}, document {number}"
            if document is None:
                continue
            if isinstance(document, dict) and isinstance(document.get("items"), list):
                for at, item in enumerate(document["items"]):
                    yield f"{where}, items[{at}]", _typed(item, document)
            else:
                yield where, document
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problems.add(source.name, f"is no YAML: {error}")


def _parsed(data: bytes) -> Iterator[Any]:
    """What begins as JSON and is, is read as such: large lists come so."""
    if data.lstrip()[:1] == b"{":
        try:
            yield orjson.loads(data)
        except orjson.JSONDecodeError:
            pass  # flow style
        else:
            return
    yield from yaml.load_all(data, _LOADER)


def _typed(item: Any, listed: Mapping[str, Any]) -> Any:
    """Items of a typed list (`JobList`) do not say what they are."""
    kind = str(listed.get("kind", ""))
    if isinstance(item, dict) and "kind" not in item and kind.endswith("List") and kind != "List":
        return {"apiVersion": listed.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
    return item


def _unsound(obj: Any) -> str:
    if not isinstance(obj, dict):
        return "is no object: it must have apiVersion, kind and metadata"
    for name in ("apiVersion", "kind"):
        if not isinstance(obj.get(name), str) or not obj[name]:
            return f"{name}: must be given"
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return "metadata: must be given"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "metadata.name: must be given"
    for name in ("labels", "annotations"):
        values = metadata.get(name)
        if values is not None and (
            not isinstance(values, dict)
            or not all(isinstance(each, str) for each in values.values())
        ):
            return f"metadata.{name}: must be texts by name; write numbers and times in quotes"
    return ""
