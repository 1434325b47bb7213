"""Rules for the kinds that steer others: RBAC, autoscalers, budgets, leases, events, namespaces,
classes of priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.apps import check_at_most_all, check_count
from fleet.kube.defaults.validation.metadata import STANDARD_FINALIZERS, check_selector

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
_METRICS: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}

SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The classes that every cluster has, with their values."""
_SYSTEM_PREFIX: Final = "system-"
_HIGHEST_OF_USERS: Final = 1_000_000_000


def check_namespace(problems: Problems, namespace: Object) -> None:
    for finalizer in namespace.get("spec", {}).get("finalizers") or []:
        wrong = names.qualified_name(finalizer)
        problems.invalid_each("spec.finalizers", finalizer, wrong)
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            problems.invalid(
                "spec.finalizers",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def check_role(problems: Problems, role: Object) -> None:
    namespaced = role.get("kind") == "Role"
    for index, rule in enumerate(role.get("rules") or []):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            problems.required(f"{path}.verbs", "verbs must contain at least one value")
        if urls:
            if namespaced:
                problems.invalid(
                    f"{path}.nonResourceURLs",
                    urls,
                    "namespaced rules cannot apply to non-resource URLs",
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                problems.invalid(
                    f"{path}.nonResourceURLs",
                    urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            continue
        if not rule.get("apiGroups"):
            problems.required(
                f"{path}.apiGroups", "resource rules must supply at least one api group"
            )
        if not rule.get("resources"):
            problems.required(
                f"{path}.resources", "resource rules must supply at least one resource"
            )
    aggregation = role.get("aggregationRule")
    if aggregation is not None and not namespaced:
        path = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            problems.required(
                path, "at least one clusterRoleSelector required if aggregationRule is non-nil"
            )
        for index, selector in enumerate(selectors):
            check_selector(problems, selector, f"{path}[{index}]")


def check_role_binding(problems: Problems, binding: Object) -> None:
    namespaced = binding.get("kind") == "RoleBinding"
    reference = binding.get("roleRef") or {}
    if reference.get("apiGroup") != _RBAC:
        problems.not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (_RBAC,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind") not in kinds:
        problems.not_supported("roleRef.kind", reference.get("kind", ""), kinds)
    name = reference.get("name", "")
    if not name:
        problems.required("roleRef.name")
    else:
        problems.invalid_each("roleRef.name", name, names.path_segment(name))
    for index, subject in enumerate(binding.get("subjects") or []):
        path, name = f"subjects[{index}]", subject.get("name", "")
        if not name:
            problems.required(f"{path}.name")
        match subject.get("kind"):
            case "ServiceAccount":
                if name:
                    problems.invalid_each(f"{path}.name", name, names.dns_subdomain(name))
                if subject.get("apiGroup"):
                    problems.not_supported(f"{path}.apiGroup", subject["apiGroup"], ("",))
                if not namespaced and not subject.get("namespace"):
                    problems.required(f"{path}.namespace")
            case "User" | "Group":
                if subject.get("apiGroup") != _RBAC:
                    group = subject.get("apiGroup", "")
                    problems.not_supported(f"{path}.apiGroup", group, (_RBAC,))
            case other:
                supported = ("ServiceAccount", "User", "Group")
                problems.not_supported(f"{path}.kind", other or "", supported)


def check_role_binding_update(problems: Problems, new: Object, old: Object) -> None:
    if new.get("roleRef") != old.get("roleRef"):
        reference = new.get("roleRef") or {}
        # shown with the fields of the Go type, which has no JSON names
        shown = {
            "APIGroup": reference.get("apiGroup", ""),
            "Kind": reference.get("kind", ""),
            "Name": reference.get("name", ""),
        }
        problems.invalid("roleRef", shown, "cannot change roleRef")


def check_namespace_status(problems: Problems, new: Object, old: Object) -> None:
    phase = (new.get("status") or {}).get("phase", "")
    ending = bool(new["metadata"].get("deletionTimestamp"))
    wanted, when = ("Terminating", "not empty") if ending else ("Active", "empty")
    if phase != wanted:
        why = f"may only be '{wanted}' if `deletionTimestamp` is {when}"
        problems.invalid("status.Phase", phase, why)


def check_priority_class(problems: Problems, priority_class: Object) -> None:
    """Of a new one; what can be wrong with it cannot change."""
    name, value = priority_class["metadata"].get("name", ""), priority_class.get("value", 0)
    if name.startswith(_SYSTEM_PREFIX):
        default = bool(priority_class.get("globalDefault"))
        if why := _no_system_class(name, value, default=default):
            problems.forbidden(
                "metadata.name",
                f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use "
                f"only. error: {why}",
            )
    elif value > _HIGHEST_OF_USERS:
        problems.forbidden(
            "value", f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
        )
    policy = priority_class.get("preemptionPolicy", "PreemptLowerPriority")
    problems.one_of("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def check_priority_class_update(problems: Problems, new: Object, old: Object) -> None:
    if new.get("value", 0) != old.get("value", 0):
        problems.forbidden("value", "may not be changed in an update.")
    problems.immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def _no_system_class(name: str, value: int, *, default: bool) -> str:
    """Why it is none of the classes of the system; "" for one."""
    known = SYSTEM_PRIORITIES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def check_disruption_budget(problems: Problems, budget: Object) -> None:
    spec = budget.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        problems.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            check_count(problems, spec[field], f"spec.{field}")
            check_at_most_all(problems, spec[field], f"spec.{field}")
    check_selector(problems, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    supported = ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in supported:
        problems.not_supported("spec.unhealthyPodEvictionPolicy", policy, supported)


def check_autoscaler(problems: Problems, autoscaler: Object) -> None:
    """autoscaling/v2, and of autoscaling/v1 what both have."""
    spec = autoscaler.get("spec", {})
    low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if low is not None and low < 1:
        problems.invalid("spec.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        problems.required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        problems.invalid("spec.maxReplicas", high, "must be greater than or equal to 1")
    if low is not None and high < low:
        problems.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        value = target.get(field, "")
        if not value:
            problems.required(f"spec.scaleTargetRef.{field}")
        else:
            wrong = names.path_segment(value)
            problems.invalid_each(f"spec.scaleTargetRef.{field}", value, wrong)
    if autoscaler.get("apiVersion") != "autoscaling/v1" and "/" not in target.get("apiVersion", ""):
        problems.invalid(
            "spec.scaleTargetRef.apiVersion",
            target.get("apiVersion", ""),
            "apiVersion must specify API group",
        )
    for index, metric in enumerate(spec.get("metrics") or []):
        _metric(problems, metric, f"spec.metrics[{index}]")


def _metric(problems: Problems, metric: Object, path: str) -> None:
    kind = metric.get("type", "")
    if not kind:
        problems.required(f"{path}.type", "must specify a metric source type")
    field = _METRICS.get(kind)
    if field is None:
        problems.not_supported(f"{path}.type", kind, tuple(_METRICS))
    elif field not in metric:
        problems.required(
            f"{path}.{field}", "must populate information for the given metric source"
        )
    present = [f for f in _METRICS.values() if f in metric]
    if len(present) != 1:
        for other in present:
            if other != field:
                problems.forbidden(f"{path}.{other}", "must populate the given metric source only")


def check_lease(problems: Problems, lease: Object) -> None:
    spec = lease.get("spec", {})
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        problems.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    problems.not_negative("spec.leaseTransitions", transitions)


def check_event(problems: Problems, event: Object) -> None:
    """Both Event kinds; the newer API asks for more."""
    core = event.get("apiVersion") == "v1"
    namespace = event["metadata"].get("namespace", "")
    about = event.get("involvedObject" if core else "regarding") or {}
    where = about.get("namespace", "")
    path = "involvedObject.namespace"
    if not event.get("eventTime"):
        matches = where == namespace or (not where and namespace in ("", "default"))
    else:
        matches = bool(where) or namespace in ("default", "kube-system")
        _modern_event(problems, event, core=core)
    if not matches:
        problems.invalid(path, where, "does not match event.namespace")
    problems.invalid_each("namespace", namespace, names.dns_subdomain(namespace))
    if core:
        return
    if not event.get("eventTime"):
        problems.required("eventTime")
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        problems.invalid("type", "", f"has invalid value: {kind}")


def _modern_event(problems: Problems, event: Object, *, core: bool) -> None:
    reporter = "reportingComponent" if core else "reportingController"
    name = event.get(reporter, "")
    if not name:
        problems.required(reporter)
    problems.invalid_each(reporter, name, names.qualified_name(name))
    for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        value = event.get(field, "")
        if not value:
            problems.required(field)
        elif len(value.encode()) > limit:
            problems.invalid(field, "", f"can have at most {limit} characters")
    if len(event.get("message" if core else "note", "").encode()) > 1024:
        problems.invalid("message", "", "can have at most 1024 characters")
