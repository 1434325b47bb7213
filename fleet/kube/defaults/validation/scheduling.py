"""Rules for what steers a pod to nodes: affinity, tolerations, topology spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.metadata import check_expressions, check_selector

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHT: Final = "must be in the range 1-100"


def check_affinity(problems: Problems, affinity: Object, path: str) -> None:
    if (node := affinity.get("nodeAffinity")) is not None:
        where = f"{path}.nodeAffinity"
        if (required := node.get(_REQUIRED)) is not None:
            terms = required.get("nodeSelectorTerms") or []
            inner = f"{where}.{_REQUIRED}.nodeSelectorTerms"
            if not terms:
                problems.required(inner, "must have at least one node selector term")
            for index, term in enumerate(terms):
                check_expressions(problems, term, f"{inner}[{index}]", numbers=True)
        for index, term in enumerate(node.get(_PREFERRED) or []):
            inner = f"{where}.{_PREFERRED}[{index}]"
            _weight(problems, term, f"{inner}.weight")
            preference = term.get("preference") or {}
            check_expressions(problems, preference, f"{inner}.preference", numbers=True)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        where = f"{path}.{kind}"
        for index, term in enumerate(pods.get(_REQUIRED) or []):
            _pod_term(problems, term, f"{where}.{_REQUIRED}[{index}]")
        for index, term in enumerate(pods.get(_PREFERRED) or []):
            inner = f"{where}.{_PREFERRED}[{index}]"
            _weight(problems, term, f"{inner}.weight")
            _pod_term(problems, term.get("podAffinityTerm") or {}, f"{inner}.podAffinityTerm")


def check_tolerations(problems: Problems, tolerations: list[Object], path: str) -> None:
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, value = toleration.get("key", ""), toleration.get("value", "")
        operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
        if key:
            problems.invalid_each(f"{where}.key", key, names.qualified_name(key))
        elif operator != "Exists":
            problems.invalid(
                f"{where}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"',
            )
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            problems.invalid(
                f"{where}.effect",
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        if operator in ("Equal", ""):
            wrong = names.label_value(value)
            if wrong:
                problems.invalid(f"{where}.operator", value, ";".join(wrong))
        elif operator == "Exists":
            if value:
                problems.invalid(
                    f"{where}.operator", value, "value must be empty when `operator` is 'Exists'"
                )
        elif operator in ("Lt", "Gt"):
            supported = ("Equal", "Exists", "Lt", "Gt")
            problems.not_supported(f"{where}.operator", operator, supported)
        else:
            problems.not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            problems.not_supported(f"{where}.effect", effect, _EFFECTS)


def check_topology_spread(problems: Problems, constraints: list[Object], path: str) -> None:
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            problems.invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        topology, action = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable", "")
        if not topology:
            problems.required(f"{where}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            problems.not_supported(
                f"{where}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")
            )
        for other in constraints[index + 1 :]:
            if (other.get("topologyKey"), other.get("whenUnsatisfiable")) == (topology, action):
                problems.duplicate(
                    f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{topology}, {action}}}"
                )
                break
        domains = constraint.get("minDomains")
        if domains is not None:
            if domains <= 0:
                problems.invalid(f"{where}.minDomains", domains, "must be greater than zero")
            if action != "DoNotSchedule":
                problems.invalid(
                    f"{where}.minDomains",
                    domains,
                    f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
                )
        check_selector(problems, constraint.get("labelSelector"), f"{where}.labelSelector")


def _weight(problems: Problems, term: Object, path: str) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        problems.invalid(path, weight, _WEIGHT)


def _pod_term(problems: Problems, term: Object, path: str) -> None:
    check_selector(problems, term.get("labelSelector"), f"{path}.labelSelector")
    check_selector(problems, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or []:
        problems.invalid_each(f"{path}.namespace", namespace, names.dns_label(namespace))
    topology = term.get("topologyKey", "")
    if not topology:
        problems.required(f"{path}.topologyKey", "can not be empty")
    problems.invalid_each(f"{path}.topologyKey", topology, names.qualified_name(topology))
