"""Kind Cluster: how a member is reached, and what the scheduler may know of it."""

from __future__ import annotations

from typing import Any

from policies.base import LATER, REQUIRED, Items, Model, by_key, setting
from policies.parts import Condition, SecretKeyReference, Taint
from policies.scalars import Duration, Quantity, Time


class Virtual(Model):
    """A member that the gateway serves itself, in front of something that is no Kubernetes."""

    adapter: str = setting(REQUIRED, "Name of the adapter, e.g. process.")
    config: dict[str, Any] = setting(
        {},
        "Settings of the adapter, as its documentation lists them.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


class Connection(Model):
    """The way to the member; without any part it is the one that `fleet join` recorded."""

    kubeconfig_secret_ref: SecretKeyReference | None = setting(
        None, f"A Secret with a kubeconfig that leads to the member. {LATER}"
    )
    virtual: Virtual | None = setting(None, f"Serve the member through an adapter. {LATER}")


class Networks(Model):
    """The networks a member is on, by name: equal names mean the same network."""

    parameter_plane: str = setting(
        "", "Network between accelerators (RDMA); empty means that it is not known to be on one."
    )
    data_plane: str = setting(
        "", "Network between pods of different members; empty means that none is known."
    )


class Blocks(Model):
    """How a member's nodes are grouped by the switch or rack they are under."""

    node_label: str = setting(
        "", "Node label whose value names the block; empty makes the whole member one block."
    )


class Maintenance(Model):
    """Keeps new work away; set by drain and by staged rollouts."""

    cordoned: bool = setting(False, "Whether the member takes no new work.")
    reason: str = setting("", "Why, for people.")


class ClusterSpec(Model):
    """What the operator of the fleet says about a member."""

    connection: Connection = setting({}, "How the member is reached.")
    networks: Networks = setting({}, "The networks it is on.")
    blocks: Blocks = setting({}, "How its nodes are grouped.")
    taints: Items[Taint] = setting((), "Keep away all work that does not tolerate them.")
    maintenance: Maintenance = setting({}, "Whether it takes new work.")
    capacity_max_age: Duration = setting(
        "30s", "Capacity that was last confirmed longer ago counts as none."
    )


class Capacity(Model):
    """Nodes of one shape in one block."""

    shape: dict[str, Quantity] = setting(REQUIRED, "What each of the nodes can allocate.")
    accelerator: str = setting("", "Kind of its accelerators.")
    block: str = setting("", "The block they are in.")
    nodes: int = setting(0, "How many there are.")
    free: int = setting(
        0,
        "Unused accelerators on those that take work; without accelerators, nodes that take work.",
    )


class Summary(Model):
    """What the columns of `kubectl get clusters` show."""

    ready: str = setting("", "Status of the condition Ready, and Cordoned where no new work goes.")
    api: str = setting("", "ok, or lost since the API last answered.")
    data: str = setting("", "ok while its workloads serve.")
    fresh: str = setting("", "Age of what is known of it.")
    nodes: int = setting(0, "Number of nodes.")
    accelerators: str = setting("", "Kinds of accelerator.")
    free: str = setting("", "Unused accelerators; a question mark when that is not fresh.")
    price_per_hour: str = setting(
        "",
        "What an hour of the cheapest of its accelerators costs, by the prices that placement "
        "goes by; 0 where owned, empty where it is not known.",
    )
    price: str = setting("", "The same with its currency, as it is shown.")


class ClusterStatus(Model):
    """What the fleet found out about a member."""

    conditions: Items[Condition] = setting(
        (),
        "Ready, Reachable, CredentialsValid, WatchFresh, DataPlaneHealthy.",
        json_schema_extra=by_key("type"),
    )
    version: str = setting("", "Version of its API server.")
    uid: str = setting("", "UID of its kube-system namespace: the member's identity.")
    last_seen: Time | None = setting(None, "When it last answered.")
    local_schedulers: Items[str] = setting((), "Schedulers found in it.")
    capacity: Items[Capacity] = setting((), "What it has, by shape of node and block.")
    summary: Summary = setting({}, "The columns.")


class Cluster(Model):
    """A member of the fleet: how it is reached, where it stands, what it has."""

    spec: ClusterSpec = setting({}, "What the operator of the fleet says about it.")
    status: ClusterStatus | None = setting(None, "What the fleet found out about it.")
