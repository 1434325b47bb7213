"""Whoever writes a name that nothing in the fleet has is told with the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.gateway.policy_warnings import PolicyWarnings
from fleet.kube.wire import Request, UserInfo

ADMIN = UserInfo("jane", ("fleet:admins",))
API = "/apis/fleet.dev/v1alpha1"
BOOK = {"offers": [{"cluster": "east", "accelerator": "H200", "billing": "Owned"}]}


@pytest.fixture
def door(own_kernel: Any, store: Any) -> Any:
    return PolicyWarnings(own_kernel, store)


async def write(
    door: Any, method: str, path: str, body: Any, *, accept: str = "application/json"
) -> tuple[str, ...]:
    kind = "merge-patch+json" if method == "PATCH" else "json"
    headers = {"content-type": f"application/{kind}", "accept": accept}
    body = json.dumps(body).encode()
    answer = await door.handle(Request(method, API + path, headers=headers, body=body, user=ADMIN))
    assert answer.status < 300
    return tuple(answer.warnings)


def obj(kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": kind, "metadata": metadata, **more}


async def test_each_write_of_a_book_is_judged_as_it_is_stored(door: Any) -> None:
    book = obj("PriceBook", "current", spec=BOOK)
    assert await write(door, "POST", "/pricebooks", book) == ()  # no member yet
    assert await write(door, "POST", "/clusters", obj("Cluster", "east")) == ()
    capacity = [{"accelerator": "h200", "nodes": 1, "free": 8, "shape": {"cpu": "4"}}]
    await write(door, "PATCH", "/clusters/east/status", {"status": {"capacity": capacity}})
    touched = {"metadata": {"labels": {"a": "b"}}}
    (said,) = await write(door, "PATCH", "/pricebooks/current", touched)
    assert "did you mean h200?" in said
    again = obj("PriceBook", "other", spec={"offers": [{"cluster": "eats", "billing": "Owned"}]})
    for accept in ("application/json", "application/yaml"):
        again["metadata"]["name"] += "-x"
        said_here = await write(door, "POST", "/pricebooks", again, accept=accept)
        assert all("did you mean east?" in each for each in said_here)
        assert len(said_here) == (accept == "application/json")


async def test_a_field_that_nobody_acts_on_is_told_at_the_write(door: Any) -> None:
    """Also where the fleet has no member yet."""
    spec = {"mode": "Split", "failover": {"neverBelow": "50%", "warmReplacement": True}}
    policy = obj("PlacementPolicy", "elastic", spec=spec)
    path = "/namespaces/default/placementpolicies"
    await own_namespace(door, "default")
    said = await write(door, "POST", path, policy)
    fields = ["spec.failover.neverBelow", "spec.failover.warmReplacement"]
    assert [each.partition(":")[0] for each in said] == fields
    assert "not acted on yet" in said[0]
    gang = {"gang": {"min": 4, "roles": [{"name": "worker", "min": 2}]}}
    plain = {"spec": {"failover": None, **gang}}
    assert await write(door, "PATCH", f"{path}/elastic", plain) == ()
    later = {"spec": {"failover": {"neverBelow": "50%"}}}
    assert len(await write(door, "PATCH", f"{path}/elastic", later)) == 1


async def own_namespace(door: Any, name: str, **labels: str) -> None:
    body = {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
    }  # fmt: skip
    await send(door, "POST", "/api/v1/namespaces", body)


async def send(door: Any, method: str, path: str, body: Any = None, **query: str) -> Any:
    kind = "merge-patch+json" if method == "PATCH" else "json"
    raw = json.dumps(body).encode() if body is not None else b""
    headers = {"content-type": f"application/{kind}"} if raw else {}
    asked = Request(method, path, tuple(query.items()), headers=headers, body=raw, user=ADMIN)
    answer = await door.handle(asked)
    assert answer.status < 300
    return answer.warnings


@pytest.fixture
async def counted(door: Any) -> Any:
    """A quota that counts a namespace with one workload that runs, one that waits and one that is
    over."""
    await own_namespace(door, "cv", team="cv")
    await own_namespace(door, "idle", team="cv")
    spec = {"namespaces": {"matchLabels": {"team": "cv"}}}
    await write(door, "POST", "/fleetquotas", obj("FleetQuota", "cv", spec=spec))
    for name, phase in (("a", "Running"), ("b", "Queued"), ("c", "Succeeded")):
        workload = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}
        placement = obj("Placement", f"job-{name}", spec={"workload": workload})
        await write(door, "POST", "/namespaces/cv/placements", placement)
        path = f"/namespaces/cv/placements/job-{name}/status"
        await write(door, "PATCH", path, {"status": {"phase": phase, "quota": "cv"}})
    return door


LEFT = (
    "no quota counts namespace cv any more, and none limits it: there are 1 workload that runs and "
    "1 workload that waits",
)
DRY = {"dryRun": "All"}


@pytest.mark.parametrize("query", [{}, DRY], ids=["stored", "dry run"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", f"{API}/fleetquotas/cv", None),
        ("PATCH", f"{API}/fleetquotas/cv", {"spec": {"namespaces": None}}),
        ("PATCH", "/api/v1/namespaces/cv", {"metadata": {"labels": {"team": "nlp"}}}),
    ],
)
async def test_work_that_no_quota_counts_any_more_is_told(
    counted: Any, method: str, path: str, body: Any, query: dict[str, str]
) -> None:
    assert await send(counted, method, path, body, **query) == LEFT


async def test_of_work_that_is_counted_still_or_goes_itself_nothing_is_said(counted: Any) -> None:
    spec = {"namespaces": {"matchLabels": {"tem": "cv"}}}
    await write(counted, "POST", "/fleetquotas", obj("FleetQuota", "typo", spec=spec))
    assert await send(counted, "DELETE", f"{API}/fleetquotas/typo") == ()
    touched = {"metadata": {"labels": {"a": "b"}}}
    for path in (f"{API}/fleetquotas/cv", "/api/v1/namespaces/cv", "/api/v1/namespaces/idle"):
        assert await send(counted, "PATCH", path, touched) == ()
    gone = {"metadata": {"labels": {"team": None}}}
    assert await send(counted, "PATCH", "/api/v1/namespaces/idle", gone) == ()
    assert await send(counted, "DELETE", "/api/v1/namespaces/cv") == ()
    assert await send(counted, "DELETE", f"{API}/fleetquotas/cv") == ()


async def test_deleting_the_default_policy_says_what_counts_then(door: Any) -> None:
    await own_namespace(door, "fleet-system")
    path = f"{API}/namespaces/fleet-system/placementpolicies"
    for name in ("default", "other"):
        await send(door, "POST", path, obj("PlacementPolicy", name))
    assert await send(door, "DELETE", f"{path}/other") == ()
    (said,) = await send(door, "DELETE", f"{path}/default")
    assert "fleet-system/default as it is built in" in said


POLICIES = f"{API}/namespaces/cv/placementpolicies"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"gang": {"maxClusters": 3}}, "spec.gang.maxClusters"),
        ({"gang": {"indexMode": "Offset"}}, "spec.gang.indexMode"),
        ({"clusters": {"returnAfter": "5m"}}, "spec.clusters.returnAfter"),
        (
            {"clusters": {"returnAfter": "5m", "tiers": [{"name": "a"}]}},
            "spec.clusters.returnAfter",
        ),
        ({"objective": {"whenTooDear": "Refuse"}}, "spec.objective.whenTooDear"),
    ],
)
async def test_what_has_no_effect_beside_the_rest_is_told(door: Any, spec: Any, field: str) -> None:
    await own_namespace(door, "cv")
    (said,) = await send(door, "POST", POLICIES, obj("PlacementPolicy", "one", spec=spec))
    assert said.startswith(f"{field}: has no effect ")
    rest = {
        "mode": "Split", "clusters": {"tiers": [{"name": "a"}, {"name": "b"}]},
        "objective": {"maxPrice": "9 USD/h"},
    }  # fmt: skip
    assert await send(door, "PATCH", f"{POLICIES}/one", {"spec": rest}) == ()


async def test_that_a_taint_of_a_cluster_ends_nothing_is_told(door: Any) -> None:
    taints = [{"key": "upgrade", "effect": "NoSchedule"}, {"key": "upgrade", "effect": "NoExecute"}]
    (said,) = await write(door, "POST", "/clusters", obj("Cluster", "e", spec={"taints": taints}))
    assert said.startswith("spec.taints[1].effect: NoExecute keeps work away as NoSchedule does")


async def test_two_policies_with_one_selector_are_told_of(door: Any) -> None:
    await own_namespace(door, "cv")
    spec = {"workloads": {"matchLabels": {"team": "cv"}}}
    assert await send(door, "POST", POLICIES, obj("PlacementPolicy", "b", spec=spec)) == ()
    (said,) = await send(door, "POST", POLICIES, obj("PlacementPolicy", "a", spec=spec))
    assert "PlacementPolicy b selects the same workloads: a is applied to them" in said
    (said,) = await send(door, "POST", POLICIES, obj("PlacementPolicy", "c", spec=spec))
    assert "PlacementPolicy a, b select the same workloads: a is applied to them" in said
    for name in "defg":
        (said,) = await send(door, "POST", POLICIES, obj("PlacementPolicy", name, spec=spec))
    assert "PlacementPolicy a, b, c, d, e and 1 more select the same workloads" in said
    plain = obj("PlacementPolicy", "named")
    assert await send(door, "POST", POLICIES, plain) == ()
    assert await send(door, "POST", POLICIES, obj("PlacementPolicy", "too")) == ()


@pytest.mark.parametrize("query", [{}, DRY], ids=["stored", "dry run"])
@pytest.mark.parametrize("name", ["split", ""])
async def test_work_under_a_policy_that_is_deleted_is_told_of(
    door: Any, name: str, query: dict[str, str]
) -> None:
    await own_namespace(door, "cv")
    for policy in ("split", "idle"):
        await send(door, "POST", POLICIES, obj("PlacementPolicy", policy))
    for job, phase in (("a", "Running"), ("b", "Queued"), ("c", "Succeeded")):
        workload = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job}
        under = {"namespace": "cv", "name": "split"}
        spec = {"workload": workload, "policy": under}
        path = f"{API}/namespaces/cv/placements"
        await send(door, "POST", path, obj("Placement", f"job-{job}", spec=spec))
        await send(door, "PATCH", f"{path}/job-{job}/status", {"status": {"phase": phase}})
    path = f"{POLICIES}/{name}" if name else POLICIES
    (said,) = await send(door, "DELETE", path, **query)
    called = "PlacementPolicy split has" if name else "PlacementPolicies of cv have"
    assert said.startswith(f"{called} work under {'it' if name else 'them'}: job/a, job/b; ")
    if name:
        assert await send(door, "DELETE", f"{POLICIES}/idle", **query) == ()


async def test_of_policies_that_are_selected_only_those_that_go_are_told_of(door: Any) -> None:
    await own_namespace(door, "cv")
    for policy in ("split", "idle"):
        await send(door, "POST", POLICIES, obj("PlacementPolicy", policy))
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "a"}
    spec = {"workload": workload, "policy": {"namespace": "cv", "name": "split"}}
    path = f"{API}/namespaces/cv/placements"
    await send(door, "POST", path, obj("Placement", "job-a", spec=spec))
    assert await send(door, "DELETE", POLICIES, fieldSelector="metadata.name=idle") == ()
    (said,) = await send(door, "DELETE", POLICIES, fieldSelector="metadata.name=split")
    assert said.startswith("PlacementPolicy split has work under it: job/a; ")
