"""Which pods are endpoints of a Service, and how they are spread over EndpointSlices."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtualnode.services import endpoints, slices

Object = dict[str, Any]


def service(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "v1",
            "labels": {"team": "a", slices.MANAGED_BY: "me"},
        },
        "spec": {
            "selector": {"app": "web"},
            "clusterIP": "127.128.0.9",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}],
            **spec,
        },
    }


def pod(
    number: int,
    *,
    ready: bool = True,
    ending: bool = False,
    phase: str = "Running",
    port: int = 8080,
    addresses: tuple[str, ...] | None = None,
    **spec: Any,
) -> Object:
    found = (f"127.3.{number // 250}.{number % 250 + 1}",) if addresses is None else addresses
    metadata: Object = {
        "name": f"web-{number:04}",
        "namespace": "shop",
        "uid": f"p{number}",
        "labels": {"app": "web"},
    }
    if ending:
        metadata["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    ports = [{"name": "web", "containerPort": port}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}], **spec},
        "status": {
            "phase": phase,
            "podIPs": [{"ip": each} for each in found],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


class World:
    """The slices of a Service, changed as the decisions say."""

    def __init__(self, **spec: Any) -> None:
        self.service = service(**spec)
        self.slices: dict[str, Object] = {}
        self.serial = 0

    def apply(self, pods: list[Object], *, limit: int = slices.LIMIT) -> int:
        """Write the difference; how many slices it wrote."""
        before = copy.deepcopy((self.service, pods, self.slices))
        found = slices.decide(
            self.service, pods, list(self.slices.values()), zone_of=zone_of, limit=limit
        )
        assert before == (self.service, pods, self.slices)  # nothing is changed in place
        for made in found.create:
            self.serial += 1
            name = f"{made['metadata']['generateName']}{self.serial:03}"
            self.slices[name] = {**made, "metadata": {**made["metadata"], "name": name}}
        for changed in found.update:
            self.slices[changed["metadata"]["name"]] = changed
        for gone in found.delete:
            del self.slices[gone["metadata"]["name"]]
        return len(found.create) + len(found.update) + len(found.delete)

    @property
    def endpoints(self) -> list[Object]:
        return [each for found in self.slices.values() for each in found["endpoints"]]

    @property
    def one(self) -> Object:
        (found,) = self.slices.values()
        return found


def zone_of(node: str) -> str | None:
    return {"n1": "z1", "n2": "", "": ""}.get(node)


def test_a_slice_as_it_is_written() -> None:
    it = World()
    assert it.apply([pod(0)]) == 1
    assert it.one == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-001",
            "generateName": "web-",
            "namespace": "shop",
            "labels": {
                "team": "a",
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": "web",
                    "uid": "v1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["127.3.0.1"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {"kind": "Pod", "namespace": "shop", "name": "web-0000", "uid": "p0"},
                "nodeName": "n1",
                "zone": "z1",
            }
        ],
    }
    assert it.apply([pod(0)]) == 0


CONDITIONS = [
    ({}, {}, (True, True, False)),
    ({"ready": False}, {}, (False, False, False)),
    ({"ending": True}, {}, (False, True, True)),
    ({"ready": False, "ending": True}, {}, (False, False, True)),
    ({"ready": False}, {"publishNotReadyAddresses": True}, (True, False, False)),
    ({"ending": True}, {"publishNotReadyAddresses": True}, (True, True, True)),
]


@pytest.mark.parametrize(("state", "spec", "expected"), CONDITIONS)
def test_conditions(state: Object, spec: Object, expected: tuple[bool, ...]) -> None:
    made = endpoints.endpoint(service(**spec), pod(0, **state), "IPv4")
    assert made is not None
    assert tuple(made["conditions"].values()) == expected


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ({}, True),
        ({"ready": False}, True),
        ({"ending": True}, True),
        ({"phase": "Pending", "addresses": ()}, False),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed", "ending": True}, False),
    ],
)
def test_who_is_an_endpoint(of: Object, expected: bool) -> None:
    assert endpoints.is_endpoint(pod(0, **of)) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostname": "r0", "subdomain": "web"}, "r0"),
        ({"hostname": "r0", "subdomain": "other"}, None),
        ({"hostname": "r0"}, None),
        ({"subdomain": "web"}, None),
    ],
)
def test_a_host_name_is_of_the_service_that_is_the_subdomain(spec, expected) -> None:
    made = endpoints.endpoint(service(), pod(0, **spec), "IPv4")
    assert made is not None
    assert made.get("hostname") == expected


PORTS = [
    ([{"port": 80}], [("", 80, "TCP")]),
    ([{"port": 80, "targetPort": 81}], [("", 81, "TCP")]),
    ([{"name": "a", "port": 80, "targetPort": "web"}], [("a", 8080, "TCP")]),
    ([{"port": 80, "targetPort": "side", "protocol": "UDP"}], [("", 53, "UDP")]),
    ([{"port": 80, "targetPort": "side"}], []),
    ([{"port": 80, "targetPort": "init"}], []),
    ([{"port": 80, "targetPort": "nowhere"}, {"name": "b", "port": 9}], [("b", 9, "TCP")]),
    ([], []),
]


@pytest.mark.parametrize(("ports", "expected"), PORTS)
def test_ports(ports: list[Object], expected: list[tuple[str, int, str]]) -> None:
    dns = [{"name": "side", "containerPort": 53, "protocol": "UDP"}]
    init = [{"name": "init", "containerPort": 1}]
    with_init = pod(0, initContainers=[
        {"name": "s", "restartPolicy": "Always", "ports": dns}, {"name": "i", "ports": init},
    ])  # fmt: skip
    found = [dict(port) for port in endpoints.ports_of(service(ports=ports), with_init)]
    assert [(p["name"], p["port"], p["protocol"]) for p in found] == expected


def test_an_application_protocol_is_passed_on() -> None:
    ports = [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]
    (found,) = endpoints.ports_of(service(ports=ports), pod(0))
    assert dict(found)["appProtocol"] == "kubernetes.io/h2c"


def test_pods_with_different_ports_are_in_different_slices() -> None:
    it = World()
    it.apply([pod(0), pod(1, port=9090), pod(2)])
    assert sorted((s["ports"][0]["port"], len(s["endpoints"])) for s in it.slices.values()) == [
        (8080, 2),
        (9090, 1),
    ]


def test_both_families() -> None:
    it = World(ipFamilies=["IPv6", "IPv4"])
    both = pod(0, addresses=("127.3.0.1", "fd00::1"))
    it.apply([both, pod(1)])
    found = {s["addressType"]: [e["addresses"] for e in s["endpoints"]] for s in it.slices.values()}
    assert found == {"IPv4": [["127.3.0.1"], ["127.3.0.2"]], "IPv6": [["fd00::1"]]}
    it.service["spec"]["ipFamilies"] = ["IPv4"]
    assert it.apply([both, pod(1)]) == 1
    assert it.one["addressType"] == "IPv4"
    assert it.apply([both, pod(1)]) == 0


def test_without_pods_there_is_an_empty_slice_and_it_is_used_again() -> None:
    it = World()
    assert it.apply([]) == 1
    assert (it.one["endpoints"], it.one["ports"]) == ([], [])
    assert it.apply([]) == 0
    name = it.one["metadata"]["name"]
    assert it.apply([pod(0)]) == 1
    assert it.one["metadata"]["name"] == name
    assert (len(it.one["endpoints"]), it.one["ports"][0]["port"]) == (1, 8080)
    assert it.apply([]) == 1
    assert it.one["metadata"]["name"] == name
    assert it.apply([]) == 0


def test_a_headless_service_marks_its_slices() -> None:
    it = World(clusterIP="None", ports=[])
    it.apply([pod(0)])
    assert it.one["metadata"]["labels"][slices.HEADLESS] == ""
    assert it.one["ports"] == []
    assert it.apply([pod(0)]) == 0


def test_labels_follow_the_service() -> None:
    it = World()
    it.apply([pod(0)])
    it.service["metadata"]["labels"] = {"team": "b"}
    assert it.apply([pod(0)]) == 1
    assert it.one["metadata"]["labels"]["team"] == "b"
    assert it.apply([pod(0)]) == 0


def test_a_pod_whose_node_is_gone_is_left_out_unless_everything_is_published() -> None:
    it = World()
    it.apply([pod(0, nodeName="gone"), pod(1, nodeName="n2")])
    (only,) = it.endpoints
    assert (only["nodeName"], "zone" in only) == ("n2", False)
    it = World(publishNotReadyAddresses=True)
    it.apply([pod(0, nodeName="gone")])
    assert it.endpoints[0]["nodeName"] == "gone"


def test_a_pod_in_the_place_of_another_of_its_name_is_an_update() -> None:
    it = World()
    it.apply([pod(0)])
    again = pod(0)
    again["metadata"]["uid"] = "another"
    assert it.apply([again]) == 1
    assert it.endpoints[0]["targetRef"]["uid"] == "another"


def test_no_slice_is_made_for_a_service_that_goes_away() -> None:
    it = World()
    it.service["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    assert it.apply([pod(0)]) == 0


def test_slices_of_a_service_of_this_name_before_are_replaced() -> None:
    it = World()
    it.apply([pod(0)])
    it.service["metadata"]["uid"] = "v2"
    assert it.apply([pod(0)]) == 2
    assert it.one["metadata"]["ownerReferences"][0]["uid"] == "v2"


@pytest.mark.parametrize(
    ("spec", "served"),
    [({}, True), ({"selector": None}, False), ({"selector": {}}, False),
     ({"type": "ExternalName"}, False)],
)  # fmt: skip
def test_who_gets_slices(spec: Object, served: bool) -> None:
    assert slices.is_served(service(**spec)) is served


def test_one_change_is_one_write() -> None:
    it = World()
    pods = [pod(n) for n in range(250)]
    assert it.apply(pods) == 3
    assert [len(s["endpoints"]) for s in it.slices.values()] == [100, 100, 50]
    pods[7] = pod(7, ready=False)
    assert it.apply(pods) == 1
    del pods[130]
    assert it.apply(pods) == 1
    assert it.apply([*pods, pod(300)]) == 1
    assert len(it.slices) == 3


states = st.fixed_dictionaries({
    "ready": st.booleans(),
    "ending": st.booleans(),
    "phase": st.sampled_from(["Running", "Running", "Failed"]),
    "port": st.sampled_from([8080, 9090]),
})  # fmt: skip
crowds = st.lists(st.dictionaries(st.integers(0, 30), states, max_size=25), min_size=1, max_size=6)


@given(crowds, st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_slices_say_exactly_what_the_pods_are(crowds, limit) -> None:
    it = World()
    for crowd in crowds:
        pods = [pod(number, **state) for number, state in crowd.items()]
        it.apply(pods, limit=limit)
        wanted = [endpoints.endpoint(it.service, p, "IPv4", zone="z1") for p in pods]
        expected = [w for w, p in zip(wanted, pods, strict=True) if endpoints.is_endpoint(p)]
        assert sorted(it.endpoints, key=repr) == sorted(expected, key=repr)
        assert all(len(s["endpoints"]) <= limit for s in it.slices.values())
        empty = [s for s in it.slices.values() if not s["endpoints"]]
        assert len(empty) <= (not expected)
        by_port = {p["metadata"]["name"]: p["spec"]["containers"][0]["ports"] for p in pods}
        for each in it.slices.values():
            for endpoint in each["endpoints"]:
                (port,) = by_port[endpoint["targetRef"]["name"]]
                assert each["ports"][0]["port"] == port["containerPort"]
        assert it.apply(pods, limit=limit) == 0


spoiling = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=6)


@given(st.integers(0, 12), spoiling, st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_whatever_was_done_to_the_slices_is_put_right_at_once(count, spoils, limit) -> None:
    it = World()
    pods = [pod(number) for number in range(count)]
    it.apply(pods, limit=limit)
    for what, pick in spoils:
        names = sorted(it.slices)
        if not names:
            break
        spoilt = it.slices[names[pick % len(names)]] = copy.deepcopy(
            it.slices[names[pick % len(names)]]
        )
        match what:
            case 0:  # told twice
                again = copy.deepcopy(spoilt)
                again["metadata"]["name"] += f"-{pick}"
                it.slices[again["metadata"]["name"]] = again
            case 1:
                spoilt["endpoints"] = spoilt["endpoints"][pick:]
            case 2:
                spoilt["metadata"]["labels"] = {"of": "nobody"}
            case 3:
                spoilt["ports"] = [{"name": "http", "port": 1, "protocol": "TCP"}]
            case 4:
                spoilt["metadata"]["ownerReferences"] = []
    it.apply(pods, limit=limit)
    expected = [endpoints.endpoint(it.service, p, "IPv4", zone="z1") for p in pods]
    assert sorted(it.endpoints, key=repr) == sorted(expected, key=repr)
    assert it.apply(pods, limit=limit) == 0
