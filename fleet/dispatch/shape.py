"""What every shard has in common, whatever object stands for it in a member.

A workload is read once, into a `Workload` of its kind. Its shard's object carries our marks; its
pods wait at a gate, read what they are told from it, and never preempt. Pure; the kinds' own
packages (`jobs`, `pods`) make whole objects of it, `acting` creates them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.apiserver.deletion import ORPHAN
from fleet.dispatch import environment
from fleet.dispatch.marks import (
    FLEET_ANNOTATION,
    GENERATION_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from fleet.view.naming import (
    CLUSTER_LABEL,
    OWNER_REFERENCE_ANNOTATION,
    SHARD_LABEL,
    WORKLOAD_NAMESPACE_LABEL,
    WORKLOAD_UID_LABEL,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.dispatch.kind import Kind
    from fleet.dispatch.record import Shard
    from fleet.dispatch.situation import Ask

Object = dict[str, Any]

HOLD_CLASS: Final = "fleet-hold"
MARKS: Final = (WORKLOAD_NAMESPACE_LABEL, WORKLOAD_UID_LABEL, SHARD_LABEL, GENERATION_LABEL)
"""The labels that say which shard something belongs to."""
_SERVICE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LEFT_BEHIND: Final = frozenset({
    "kubectl.kubernetes.io/last-applied-configuration",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workload(ABC):
    """An object of the fleet that is to be carried out, read once."""

    obj: Object

    @property
    @abstractmethod
    def kind(self) -> Kind: ...

    @property
    @abstractmethod
    def template(self) -> Object:
        """What its pods are made of: an object with `metadata` and `spec`."""

    @abstractmethod
    def ask(self) -> Ask:
        """What decisions need to know of it."""

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])

    @property
    def spec(self) -> Object:
        found: Object = self.obj["spec"]
        return found

    @property
    def deleting(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    @property
    def orphaned(self) -> bool:
        """Whether its deletion is to leave what depends on it. The mark stays for as long as
        dispatch holds on to the workload."""
        return self.deleting and ORPHAN in (self.obj["metadata"].get("finalizers") or ())

    @property
    def pod_spec(self) -> Object:
        found: Object = self.template.get("spec") or {}
        return found

    @property
    def others(self) -> bool:
        """Whether somebody else said that it is theirs to run."""
        return False

    @property
    def finished(self) -> bool:
        """Whether its end is written down."""
        return False

    def expires_at(self) -> float | None:
        """When it is to go after its end; None if never, or not yet known."""
        return None

    # -- its pods

    @property
    def nodes(self) -> int:
        """Pods that run at a time."""
        return 1

    @property
    def indexed(self) -> bool:
        """Whether each of its pods has a rank."""
        return False

    @property
    def gang(self) -> bool:
        """Whether all its pods run together and are known by rank."""
        return False

    @property
    def service(self) -> str:
        """The Service that ranks are found by: a DNS label that begins with a letter."""
        name = str(self.pod_spec.get("subdomain") or self.name)
        return name if _SERVICE_NAME.fullmatch(name) else f"job-{name.replace('.', '-')}"[:63]

    def unsplittable(self) -> str:
        """Why it has to stay whole, "" when it may be split."""
        return ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a shard stands in one member.

    `global_index` is whether the member numbers pods over all shards. `whole` is whether the
    shard is all there is of the workload. `priority_class` is the class that holds without
    preempting, "" where the member has no such thing. `names_from` gives the variable names that
    a source of `envFrom` brings, as far as the fleet knows them. `on_nodes` gives a pod spec that
    is bound to the nodes that were chosen, as the member's scheduler is told of them.
    """

    fleet: str
    deadline_s: int
    backoff_limit: int
    whole: bool
    global_index: bool
    priority_class: str
    names_from: Callable[[Mapping[str, Any]], list[str]]
    on_nodes: Callable[[Object], Object] = dict
    elastic: bool = False
    """Whether its workload may run with fewer ranks than it asks for."""
    alone: Callable[[Object], Object] = dict
    """Gives a template of pods that share no node with others, where that is wanted."""


