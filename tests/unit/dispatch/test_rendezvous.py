"""How ranks find each other: the gate's data, names and slices."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch import environment, rendezvous
from fleet.dispatch.environment import Gang, Peer
from fleet.dispatch.record import Shard
from fleet.dispatch.sight import PodView, Sight

EAST = Shard("east", 0, 1, first=0, count=2)
WEST = Shard("west", 1, 1, first=2, count=1)
SIGHTS = {
    "east": Sight("east", pods=(PodView("a", 0, address="10.0.0.1"), PodView("b", 1))),
    "west": Sight("west", pods=(PodView("c", 2, address="10.9.0.1"),)),
}


def gang(**more):
    return Gang(
        job="train", generation=1, domain="roce-1", shards=2, nodes=3, service="train", **more
    )


def test_every_rank_is_listed_in_order_with_what_is_known():
    peers = rendezvous.peers_of("train", [WEST, EAST], SIGHTS)
    assert [(p.rank, p.cluster, p.host, p.address) for p in peers] == [
        (0, "east", "train-0", "10.0.0.1"),
        (1, "east", "train-1", ""),
        (2, "west", "train-2", "10.9.0.1"),
    ]
    assert [p.address for p in rendezvous.peers_of("train", [EAST], {})] == ["", ""]


def test_a_pod_on_its_way_out_has_no_address():
    sights = {"west": Sight("west", pods=(PodView("c", 2, address="10.9.0.1", deleting=True),))}
    assert [p.address for p in rendezvous.peers_of("train", [WEST], sights)] == [""]


def test_the_gate_says_what_differs_between_shards_and_generations():
    peers = rendezvous.peers_of("train", [EAST, WEST], SIGHTS)
    data = environment.gate_data(gang(peers=peers), cluster="west", index=1, offset=0)
    assert data["FLEET_CLUSTER"] == "west"
    assert (data["FLEET_SHARD_INDEX"], data["FLEET_SHARD_COUNT"]) == ("1", "2")
    assert (data["FLEET_NODES"], data["WORLD_SIZE"]) == ("3", "3")
    assert data["FLEET_RDZV_ENDPOINT"] == "10.0.0.1:29500"
    ranks = orjson.loads(data["peers.json"])["ranks"]
    assert [(r["rank"], r["address"]) for r in ranks] == [(0, "10.0.0.1"), (1, ""), (2, "10.9.0.1")]
    assert data["hostfile"].splitlines()[2] == "train-2.train slots=1"
    assert all(isinstance(value, str) for value in data.values())


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_the_world_is_every_process_of_every_node(processes):
    """trainer#2277, trainer#1947: the node of rank 0 and all processes count; nodes are nodes."""
    peers = rendezvous.peers_of("train", [EAST, WEST], SIGHTS)
    data = environment.gate_data(
        gang(peers=peers, processes=processes), cluster="east", index=0, offset=0
    )  # fmt: skip
    assert data["WORLD_SIZE"] == str(3 * processes)
    assert (data["PET_NNODES"], data["FLEET_NODES"], data["JAX_NUM_PROCESSES"]) == ("3", "3", "3")
    assert {line.split()[1] for line in data["hostfile"].splitlines()} == {f"slots={processes}"}
    assert len(data["hostfile"].splitlines()) == 3


def test_every_variable_of_the_template_is_in_the_gate():
    data = environment.gate_data(gang(), cluster="east", index=0, offset=0)
    wanted = environment.variables(gate="g", gang=True, ranks="Global", processes=1, taken=())
    keys = {
        each["valueFrom"]["configMapKeyRef"]["key"]
        for each in wanted
        if "configMapKeyRef" in each["valueFrom"]
    }
    assert keys <= data.keys()
    assert data["FLEET_PEERS_FILE"].startswith(environment.GATE_PATH)


def test_rank_0_is_called_by_address_where_it_is_known_when_the_gate_opens():
    known = gang(peers=(Peer(0, "east", "train-0", "10.0.0.1"),))
    assert environment.lead_for(known, None) == "10.0.0.1"
    assert environment.lead_for(gang(), None) == "train-0.train"
    # a gate that opened before it was known keeps the name
    assert environment.lead_for(known, {"MASTER_ADDR": "train-0.train"}) == "train-0.train"
    # and an address follows the pod
    assert environment.lead_for(known, {"MASTER_ADDR": "10.0.0.99"}) == "10.0.0.1"
    assert environment.lead_for(gang(), {"MASTER_ADDR": "10.0.0.99"}) == "10.0.0.99"


def test_ipv6_addresses_are_in_brackets_and_slices_of_their_own():
    peers = (Peer(0, "east", "train-0", "fd00::1"), Peer(1, "east", "train-1", "10.0.0.1"))
    data = environment.gate_data(gang(peers=peers), cluster="east", index=0, offset=0)
    assert data["FLEET_RDZV_ENDPOINT"] == "[fd00::1]:29500"
    four, six = rendezvous.slices("train", "train-g1-east", peers, {})
    assert (four["addressType"], six["addressType"]) == ("IPv4", "IPv6")
    assert six["endpoints"][0]["hostname"] == "train-0"


def test_a_service_has_a_slice_before_anybody_has_an_address():
    (only,) = rendezvous.slices("train", "train-g1-east", (Peer(0, "east", "train-0"),), {})
    assert only["endpoints"] == []
    assert only["metadata"]["labels"]["kubernetes.io/service-name"] == "train"


@given(st.integers(0, 2500))
def test_slices_hold_every_address_once_and_never_too_many(count):
    peers = tuple(
        Peer(rank, "east", f"train-{rank}", f"10.{rank >> 8}.{rank & 255}.1")
        for rank in range(count)
    )
    found = rendezvous.slices("train", "train-g1-east", peers, {})
    listed = [endpoint["addresses"][0] for each in found for endpoint in each["endpoints"]]
    assert listed == [peer.address for peer in peers]
    assert all(len(each["endpoints"]) <= 1000 for each in found)
    names = [each["metadata"]["name"] for each in found]
    assert len(names) == len(set(names))
