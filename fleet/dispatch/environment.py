"""What a pod is told of the gang: environment and files, by a ConfigMap that is also the gate.

A live Job's template cannot change, so nothing that differs between generations stands in it as a
literal: variables refer to keys of the gate, ranks to an annotation that the member sets on each
pod. A container reads the gate when it starts; files in it follow by themselves. What a user has
set keeps the user's value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from fleet.dispatch.marks import COMPLETION_INDEX_ANNOTATION, GLOBAL_INDEX_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Object = dict[str, Any]
Ranks = Literal["None", "Own", "Global"]
"""Where a pod's rank is read: nowhere, off the Job's own index, or off the global one."""

GATE_VOLUME: Final = "fleet-gate"
GATE_PATH: Final = "/etc/fleet"
PEERS_KEY: Final = "peers.json"
HOSTS_KEY: Final = "hostfile"
LOAN_KEY: Final = "loan.json"
PEERS_FILE: Final = f"{GATE_PATH}/{PEERS_KEY}"
DEFAULT_PORT: Final = 29500
_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"

_ALWAYS: Final = (
    "FLEET_JOB", "FLEET_GENERATION", "FLEET_CLUSTER", "FLEET_DOMAIN",
    "FLEET_SHARD_INDEX", "FLEET_SHARD_COUNT", "FLEET_PEERS_FILE",
)  # fmt: skip
_OF_GANGS: Final = (
    "FLEET_NODES", "FLEET_INDEX_OFFSET", "FLEET_RDZV_ENDPOINT",
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE",
    "PET_NNODES", "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES",
)  # fmt: skip
_OF_ELASTIC: Final = ("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID")
"""What torchrun meets by, where how many it is differs: only its static rendezvous takes a rank
that it is given."""
_NODE_RANKS: Final = ("FLEET_GLOBAL_INDEX", "FLEET_NODE_RANK", "PET_NODE_RANK")
_PROCESS_RANKS: Final = ("RANK", "JAX_PROCESS_ID")
# What counts processes is right only where a node has one, unless told how many.
_PROCESS_COUNTS: Final = frozenset({"JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS"})


@dataclass(frozen=True, slots=True)
class Peer:
    """A rank and where it is; `address` is "" while it has none."""

    rank: int
    cluster: str
    host: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """What all ranks of a workload share. `service` is the headless Service that names them, ""
    where pods have no ranks or do not run together."""

    job: str
    generation: int
    domain: str
    shards: int
    nodes: int
    """Ranks that run together."""
    service: str = ""
    port: int = DEFAULT_PORT
    processes: int = 1
    """Of one node, as the user says it."""
    peers: tuple[Peer, ...] = ()
    loan: Mapping[str, str] | None = None
    """What it is told of the loan that it runs on: a program that looks at it has its notice."""
    lead: int = 0
    """The rank that the others find each other by."""
    between: tuple[int, int] | None = None
    """Fewest and most ranks, of one whose number differs."""
    run: str = ""
    """Names the workload to those that meet, for as long as it is there."""

    @property
    def lead_name(self) -> str:
        return f"{self.job}-{self.lead}.{self.service}"

    @property
    def lead_address(self) -> str:
        return next((peer.address for peer in self.peers if peer.rank == self.lead), "")

    @property
    def counted(self) -> str:
        """How many nodes torchrun is told of."""
        if self.between is None:
            return str(self.nodes)
        least, most = self.between
        return f"{least}:{most}"


def gate_data(
    gang: Gang, *, cluster: str, index: int, offset: int, lead: str = ""
) -> dict[str, str]:
    """The data of one shard's gate. `lead` is how the leading rank is called (`lead_for`); `offset`
    what the program has to add to its own index."""
    data = {
        "FLEET_JOB": gang.job,
        "FLEET_GENERATION": str(gang.generation),
        "FLEET_CLUSTER": cluster,
        "FLEET_DOMAIN": gang.domain,
        "FLEET_SHARD_INDEX": str(index),
        "FLEET_SHARD_COUNT": str(gang.shards),
        "FLEET_PEERS_FILE": PEERS_FILE,
        PEERS_KEY: _peers_text(gang),
    }
    if gang.loan is not None:
        told = orjson.dumps(gang.loan, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
        data[LOAN_KEY] = told.decode() + "\n"
    if gang.service:
        lead = lead or gang.lead_address or gang.lead_name
        port = str(gang.port)
        data |= {
            "FLEET_NODES": str(gang.nodes),
            "FLEET_INDEX_OFFSET": str(offset),
            "FLEET_RDZV_ENDPOINT": _endpoint(lead, port),
            "MASTER_ADDR": lead,
            "MASTER_PORT": port,
            "WORLD_SIZE": str(gang.nodes * gang.processes),
            "PET_NNODES": gang.counted,
            "PET_MASTER_ADDR": lead,
            "PET_MASTER_PORT": port,
            "JAX_COORDINATOR_ADDRESS": _endpoint(lead, port),
            "JAX_NUM_PROCESSES": str(gang.nodes),
            HOSTS_KEY: "".join(
                f"{peer.host}.{gang.service} slots={gang.processes}\n" for peer in gang.peers
            ),
        }
        if gang.between is not None:
            data |= {
                "PET_RDZV_BACKEND": "c10d",
                "PET_RDZV_ENDPOINT": _endpoint(lead, port),
                "PET_RDZV_ID": gang.run or gang.job,
            }
    return data


def lead_for(gang: Gang, present: Mapping[str, str] | None) -> str:
    """How a shard's gate calls the leading rank: by address where that is known when the gate
    opens, else by name; a gate that is open keeps to the name, or follows the address. Another
    generation of an elastic gang may have another lead."""
    told = present or {}
    if gang.between is not None and told.get("FLEET_GENERATION") != str(gang.generation):
        told = {}
    if told.get("MASTER_ADDR") == gang.lead_name:
        return gang.lead_name
    return gang.lead_address or told.get("MASTER_ADDR", "") or gang.lead_name


def _endpoint(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _peers_text(gang: Gang) -> str:
    ranks = [
        {"rank": p.rank, "place": place, "cluster": p.cluster, "host": p.host, "address": p.address}
        for place, p in enumerate(gang.peers)
    ]
    document = {"job": gang.job, "generation": gang.generation, "nodes": gang.nodes, "ranks": ranks}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


# -- the template's side


def variables(
    *,
    gate: str,
    gang: bool,
    ranks: Ranks,
    processes: int,
    taken: Collection[str],
    elastic: bool = False,
) -> list[Object]:
    """The variables that a container gets, without those whose names are `taken`.

    Where a member cannot number the pods over all shards, ranks are left to the program, which
    adds FLEET_INDEX_OFFSET to its own index.
    """
    wanted: list[Object] = [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": gate, "key": name}}}
        for name in _ALWAYS
        + (_OF_GANGS if gang else ())
        + (_OF_ELASTIC if gang and elastic else ())
        if processes == 1 or name not in _PROCESS_COUNTS
    ]
    if ranks != "None":
        names = _NODE_RANKS + (_PROCESS_RANKS if processes == 1 else ())
        if ranks == "Global":
            wanted += [_rank(name, GLOBAL_INDEX_ANNOTATION) for name in (*names, _COMPLETION_INDEX)]
        else:
            wanted += [_rank(name, COMPLETION_INDEX_ANNOTATION) for name in names]
    return [each for each in wanted if each["name"] not in taken]


def _rank(name: str, annotation: str) -> Object:
    return {
        "name": name,
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}},
    }


def containers(pod_spec: Mapping[str, Any]) -> Iterable[Object]:
    """Every container of a pod, in the order in which they start."""
    yield from pod_spec.get("initContainers") or ()
    yield from pod_spec.get("containers") or ()


def literal(pod_spec: Mapping[str, Any], name: str) -> str:
    """The value that a user's container gives to a variable as a literal, "" if none does."""
    for container in containers(pod_spec):
        for variable in container.get("env") or ():
            if variable.get("name") == name and isinstance(variable.get("value"), str):
                return str(variable["value"])
    return ""


def number(text: str, default: int) -> int:
    """A positive number that a user wrote, or `default` for anything else."""
    return int(text) if text.isdecimal() and 0 < int(text) < 1 << 31 else default


def set_by_user(container: Mapping[str, Any], from_sources: Sequence[str]) -> set[str]:
    """Names that a container has already; `from_sources` are those of its `envFrom`."""
    return {str(each.get("name")) for each in container.get("env") or ()} | set(from_sources)