def owner_reference(workload: Workload) -> Object:
    """The ownerReference that parts show at the gateway."""
    return {
        "apiVersion": workload.obj["apiVersion"],
        "kind": workload.obj["kind"],
        "name": workload.name,
        "uid": workload.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_text(workload: Workload) -> str:
    """The same as an annotation holds it."""
    return orjson.dumps(owner_reference(workload)).decode()


def labels_of(workload: Workload, shard: Shard) -> dict[str, str]:
    """The labels that say which shard something belongs to."""
    values = (
        workload.namespace,
        workload.uid,
        shard.name(workload.name),
        str(shard.generation),
    )
    return dict(zip(MARKS, values, strict=True))


def metadata_of(workload: Workload, shard: Shard, terms: Terms) -> Object:
    """The metadata of the shard's object: the user's, and our marks."""
    metadata = workload.obj["metadata"]
    return {
        "name": shard.name(workload.name),
        "namespace": workload.namespace,
        "labels": {
            **{k: v for k, v in (metadata.get("labels") or {}).items() if k != CLUSTER_LABEL},
            **labels_of(workload, shard),
            MANAGED_BY_LABEL: MANAGED_BY,
        },
        "annotations": {
            **crossing(metadata.get("annotations") or {}),
            FLEET_ANNOTATION: terms.fleet,
            OWNER_REFERENCE_ANNOTATION: owner_text(workload),
        },
    }


def crossing(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations that go along into a member."""
    return {key: value for key, value in annotations.items() if key not in _LEFT_BEHIND}


def hold(
    pod_spec: Object, workload: Workload, terms: Terms, *, gate: str, ranks: environment.Ranks
) -> None:
    """Have a pod take a node without preempting and wait there for the gate, and every container
    of it read the gate."""
    for field in ("priority", "preemptionPolicy"):  # admission takes them from the class
        pod_spec.pop(field, None)
    if terms.priority_class:
        pod_spec["priorityClassName"] = terms.priority_class
    if not pod_spec.get("nodeName"):
        pod_spec.update(terms.on_nodes(pod_spec))
    volumes = pod_spec["volumes"] = [*(pod_spec.get("volumes") or ())]
    volumes.append({"name": environment.GATE_VOLUME, "configMap": {"name": gate}})
    processes = processes_of(pod_spec)
    for container in environment.containers(pod_spec):
        mounts = container["volumeMounts"] = [*(container.get("volumeMounts") or ())]
        mounts.append(
            {
                "name": environment.GATE_VOLUME,
                "mountPath": environment.GATE_PATH,
                "readOnly": True,
            }
        )
        sources = [
            name for each in container.get("envFrom") or () for name in terms.names_from(each)
        ]
        taken = environment.set_by_user(container, sources)
        added = environment.variables(
            gate=gate,
            gang=workload.gang,
            ranks=ranks,
            processes=processes,
            taken=taken,
            elastic=terms.elastic,
        )
        # First, so that the user's own may refer to them.
        container["env"] = [*added, *(container.get("env") or ())]


def processes_of(pod_spec: Mapping[str, Any]) -> int:
    """Processes of one node, as torchrun would be told."""
    return environment.number(environment.literal(pod_spec, "PET_NPROC_PER_NODE"), 1)


def port_of(pod_spec: Mapping[str, Any]) -> int:
    text = environment.literal(pod_spec, "MASTER_PORT")
    return environment.number(text, environment.DEFAULT_PORT)


def hold_class(workload: Workload) -> str:
    """The PriorityClass of the shard's pods in a member: as the user's, but it never preempts."""
    name = workload.pod_spec.get("priorityClassName")
    return f"{HOLD_CLASS}-{name}" if name else HOLD_CLASS


def priority_class(name: str, *, value: int, metadata: Object) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {**metadata, "name": name},
        "value": value,
        "preemptionPolicy": "Never",
        "description": "Shards of fleet workloads: a hold never preempts.",
    }
