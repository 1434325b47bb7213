"""CustomResourceDefinitions: what one must say, and the kind it makes the kernel serve.

Only the storage version of a definition is served here; the others would need a conversion, and
are left out of discovery. A definition whose names are accepted is Established (`controllers`
says so in its status), and from then on the kernel serves its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.apiserver.kinds import CustomKind
from fleet.apiserver.scales import ScalePaths
from fleet.errors import Cause, Invalid
from fleet.kube.resources import GroupVersionResource, Resource, Subresource
from fleet.kube.schema.documents import structural_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.kube.wire import UserInfo

Object = dict[str, Any]

CRDS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_VERBS: Final = (
    "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
)  # fmt: skip
_SUBRESOURCE_VERBS: Final = ("get", "patch", "update")


def storage_version(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The version under which objects are stored; {} when none is."""
    versions: list[Mapping[str, Any]] = definition["spec"].get("versions") or []
    return next((version for version in versions if version.get("storage")), {})


def resource_of(definition: Mapping[str, Any]) -> GroupVersionResource:
    """What the definition defines, in its storage version."""
    spec = definition["spec"]
    version = storage_version(definition).get("name", "")
    return GroupVersionResource(spec["group"], version, spec["names"]["plural"])


def is_established(definition: Mapping[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def row_of(definition: Mapping[str, Any]) -> Resource:
    """What the definition defines, as discovery describes it."""
    spec = definition["spec"]
    names, version = spec["names"], storage_version(definition)
    subresources = version.get("subresources") or {}
    rows = []
    if "status" in subresources:
        rows.append(Subresource("status", names["kind"], _SUBRESOURCE_VERBS))
    if "scale" in subresources:
        rows.append(Subresource("scale", "Scale", _SUBRESOURCE_VERBS, "autoscaling", "v1"))
    fields = version.get("selectableFields") or ()
    return Resource(
        resource_of(definition),
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        verbs=_VERBS,
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(rows),
        selectable_fields=tuple(str(f.get("jsonPath", "")).removeprefix(".") for f in fields),
        custom=True,
    )


def kind_of(definition: Mapping[str, Any]) -> CustomKind | None:
    """The kind that a definition makes; None when its storage version is not served."""
    version = storage_version(definition)
    if not version.get("served"):
        return None
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return CustomKind(
        row_of(definition),
        openapi=version["schema"]["openAPIV3Schema"],
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        status="status" in subresources,
        scale=ScalePaths.of(scale) if scale is not None else None,
        ending=bool(definition["metadata"].get("deletionTimestamp")),
    )


# -- what must not be stored


class DefinitionAdmission:
    """Refuses definitions that nothing could be served by."""

    def __init__(self, holds_objects: Callable[[Resource], bool]) -> None:
        """`holds_objects` says whether objects of a resource are stored."""
        self._holds_objects = holds_objects

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Invalid naming each wrong field."""
        if resource.gvr != CRDS or obj["metadata"].get("deletionTimestamp"):
            return obj
        causes = list(problems(obj))
        if not causes and old is not None:
            before, after = row_of(old), row_of(obj)
            kept = (after.gvr, after.selectable_fields, after.namespaced)
            if kept != (before.gvr, before.selectable_fields, before.namespaced):
                if self._holds_objects(before):
                    why = (
                        "Forbidden: the storage version, its selectable fields and the scope stay "
                        f"while {before.gvr.resource} are stored; delete them first"
                    )
                    causes.append(Cause("FieldValueForbidden", why, "spec.versions"))
        if causes:
            name = obj["metadata"].get("name", "")
            raise Invalid.of(group=CRDS.group, kind=resource.kind, name=name, causes=causes)
        return obj


def problems(definition: Mapping[str, Any]) -> Iterable[Cause]:
    """What is wrong with a definition, as upstream says it (a part of its rules)."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    group, plural = spec.get("group") or "", names.get("plural") or ""
    for value, field in (
        (group, "spec.group"),
        (plural, "spec.names.plural"),
        (names.get("singular"), "spec.names.singular"),
        (names.get("kind"), "spec.names.kind"),
        (names.get("listKind"), "spec.names.listKind"),
    ):
        if not value:
            yield Cause("FieldValueRequired", "Required value", field)
    name, wanted = definition["metadata"].get("name", ""), f"{plural}.{group}"
    if name != wanted:
        why = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        yield Cause("FieldValueInvalid", why, "metadata.name")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        given = spec.get("scope", "")
        why = f'Unsupported value: "{given}": supported values: "Cluster", "Namespaced"'
        yield Cause("FieldValueNotSupported", why, "spec.scope")
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "Invalid value: must have exactly one version marked as storage version"
        yield Cause("FieldValueInvalid", why, "spec.versions")
    if len({version.get("name") for version in versions}) != len(versions):
        why = "Invalid value: must contain unique version names"
        yield Cause("FieldValueInvalid", why, "spec.versions")
    for number, version in enumerate(versions):
        yield from _schema_problems(version, f"spec.versions[{number}]")


def _schema_problems(version: Mapping[str, Any], path: str) -> Iterable[Cause]:
    if not version.get("name"):
        yield Cause("FieldValueRequired", "Required value", f"{path}.name")
    field = f"{path}.schema.openAPIV3Schema"
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield Cause("FieldValueRequired", "Required value: schemas are required", field)
        return
    if schema.get("type") != "object":
        why = f'Invalid value: "{schema.get("type", "")}": must be object at the root'
        yield Cause("FieldValueInvalid", why, f"{field}.type")
        return
    try:
        structural_schema(schema)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        yield Cause("FieldValueInvalid", f"Invalid value: it is no schema: {error}", field)


# -- status


def with_status(
    definition: Object, *, taken: Iterable[str], taken_kinds: Iterable[str], now: str
) -> Object:
    """The definition with what becomes of its names.

    `taken` are the resource names, `taken_kinds` the kinds that others in its group have.
    """
    spec, status = definition["spec"], dict(definition.get("status") or {})
    names, accepted = spec["names"], dict(status.get("acceptedNames") or {})
    used, used_kinds = set(taken), set(taken_kinds)
    reason = clash = ""
    for field, where, why in (
        ("plural", used, "PluralConflict"),
        ("singular", used, "SingularConflict"),
        ("kind", used_kinds, "KindConflict"),
        ("listKind", used_kinds, "ListKindConflict"),
    ):
        wanted = names.get(field, "")
        if wanted != accepted.get(field) and wanted in where:
            reason, clash = why, wanted
        else:
            accepted[field] = wanted
    short = names.get("shortNames") or []
    bad = [name for name in short if name in used and name not in accepted.get("shortNames", ())]
    if bad:
        reason, clash = "ShortNamesConflict", bad[0]
    else:
        accepted.pop("shortNames", None)
        accepted |= {"shortNames": short} if short else {}
    accepted.pop("categories", None)
    accepted |= {"categories": names["categories"]} if names.get("categories") else {}
    if reason:
        named = _condition("NamesAccepted", "False", reason, f'"{clash}" is already in use')
        established = _condition(
            "Established", "False", "NotAccepted", "not all names are accepted"
        )
    else:
        named = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        established = _condition(
            "Established", "True", "InitialNamesAccepted", "the initial names have been accepted"
        )
    conditions = list(status.get("conditions") or ())
    known = next((c for c in conditions if c.get("type") == "Established"), None)
    fresh = [named]
    if known is None or known.get("status") != "True":  # what is established once stays so
        fresh.append(established)
    stored = list(status.get("storedVersions") or ())
    version = storage_version(definition).get("name")
    if version not in stored:
        stored.append(version)
    status |= {
        "acceptedNames": accepted,
        "conditions": merged(conditions, fresh, now=now),
        "storedVersions": stored,
    }
    return {**definition, "status": status}


def terminating(definition: Object, *, now: str) -> Object:
    """The definition as its DELETE leaves it: its objects have to go first."""
    metadata, status = dict(definition["metadata"]), dict(definition.get("status") or {})
    metadata["deletionTimestamp"] = now
    finalizers = metadata.get("finalizers") or []
    if CLEANUP not in finalizers:
        metadata["finalizers"] = [*finalizers, CLEANUP]
    told = _condition(
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    )
    status["conditions"] = merged(status.get("conditions") or (), [told], now=now)
    return {**definition, "metadata": metadata, "status": status}


def merged(before: Iterable[Object], fresh: Iterable[Object], *, now: str) -> list[Object]:
    """Conditions with these put in; a time changes only with its condition's status."""
    found = {condition["type"]: condition for condition in before}
    for condition in fresh:
        known = found.get(condition["type"])
        since = now
        if known is not None and known.get("status") == condition["status"]:
            since = known.get("lastTransitionTime", now)
        found[condition["type"]] = {**condition, "lastTransitionTime": since}
    return list(found.values())


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}
