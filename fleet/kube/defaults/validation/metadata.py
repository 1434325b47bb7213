"""Rules for `metadata`, for label selectors and for references that every kind shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest
from fleet.kube.defaults.validation import names
from fleet.kube.gotext import int64
from fleet.kube.selectors import LabelSelector

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.names import NameRule
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")

_MAX_ANNOTATIONS: Final = 256 * 1024


def check_metadata(
    problems: Problems,
    metadata: Object,
    *,
    namespaced: bool,
    name_rule: NameRule,
    core_finalizers: bool,
) -> None:
    """`metadata` of a new object; its name has been generated.

    `core_finalizers` tells the kinds whose bare finalizers must be known ones.
    """
    if prefix := metadata.get("generateName"):
        rule = name_rule(names.as_prefix(prefix))
        problems.invalid_each("metadata.generateName", prefix, rule)
    if name := metadata.get("name"):
        problems.invalid_each("metadata.name", name, name_rule(name))
    else:
        problems.required("metadata.name", "name or generateName is required")
    namespace = metadata.get("namespace", "")
    if not namespaced:
        if namespace:
            problems.forbidden("metadata.namespace", "not allowed on this type")
    elif not namespace:
        problems.required("metadata.namespace")
    else:
        problems.invalid_each("metadata.namespace", namespace, names.dns_label(namespace))
    problems.not_negative("metadata.generation", metadata.get("generation"))
    check_labels(problems, metadata.get("labels"), "metadata.labels")
    check_annotations(problems, metadata.get("annotations"), "metadata.annotations")
    _owners(problems, metadata.get("ownerReferences") or [])
    finalizers = metadata.get("finalizers") or []
    for finalizer in finalizers:
        rule = names.qualified_name(finalizer)
        problems.invalid_each("metadata.finalizers", finalizer, rule)
    if core_finalizers:
        _core_finalizers(problems, finalizers)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        problems.invalid(
            "metadata.finalizers",
            finalizers,
            "finalizer orphan and foregroundDeletion cannot be both set",
        )


def check_metadata_update(problems: Problems, new: Object, old: Object) -> None:
    """What an update may not change."""
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            problems.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{{{listed}}}",
            )
    for field in (
        "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):  # fmt: skip
        problems.immutable(f"metadata.{field}", new.get(field), old.get(field))


def check_labels(problems: Problems, labels: dict[str, str] | None, path: str) -> None:
    for key, value in sorted((labels or {}).items()):
        problems.invalid_each(path, key, names.qualified_name(key))
        problems.invalid_each(path, value, names.label_value(value))


def check_annotations(problems: Problems, annotations: dict[str, str] | None, path: str) -> None:
    size = 0
    for key, value in sorted((annotations or {}).items()):
        problems.invalid_each(path, key, names.qualified_name(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        problems.too_long(path, _MAX_ANNOTATIONS)


def check_selector(problems: Problems, selector: Object | None, path: str) -> None:
    """A LabelSelector object; absent is fine."""
    if selector is None:
        return
    check_labels(problems, selector.get("matchLabels"), f"{path}.matchLabels")
    check_expressions(problems, selector, path)


def check_expressions(
    problems: Problems, selector: Object, path: str, *, numbers: bool = False
) -> None:
    """Its `matchExpressions`; those of nodes' labels may compare `numbers`."""
    for index, term in enumerate(selector.get("matchExpressions") or []):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = term.get("operator", ""), term.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                problems.required(
                    f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                problems.forbidden(
                    f"{where}.values",
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )
        elif numbers and operator in ("Gt", "Lt"):
            if len(values) != 1 or int64(values[0]) is None:
                problems.required(
                    f"{where}.values",
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                )
        else:
            problems.invalid(f"{where}.operator", operator, "not a valid selector operator")
        key = term.get("key", "")
        problems.invalid_each(f"{where}.key", key, names.qualified_name(key))
        for position, value in enumerate(values):
            rule = names.label_value(value)
            problems.invalid_each(f"{where}.values[{position}]", value, rule)


def selects(selector: Object | None, labels: dict[str, str] | None) -> bool | None:
    """Whether a LabelSelector object matches; None when it is no valid selector."""
    try:
        return LabelSelector.from_object(selector).matches(labels or {})
    except BadRequest:
        return None


def _core_finalizers(problems: Problems, finalizers: list[str]) -> None:
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            problems.invalid(
                f"metadata.finalizers[{index}]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def _owners(problems: Problems, owners: list[Object]) -> None:
    path = "metadata.ownerReferences"
    controller = ""
    for owner in owners:
        if not owner.get("apiVersion", "").rpartition("/")[2]:
            problems.invalid(
                f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"
            )
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                problems.invalid(f"{path}.{field}", owner.get(field, ""), "must not be empty")
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            problems.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                problems.invalid(
                    path,
                    owners,
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {this}',
                )
            else:
                controller = this
