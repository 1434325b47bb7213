"""How ranks find each other: a headless Service and EndpointSlices in every member.

A Service without selector and slices written by the fleet make `train-4.train` resolve in each
member to rank 4 wherever it is, ready or not. Both belong to the shard's Job in the member, so
they go with it.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.environment import Peer
from fleet.dispatch.marks import slice_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.dispatch.record import Shard
    from fleet.dispatch.sight import Sight

Object = dict[str, Any]

_PER_SLICE: Final = 1000
SERVICE_LABEL: Final = "kubernetes.io/service-name"
CONTROLLER_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "dispatch.fleet.dev"


def peers_of(job: str, shards: Iterable[Shard], sights: Mapping[str, Sight]) -> tuple[Peer, ...]:
    """All ranks in order, with the addresses that are known now."""
    peers = []
    for shard in shards:
        sight = sights.get(shard.cluster)
        addresses = {
            pod.rank: pod.address
            for pod in (sight.pods if sight is not None else ())
            if pod.rank is not None and pod.address and not pod.deleting
        }
        peers += [
            Peer(rank, shard.cluster, f"{job}-{rank}", addresses.get(rank, ""))
            for rank in range(shard.first, shard.first + shard.count)
        ]
    return tuple(sorted(peers, key=lambda peer: peer.rank))


def service(name: str, metadata: Object) -> Object:
    """The headless Service; `metadata` are marks and owners."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True},
    }


def slices(name: str, shard: str, peers: Sequence[Peer], metadata: Object) -> list[Object]:
    """The EndpointSlices of Service `name` in one member, one at least."""
    found: list[Object] = []
    for family, suffix in (("IPv4", ""), ("IPv6", "-6")):
        endpoints: list[Object] = [
            {"addresses": [peer.address], "hostname": peer.host, "conditions": {"ready": True}}
            for peer in peers
            if peer.address and _family(peer.address) == family
        ]
        if not endpoints and suffix:
            continue
        for number in range(0, max(len(endpoints), 1), _PER_SLICE):
            labels: Object = {
                **(metadata.get("labels") or {}),
                SERVICE_LABEL: name,
                CONTROLLER_LABEL: CONTROLLER,
            }
            part = f"-{number // _PER_SLICE}" if number else ""
            found.append(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": {
                        **metadata,
                        "name": f"{slice_name(shard)}{suffix}{part}",
                        "labels": labels,
                    },
                    "addressType": family,
                    "endpoints": endpoints[number : number + _PER_SLICE],
                }
            )
    return found


def _family(address: str) -> str:
    return f"IPv{ip_address(address).version}"
