"""What the server owns in an object, at create, update and delete.

Upstream spreads these rules over registry/rest and one strategy per kind: system fields of
`metadata`, the side of status and spec that a write may not touch, the generation, the selector of
a Job, the finalizer of a Namespace. Arguments are never changed; the store adds the revision.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest
from fleet.kube.defaults.pods import quality_of_service
from fleet.kube.defaults.registry import GENERATION_FIELDS, apply_defaults, fill_defaults
from fleet.kube.defaults.validation import validate_create, validate_update
from fleet.kube.schema import schema_for
from fleet.kube.schema.fields import conform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    from fleet.kube.schema import Schema

    class Chooser(Protocol):
        """`random.Random`, or anything that picks elements."""

        def choice(self, seq: Sequence[str], /) -> str: ...


Object = dict[str, Any]

# No vowels, no digits that look like letters: nothing rude, nothing misread.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_NAME: Final = 63

_SYSTEM_FIELDS: Final = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
    "managedFields",
)  # fmt: skip
# Kinds whose status writes leave all metadata alone; elsewhere labels and the like go through.
_STATUS_KEEPS_METADATA: Final = {
    ("storage.k8s.io", "VolumeAttachment"), ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "ResourceClaim"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
}  # fmt: skip
_JOB_LABELS: Final = {
    "job-name": "name",
    "batch.kubernetes.io/job-name": "name",
    "controller-uid": "uid",
    "batch.kubernetes.io/controller-uid": "uid",
}
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def generate_name(prefix: str, *, random: Chooser) -> str:
    """`prefix` and five unambiguous characters; a long prefix is cut so that 63 are not passed."""
    suffix = "".join(random.choice(_ALPHABET) for _ in range(_SUFFIX_LENGTH))
    return prefix[: _MAX_NAME - _SUFFIX_LENGTH] + suffix


def create(
    group: str,
    version: str,
    kind: str,
    obj: Object,
    *,
    namespace: str,
    now: datetime,
    uid: str,
    random: Chooser,
    schema: Schema | None = None,
    status_subresource: bool = True,
) -> Object:
    """A decoded object as it is to be stored: defaulted, named, prepared and validated.

    `schema` and `status_subresource` matter to custom resources only. `namespace` is "" for
    cluster-scoped kinds.

    Raises BadRequest when the object names another namespace or a revision, Invalid when it must
    not be stored.
    """
    filled = fill_defaults(group, version, kind, obj, schema=schema)
    metadata = filled["metadata"]
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    _match_namespace(metadata, namespace)
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = generate_name(metadata["generateName"], random=random)
    prepared = prepare_create(
        group, version, kind, filled, now=now, uid=uid, status_subresource=status_subresource
    )
    validate_create(group, version, kind, prepared, namespaced=bool(namespace), schema=schema)
    # Reading back from storage applies defaults once more, to what was prepared.
    return apply_defaults(group, version, kind, prepared, schema=schema)


def update(
    group: str,
    version: str,
    kind: str,
    new: Object,
    old: Object,
    *,
    namespace: str,
    subresource: str = "",
    schema: Schema | None = None,
    status_subresource: bool = True,
) -> Object:
    """A decoded object as it is to replace `old`: defaulted, prepared and validated.

    Raises BadRequest when the object has another name or namespace, Invalid when it must not be
    stored.
    """
    filled = apply_defaults(group, version, kind, new, schema=schema)
    metadata, name = filled["metadata"], old["metadata"].get("name", "")
    if not metadata.get("name"):
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if metadata["name"] != name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    _match_namespace(metadata, namespace)
    prepared = prepare_update(
        group, version, kind, old, filled,
        subresource=subresource, status_subresource=status_subresource,
    )  # fmt: skip
    validate_update(
        group, version, kind, prepared, old,
        subresource=subresource, namespaced=bool(namespace), schema=schema,
    )  # fmt: skip
    return apply_defaults(group, version, kind, prepared, schema=schema)


def _match_namespace(metadata: Object, namespace: str) -> None:
    given = metadata.get("namespace", "")
    if given and namespace and given != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def prepare_create(
    group: str,
    version: str,
    kind: str,
    obj: Object,
    *,
    now: datetime,
    uid: str,
    status_subresource: bool = True,
) -> Object:
    """A defaulted, named object with everything that the server decides at creation."""
    new = copy.deepcopy(obj)
    metadata = new.setdefault("metadata", {})
    for field in _SYSTEM_FIELDS:
        metadata.pop(field, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp(now)
    _unique_owners(metadata)
    key = (group, kind)
    builtin = schema_for(group, version, kind)
    if key in GENERATION_FIELDS or builtin is None:
        metadata["generation"] = 1
    if builtin is None:
        if status_subresource:
            new.pop("status", None)
    elif builtin.field("status") is not None and key != ("", "Node"):
        _empty_status(new, builtin)
    match key:
        case ("", "Namespace"):
            finalizers = new.setdefault("spec", {}).setdefault("finalizers", [])
            if "kubernetes" not in finalizers:
                finalizers.append("kubernetes")
            metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata.get(
                "name", ""
            )
            new["status"] = {"phase": "Active"}
        case ("", "Pod"):
            new["status"] = {"phase": "Pending", "qosClass": quality_of_service(new)}
            if new.get("spec", {}).get("schedulingGates"):
                new["status"]["conditions"] = [_gated(now)]
        case ("", "PersistentVolume"):
            new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(now)}
        case ("", "PersistentVolumeClaim"):
            _data_sources(new.get("spec", {}))
        case ("", "ServiceAccount"):
            _clean_secret_references(new)
        case ("apps", "DaemonSet"):
            annotations = metadata.setdefault("annotations", {})
            annotations[_TEMPLATE_GENERATION] = str(max(1, _template_generation(metadata)))
        case ("coordination.k8s.io", "Lease"):
            _drop_coordination(new)
        case ("batch", "Job"):
            if not new["spec"].get("manualSelector"):
                _select_own_pods(new)
    return new


def prepare_update(
    group: str,
    version: str,
    kind: str,
    old: Object,
    new: Object,
    *,
    subresource: str = "",
    status_subresource: bool = True,
) -> Object:
    """`new` with everything that an update through this endpoint may not change taken from `old`.

    `metadata.resourceVersion` is taken as given; comparing it is the store's part.
    """
    result = copy.deepcopy(new)
    metadata, before = result.setdefault("metadata", {}), old["metadata"]
    builtin = schema_for(group, version, kind)
    if subresource == "status":
        result = _status_only(result, old, key=(group, kind), custom=builtin is None)
        metadata = result["metadata"]
    elif subresource == "finalize":
        _take(result, old, "status")
    else:
        has_status = status_subresource if builtin is None else builtin.field("status") is not None
        if has_status:
            _take(result, old, "status")
        _strategy_update(result, old, key=(group, kind))
    _keep_system_fields(metadata, before)
    _unique_owners(metadata)
    if subresource == "" and _is_new_generation(result, old, key=(group, kind), builtin=builtin):
        metadata["generation"] = before.get("generation", 0) + 1
    return result


def is_unchanged(new: Object, old: Object) -> bool:
    """Whether a write changes nothing: no new revision, no event.

    The revision and the bookkeeping of field managers do not count.
    """
    return _comparable(new) == _comparable(old)


def mark_deleted(
    obj: Object, *, now: datetime, grace_period_s: int = 0, finalizers: Iterable[str] = ()
) -> Object:
    """`obj` in deletion: what stays behind finalizers or a grace period.

    `finalizers` are added (`orphan`, `foregroundDeletion`). An object that is in deletion keeps
    its time, unless the grace period is shortened.
    """
    marked = copy.deepcopy(obj)
    metadata = marked["metadata"]
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = timestamp(now, plus_s=grace_period_s)
        metadata["deletionGracePeriodSeconds"] = grace_period_s
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif grace_period_s < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = timestamp(now, plus_s=grace_period_s)
        metadata["deletionGracePeriodSeconds"] = grace_period_s
    added = [name for name in finalizers if name not in metadata.get("finalizers", ())]
    if added:
        metadata["finalizers"] = [*metadata.get("finalizers", ()), *added]
    return marked


def timestamp(moment: datetime, *, plus_s: int = 0) -> str:
    """RFC 3339 in UTC with whole seconds, as `metadata` has it."""
    whole = int(moment.timestamp()) + plus_s
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _comparable(obj: Object) -> Object:
    hidden = ("resourceVersion", "managedFields")
    metadata = {k: v for k, v in obj.get("metadata", {}).items() if k not in hidden}
    return {**obj, "metadata": metadata}


def _keep_system_fields(metadata: Object, before: Object) -> None:
    metadata.setdefault("uid", before.get("uid", ""))
    _take(metadata, before, "generation")
    for field in ("creationTimestamp", "deletionTimestamp"):
        if field in before:
            metadata[field] = before[field]
    if "deletionGracePeriodSeconds" in before:
        metadata.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    _take(metadata, before, "managedFields")
    metadata.pop("selfLink", None)


def _take(result: Object, old: Object, field: str) -> None:
    if field in old:
        result[field] = copy.deepcopy(old[field])
    else:
        result.pop(field, None)


def _status_only(new: Object, old: Object, *, key: tuple[str, str], custom: bool) -> Object:
    """`old` with the status of `new`, and with what else its status endpoint lets through."""
    metadata = new["metadata"]
    if custom or key in _STATUS_KEEPS_METADATA:
        kept = copy.deepcopy(old["metadata"])
        if "resourceVersion" in metadata:
            kept["resourceVersion"] = metadata["resourceVersion"]
        metadata = kept
    elif key == ("apps", "Deployment"):
        _take(metadata, old["metadata"], "labels")
    elif key == ("", "Pod"):
        _take(metadata, old["metadata"], "ownerReferences")
    result = {k: copy.deepcopy(v) for k, v in old.items() if k not in ("metadata", "status")}
    result["metadata"] = metadata
    if "status" in new:
        result["status"] = new["status"]
    return result


def _strategy_update(new: Object, old: Object, *, key: tuple[str, str]) -> None:
    """The kinds that keep more than their status from an update."""
    match key:
        case ("", "Namespace"):
            _take(new.setdefault("spec", {}), old.get("spec", {}), "finalizers")
        case ("", "Secret"):
            if not new.get("type"):
                _take(new, old, "type")
        case ("", "PersistentVolumeClaim"):
            _data_sources(new.get("spec", {}))
        case ("", "ServiceAccount"):
            _clean_secret_references(new)
        case ("coordination.k8s.io", "Lease"):
            _drop_coordination(new)
        case ("apps", "DaemonSet"):
            generation = _template_generation(old["metadata"])
            if new["spec"].get("template") != old["spec"].get("template"):
                generation += 1
            annotations = new["metadata"].setdefault("annotations", {})
            annotations[_TEMPLATE_GENERATION] = str(generation)


def _is_new_generation(
    new: Object, old: Object, *, key: tuple[str, str], builtin: Schema | None
) -> bool:
    if builtin is None:
        hidden = ("metadata", "status")
        return {k: v for k, v in new.items() if k not in hidden} != {
            k: v for k, v in old.items() if k not in hidden
        }
    return any(_at(new, path) != _at(old, path) for path in GENERATION_FIELDS.get(key, ()))


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found or None


def _empty_status(obj: Object, schema: Schema) -> None:
    """A status nobody has written yet, as the Go struct encodes it."""
    blank, _ = conform({}, schema)
    if "status" in blank:
        obj["status"] = blank["status"]
    else:
        obj.pop("status", None)


def _unique_owners(metadata: Object) -> None:
    """The same owner twice says nothing more; the first entry stays."""
    owners = metadata.get("ownerReferences")
    if owners:
        seen: list[Object] = []
        for owner in owners:
            if owner not in seen:
                seen.append(owner)
        metadata["ownerReferences"] = seen


def _select_own_pods(job: Object) -> None:
    """Labels and selector that no other Job's pods can match."""
    metadata = job["metadata"]
    template = job["spec"].setdefault("template", {}).setdefault("metadata", {})
    labels = template.setdefault("labels", {})
    for label, field in _JOB_LABELS.items():
        labels.setdefault(label, metadata.get(field, ""))
    selector = job["spec"].setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault("batch.kubernetes.io/controller-uid", metadata["uid"])


def _gated(now: datetime) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }


def _data_sources(spec: Object) -> None:
    """KEP-1495: `dataSource` and `dataSourceRef` say the same, whichever was given."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = copy.deepcopy(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = copy.deepcopy(reference)


def _drop_coordination(lease: Object) -> None:
    """Coordinated leader election is off by default; its fields are not kept."""
    for field in ("strategy", "preferredHolder"):
        lease.get("spec", {}).pop(field, None)


def _clean_secret_references(account: Object) -> None:
    if account.get("secrets"):
        account["secrets"] = [
            {"name": s["name"]} if s.get("name") else {} for s in account["secrets"]
        ]


def _template_generation(metadata: Object) -> int:
    text = str(metadata.get("annotations", {}).get(_TEMPLATE_GENERATION, "0"))
    return int(text) if text.isdecimal() else 0
