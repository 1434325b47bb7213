"""What a cluster adds to an object on its way in, as upstream's default admission plugins do.

Pods get their priority from its class, a service account and the usual tolerations; Services get
their cluster address. What this cluster cannot do is refused here, before anything is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Forbidden, Invalid
from fleet.kube.defaults.validation.policies import SYSTEM_PRIORITIES
from virtualnode.ranks import check_offset, number_over_shards
from virtualnode.resources import JOBS, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.kube.resources import Resource
    from fleet.kube.wire import UserInfo
    from virtualnode.addresses import ServiceAddresses

Object = dict[str, Any]

_TOLERATED_S: Final = 300
_NODE_TROUBLE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class PodAdmission:
    """Rank over all shards, priority, service account and tolerations (plugins Priority,
    ServiceAccount without token, DefaultTolerationSeconds)."""

    def __init__(self, classes: Callable[[], list[Object]]) -> None:
        """`classes` gives the PriorityClasses there are."""
        self._classes = classes

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Forbidden for a priority class that does not exist, Invalid for an offset of
        ranks that is no number."""
        if resource.gvr != PODS.gvr or old is not None:
            return obj
        spec = obj["spec"]
        number_over_shards(obj)
        self._prioritise(obj)
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec["serviceAccount"] = "default"
        tolerations = spec.setdefault("tolerations", [])
        for key in _NODE_TROUBLE:
            if not any(_tolerates_no_execute(each, key) for each in tolerations):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": _TOLERATED_S,
                    }
                )
        return obj

    def _prioritise(self, pod: Object) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName") or ""
        chosen: Object | None = None
        if name in SYSTEM_PRIORITIES:
            chosen = {"value": SYSTEM_PRIORITIES[name]}
        elif name:
            named = (each for each in self._classes() if each["metadata"]["name"] == name)
            chosen = next(named, None)
            if chosen is None:
                raise Forbidden.of(
                    group="",
                    resource="pods",
                    name=pod["metadata"]["name"],
                    why=f"no PriorityClass with name {name} was found",
                )
        else:
            defaults = [each for each in self._classes() if each.get("globalDefault")]
            if defaults:
                chosen = min(defaults, key=lambda each: int(each["value"]))
                spec["priorityClassName"] = chosen["metadata"]["name"]
        value = int(chosen["value"]) if chosen is not None else 0
        policy = (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        if spec.get("priority", value) != value:
            raise Forbidden.of(
                group="",
                resource="pods",
                name=pod["metadata"]["name"],
                why=f"the integer value of priority ({spec['priority']}) must not be provided in "
                f"pod spec; priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", policy)


def _tolerates_no_execute(toleration: Object, key: str) -> bool:
    effect = toleration.get("effect") or "NoExecute"
    return effect == "NoExecute" and (toleration.get("key") or key) == key


class JobAdmission:
    """Refuses what the Job controller of `virtualnode.jobs` does not do, and what would fail each
    of its pods."""

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Invalid."""
        if resource.gvr != JOBS.gvr:
            return obj
        name, spec = obj["metadata"]["name"], obj["spec"]
        if spec.get("backoffLimitPerIndex") is not None:
            why = "Forbidden: this cluster's Job controller does not count failures per index"
            cause = Cause("FieldValueForbidden", why, "spec.backoffLimitPerIndex")
            raise Invalid.of(group="batch", kind="Job", name=name, causes=[cause])
        annotations = (spec["template"].get("metadata") or {}).get("annotations") or {}
        field = "spec.template.metadata.annotations"
        check_offset(annotations, kind="Job", name=name, field=field)
        return obj


class ServiceAdmission:
    """Cluster addresses and node ports, allocated at creation and kept."""

    def __init__(self, addresses: ServiceAddresses) -> None:
        self._addresses = addresses

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """Raises Invalid for an address or port that is not free."""
        if resource.gvr != SERVICES.gvr:
            return obj
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
            return obj
        before = (old or {}).get("spec") or {}
        wanted = spec.get("clusterIP") or before.get("clusterIP") or ""
        if wanted != "None" and wanted != before.get("clusterIP"):
            if wanted and not self._addresses.is_free(wanted):
                raise _invalid(obj, "spec.clusterIPs", [wanted], self._addresses.why_not(wanted))
            wanted = wanted or self._addresses.next_address()
        spec["clusterIP"] = wanted
        spec["clusterIPs"] = [wanted]
        anywhere = wanted == "None" and not spec.get("selector")  # its slices may say anything
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if anywhere else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if anywhere else "SingleStack")
        self._number_node_ports(obj, before)
        return obj

    def _number_node_ports(self, service: Object, before: Object) -> None:
        spec = service["spec"]
        if spec.get("type") not in ("NodePort", "LoadBalancer"):
            return
        kept = {each.get("nodePort") for each in before.get("ports") or ()}
        for position, port in enumerate(spec.get("ports") or ()):
            number = port.get("nodePort")
            if number and number not in kept and not self._addresses.is_free_port(number):
                why = "provided port is already allocated"
                raise _invalid(service, f"spec.ports[{position}].nodePort", number, why)
            if not number:
                port["nodePort"] = self._addresses.next_port()


def _invalid(service: Object, field: str, value: Any, why: str) -> Invalid:
    shown = value if isinstance(value, int) else str(value).replace("'", '"')
    return Invalid.of(
        group="",
        kind="Service",
        name=service["metadata"]["name"],
        causes=[Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)],
    )
