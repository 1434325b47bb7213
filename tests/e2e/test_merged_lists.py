"""LIST and GET over two real members: one moment, one order, every write already in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

SPACE = "lists"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def gateway(start_gateway: Any, bare_members: Any, door_to: Any) -> Iterator[Any]:
    one, two = bare_members
    for member in (one, two):
        door_to(member).post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    with start_gateway(one=one, two=two) as gateway:
        gateway.door().post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
        yield gateway


@pytest.fixture
def door(gateway: Any) -> Iterator[Any]:
    door = gateway.door()
    yield door
    door.close()


@pytest.fixture
def group(door: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """The value of the label `group` of this test's objects; they go when it ends."""
    name = request.node.name[:60].replace("[", "-").rstrip("]-_. ")
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-_.")
    yield name
    for part in ("", ".one", ".two"):
        door.delete(f"{_path(part)}?labelSelector=group%3D{name}")


def _path(part: str = "", name: str = "") -> str:
    """ConfigMaps of the fleet (``), of a member (`.one`) or of all (`.*`)."""
    path = f"/api/v1/namespaces/{SPACE}{part}/configmaps"
    return f"{path}/{name}" if name else path


def _map(name: str, group: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"group": group}}, "data": data}


def _keys(page: Any) -> list[tuple[str, str]]:
    return [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in page["items"]]


def _all(group: str, **query: str) -> str:
    asked = {"labelSelector": f"group={group}"} | query
    text = "&".join(f"{key}={quote(value)}" for key, value in asked.items())
    return f"/api/v1/configmaps?{text}"


# -- pages


def test_a_cluster_that_is_no_member_selects_nothing_with_a_warning(door: Any) -> None:
    answer = door.request("GET", "/api/v1/pods?labelSelector=fleet.dev/cluster%3Doen")
    assert (answer.status, answer.json["items"]) == (200, [])
    (warning,) = answer.warnings
    assert r"fleet.dev/cluster: no member \"oen\"; did you mean \"one\"?" in warning


@pytest.mark.parametrize("limit", [1, 4, 5, 7])
def test_pages_are_of_one_moment_and_count_what_remains(door: Any, group: str, limit: int) -> None:
    """kine#271, karmada#3402: members' objects interleaved, changed between the pages."""
    for part in (".one", ".two", ""):
        for n in range(6):
            door.post(_path(part), _map(f"c{n}", group))
    path = f"{_path('.*')}?limit={limit}"
    whole = door.get(_path(".*"))
    total = len(whole["items"])
    keys: list[tuple[str, str]] = []
    revisions = set()
    token = ""
    while True:
        page = door.get(path + (f"&continue={token}" if token else ""))
        keys += _keys(page)
        revisions.add(page["metadata"]["resourceVersion"])
        assert len(page["items"]) <= limit
        token = page["metadata"].get("continue", "")
        assert len(keys) + page["metadata"].get("remainingItemCount", 0) == total
        if not token:
            break
        assert page["metadata"]["remainingItemCount"] > 0
        door.post(_path(".two"), _map(f"c{len(keys)}x", group))
        door.patch(_path(".one", "c5"), {"data": {"at": str(len(keys))}})
        if len(keys) == limit:
            door.delete(_path(".two", "c4"))
    assert keys == _keys(whole)
    assert keys == sorted(keys)
    assert revisions == {whole["metadata"]["resourceVersion"]}


def test_a_watch_from_a_pages_revision_has_no_gap(door: Any, group: str) -> None:
    for n in range(4):
        door.post(_path(".one"), _map(f"c{n}", group))
    first = door.get(_all(group, limit="2"))
    for n in range(4, 8):
        door.post(_path(".two" if n % 2 else ".one"), _map(f"c{n}", group))
    start = first["metadata"]["resourceVersion"]
    with door.watch(_all(group, resourceVersion=start)) as watch:
        events = watch.until(lambda e: e["object"]["metadata"]["name"] == "c7")
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", f"c{n}") for n in range(4, 8)
    ]


def test_selected_pages_do_not_guess_what_remains(door: Any, group: str) -> None:
    for part in (".one", ".two"):
        for n in range(3):
            door.post(_path(part), _map(f"c{n}", group))
    page = door.get(_all(group, limit="4"))
    assert len(page["items"]) == 4
    assert "remainingItemCount" not in page["metadata"]
    rest = door.get(_all(group, limit="4", **{"continue": page["metadata"]["continue"]}))
    assert len(rest["items"]) == 2
    assert "continue" not in rest["metadata"]


def test_a_token_is_bound_to_its_request(door: Any, group: str) -> None:
    for n in range(3):
        door.post(_path(".one"), _map(f"c{n}", group))
    token = door.get(_all(group, limit="1"))["metadata"]["continue"]
    for path in (
        f"{_path('.one')}?limit=1&continue={token}",
        _all("other", limit="1", **{"continue": token}),
        _all(group, limit="1", **{"continue": "bm9uc2Vuc2U"}),
    ):
        answer = door.request("GET", path)
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest"), answer.body


# -- revisions


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods",
        "/api/v1/nodes",
        "/api/v1/secrets",
        "/api/v1/namespaces/nowhere/configmaps",
        "/api/v1/namespaces/nowhere.one/configmaps",
        f"/api/v1/namespaces/{SPACE}.*/configmaps",
        f"/api/v1/namespaces/{SPACE}.one/secrets",
        "/api/v1/configmaps?labelSelector=a%3Db",
        "/apis/apps/v1/deployments?fieldSelector=metadata.name%3Dx",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/events.k8s.io/v1/events",
        "/apis/node.k8s.io/v1/runtimeclasses",
    ],
)
@pytest.mark.parametrize("accept", ["application/json", TABLE, PARTIAL])
def test_every_list_has_a_revision_and_its_items(door: Any, path: str, accept: str) -> None:
    """sbomscanner#51, kube-state-metrics#1390, python#376: also an empty one, in every form."""
    for query in ("", "resourceVersion=0", "limit=500"):
        joined = f"{path}{'&' if '?' in path else '?'}{query}"
        found = door.get(joined, headers={"Accept": accept})
        revision = found["metadata"]["resourceVersion"]
        assert revision.isdecimal()
        assert int(revision) > 1 << 40
        assert isinstance(found["rows" if accept == TABLE else "items"], list)


def test_revisions_that_are_not_known(door: Any, group: str) -> None:
    """kine#215: never today's data under another number."""
    door.post(_path(".one"), _map("c", group))
    listed = door.get(_all(group))
    current = int(listed["metadata"]["resourceVersion"])
    exact = door.get(_all(group, resourceVersion=str(current), resourceVersionMatch="Exact"))
    assert _keys(exact) == _keys(listed)
    for query in (
        {"resourceVersion": str(current + 10**6)},
        {"resourceVersion": str(current + 10**6), "resourceVersionMatch": "Exact"},
    ):
        late = door.request("GET", _all(group, **query))
        assert (late.status, late.json["reason"]) == (504, "Timeout"), late.body
        assert late.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    old = str((1 << 40) - 1)
    for query in (
        {"resourceVersion": old, "resourceVersionMatch": "Exact"},
        {"resourceVersion": old, "watch": "true"},
    ):
        gone = door.request("GET", _all(group, **query))
        assert (gone.status, gone.json["reason"]) == (410, "Expired"), gone.body
    bad = door.request("GET", _all(group, resourceVersion="None"))
    assert bad.status in (400, 422)
    assert "None" in bad.json["message"]


def test_the_past_can_be_listed_exactly(door: Any, group: str) -> None:
    door.post(_path(".one"), _map("c", group, v="1"))
    before = door.get(_all(group))
    door.patch(_path(".one", "c"), {"data": {"v": "2"}})
    door.post(_path(".two"), _map("c", group))
    door.delete(_path(".one", "c"))
    past = door.get(
        _all(
            group,
            resourceVersion=before["metadata"]["resourceVersion"],
            resourceVersionMatch="Exact",
        )
    )
    assert past["items"] == before["items"]


# -- what was written is there


def test_what_was_acknowledged_is_visible(door: Any, gateway: Any, group: str) -> None:
    """200 rounds of create, list, get, change, get, delete, get – each right after the other."""
    other = gateway.door()
    for n in range(100):
        for part in (".one", ".two"):
            name = f"r{n}"
            made = door.post(_path(part), _map(name, group, v="1"))
            assert (f"{SPACE}{part}", name) in _keys(other.get(_all(group)))
            assert other.get(_path(part, name))["metadata"] == made["metadata"]
            changed = other.patch(_path(part, name), {"data": {"v": "2"}})
            assert door.get(_path(part, name)) == changed
            door.delete(_path(part, name))
            answer = other.request("GET", _path(part, name))
            assert answer.status == 404, answer.body
            assert _keys(door.get(_all(group))) == []


def test_what_a_collections_deletion_took_is_gone_and_what_waits_is_shown_waiting(
    door: Any, group: str
) -> None:
    for n in range(10):
        made = _map(f"c{n}", group)
        if n == 3:
            made["metadata"]["finalizers"] = ["test/hold"]
        door.post(_path(".one"), made)
        door.post(_path(".two"), _map(f"c{n}", group))
    door.get(_all(group))
    door.delete(f"{_path('.one')}?labelSelector=group%3D{group}")
    left = door.get(_all(group))
    assert _keys(left) == [(f"{SPACE}.one", "c3"), *((f"{SPACE}.two", f"c{n}") for n in range(10))]
    assert left["items"][0]["metadata"]["deletionTimestamp"]
    # the write that takes the last finalizer away is the removal
    door.patch(_path(".one", "c3"), {"metadata": {"finalizers": None}})
    assert door.request("GET", _path(".one", "c3")).status == 404
    assert len(door.get(_all(group))["items"]) == 10


def test_objects_that_are_not_kept_have_numbers_to_rely_on(door: Any, group: str) -> None:
    """Secrets are read through: unchanged means the same revision, changed another one, and each
    is good as a precondition."""
    path = f"/api/v1/namespaces/{SPACE}.one/secrets"
    made = door.post(path, _map("s", group))
    one = f"{path}/s"
    try:
        read = door.get(one)
        assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        door.post(_path(".two"), _map("other", group))
        assert door.get(one) == read
        listed = door.get(f"{path}?labelSelector=group%3D{group}")["items"]
        assert [i["metadata"]["resourceVersion"] for i in listed] == [
            read["metadata"]["resourceVersion"]
        ]
        before = read["metadata"]["resourceVersion"]
        bare = {"metadata": {"resourceVersion": before}}
        changed = door.patch(one, bare | {"data": {"v": "YQ=="}})
        assert int(changed["metadata"]["resourceVersion"]) > int(before)
        stale = door.request(
            "PATCH", one, bare, headers={"Content-Type": "application/merge-patch+json"}
        )
        assert (stale.status, stale.json["reason"]) == (409, "Conflict")
        options = {"preconditions": {"resourceVersion": before}}
        assert door.request("DELETE", one, options).status == 409
        options = {"preconditions": {"resourceVersion": changed["metadata"]["resourceVersion"]}}
    finally:
        assert door.request("DELETE", one, options).status == 200


def test_a_dry_run_answers_under_the_revision_of_what_is_there(door: Any, group: str) -> None:
    made = door.post(_path(".one"), _map("c", group))
    door.post(_path(".two"), _map("c", group))
    tried = door.patch(f"{_path('.one', 'c')}?dryRun=All", {"data": {"v": "1"}})
    assert tried["data"] == {"v": "1"}
    assert tried["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert "data" not in door.get(_path(".one", "c")) or not door.get(_path(".one", "c"))["data"]


def test_what_a_member_acknowledged_elsewhere_is_visible_soon(
    door: Any, bare_members: Any, door_to: Any, group: str
) -> None:
    there = door_to(bare_members[0])
    for n in range(20):
        there.post(f"/api/v1/namespaces/{SPACE}/configmaps", _map(f"d{n}", group))
        expected = [(f"{SPACE}.one", f"d{m}") for m in range(n + 1)]
        while (found := _keys(door.get(_all(group)))) != sorted(expected):
            assert len(found) < len(expected)


def test_an_object_shows_in_the_list_or_in_the_watch_from_it(
    door: Any, bare_members: Any, door_to: Any, group: str
) -> None:
    """kine#391: a list at revision 0 with a name selector, and a watch from what it answered."""
    there = door_to(bare_members[1])
    for n in range(60):
        name = f"w{n}"
        there.post(f"/api/v1/namespaces/{SPACE}/configmaps", _map(name, group))
        path = f"/api/v1/configmaps?fieldSelector=metadata.name%3D{name}&resourceVersion="
        listed = door.get(path + "0")
        if not listed["items"]:
            with door.watch(path + listed["metadata"]["resourceVersion"]) as watch:
                event = watch.event()
            assert event is not None
            assert event["type"] == "ADDED"


# -- bytes and forms


def test_large_objects_pass_both_ways(
    door: Any, bare_members: Any, door_to: Any, group: str
) -> None:
    """kubernetes_asyncio#137, kopf#275: no limit of a line's length on the way."""
    there = door_to(bare_members[0])
    big = "x" * 1_000_000
    path = f"/api/v1/namespaces/{SPACE}/configmaps"
    with door.watch(_all(group, allowWatchBookmarks="true")) as watch:
        ended = watch.event()
        assert ended is not None
        assert ended["type"] == "BOOKMARK"
        there.post(path, _map("big", group, v=big))
        event = watch.change()
        assert event["object"]["data"]["v"] == big
        read = door.get(_path(".one", "big"))
        assert read["data"]["v"] == big
        read["data"]["w"] = "y" * 40_000
        door.put(_path(".one", "big"), read)
        event = watch.change()
        assert event["type"] == "MODIFIED"
    assert there.get(f"{path}/big")["data"] == {"v": big, "w": "y" * 40_000}
    door.post(_path(".two"), _map("big", group, v=big))
    refused = door.request("POST", _path(".two"), _map("huge", group, v="x" * (4 << 20)))
    assert refused.status == 413
    assert refused.json["reason"] == "RequestEntityTooLarge"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "ConfigMapList"),
        ("*/*", "ConfigMapList"),
        ("application/vnd.kubernetes.protobuf, application/json", "ConfigMapList"),
        ("application/vnd.kubernetes.protobuf, */*", "ConfigMapList"),
        (f"{TABLE},application/json", "Table"),
        (f"application/json;as=Table;v=v1beta9;g=meta.k8s.io,{TABLE}", "Table"),
        (f"{PARTIAL},application/json", "PartialObjectMetadataList"),
        ("application/yaml", "ConfigMapList"),
        ("text/html, application/json;q=0.1", "ConfigMapList"),
    ],
)
def test_the_first_form_that_can_be_given_is_given(
    door: Any, accept: str | None, kind: str
) -> None:
    """kubectl#533, kubernetes#138582."""
    answer = door.request(
        "GET", _path(".one"), headers={"Accept": accept} if accept is not None else {}
    )
    assert answer.status == 200, answer.body
    if answer.headers["Content-Type"] == "application/yaml":
        assert f"kind: {kind}".encode() in answer.body
    else:
        assert answer.json["kind"] == kind


def test_forms_that_nobody_can_give_are_refused_with_the_list(door: Any) -> None:
    answer = door.request("GET", _path(".one"), headers={"Accept": "text/html"})
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    assert "application/json" in answer.json["message"]


def test_unknown_paths_and_kinds_answer_a_status(door: Any) -> None:
    for path in ("/api/v1/gizmos", "/apis/nobody.example/v1/things", "/nowhere", "/api/v9"):
        answer = door.request("GET", path)
        assert (answer.status, answer.json["kind"]) == (404, "Status"), path
    answer = door.request("PATCH", _path(".one"), b"{}")
    assert answer.status == 405, answer.body
    answer = door.request(
        "POST", _path(".one"), b"<xml/>", headers={"Content-Type": "application/xml"}
    )
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")
    answer = door.request("POST", _path(".one"), b"{nonsense")
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert json.loads(answer.body)["status"] == "Failure"


def test_a_version_that_only_members_have_is_served_for_their_objects(door: Any) -> None:
    """The fleet has its own HorizontalPodAutoscalers in v2 alone; kubectl 1.32 writes v1."""
    kind = "horizontalpodautoscalers"
    hpa = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        },
    }
    path = f"/apis/autoscaling/v1/namespaces/{SPACE}.one/{kind}"
    door.post(path, hpa)
    assert door.get(path)["items"][0]["metadata"]["namespace"] == f"{SPACE}.one"
    assert not door.request("GET", path).warnings
    versions = [v["version"] for v in door.get("/apis/autoscaling")["versions"]]
    assert versions == ["v2", "v1"]
    everywhere = door.request("GET", f"/apis/autoscaling/v1/{kind}")
    assert len(everywhere.json["items"]) == 1
    assert "autoscaling/v2 alone" in everywhere.warnings[0]
    refused = door.request("POST", f"/apis/autoscaling/v1/namespaces/{SPACE}/{kind}", hpa)
    assert refused.status == 422
    assert "in autoscaling/v2 alone" in refused.json["message"]
    door.delete(f"{path}/h")


@pytest.mark.parametrize("query", ["", "freshness=complete"])
def test_what_is_read_through_is_selected_like_what_is_kept(
    door: Any, group: str, query: str
) -> None:
    secret = {"data": {"v": "YQ=="}, "type": "test/kind"}
    for part in ("", ".one", ".two"):
        path = f"/api/v1/namespaces/{SPACE}{part}/secrets"
        door.post(path, _map("s", group) | secret)
        door.post(path, {"metadata": {"name": "t", "labels": {"group": group}}})
    cases = {
        "": ["/s", "/t", ".one/s", ".one/t", ".two/s", ".two/t"],
        "fieldSelector=type%3Dtest/kind": ["/s", ".one/s", ".two/s"],
        "fieldSelector=metadata.name%21%3Ds": ["/t", ".one/t", ".two/t"],
        f"fieldSelector=metadata.namespace%3D{SPACE}.two": [".two/s", ".two/t"],
        "label=fleet.dev/cluster%3Done": [".one/s", ".one/t"],
        "label=fleet.dev/cluster%21%3Done": ["/s", "/t", ".two/s", ".two/t"],
    }
    for case, expected in cases.items():
        kind, _, value = case.partition("=")
        selector = f"labelSelector=group%3D{group}"
        selector += f",{value}" if kind == "label" else ""
        selector += f"&{case}" if kind == "fieldSelector" else ""
        for scope in ("/api/v1/secrets", f"/api/v1/namespaces/{SPACE}.*/secrets"):
            found = _keys(door.get(f"{scope}?{selector}&{query}"))
            assert [f"{ns.removeprefix(SPACE)}/{name}" for ns, name in found] == expected, case
    for part in ("", ".one", ".two"):
        door.delete(f"/api/v1/namespaces/{SPACE}{part}/secrets?labelSelector=group%3D{group}")
    assert door.get(f"/api/v1/secrets?labelSelector=group%3D{group}")["items"] == []


def test_a_watch_goes_on_from_a_list_that_was_read_through(door: Any, group: str) -> None:
    """`kubectl get secrets -w`: between list and watch things happen, here and elsewhere."""
    path = f"/api/v1/namespaces/{SPACE}.*/secrets?labelSelector=group%3D{group}"

    def secret(part: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{SPACE}{part}/secrets" + (f"/{name}" if name else "")

    for part in ("", ".one", ".two"):
        for name in ("changed", "dropped", "kept"):
            door.post(secret(part), _map(name, group))
    listed = door.get(path)
    assert len(listed["items"]) == 9
    for part in ("", ".one", ".two"):
        door.patch(secret(part, "changed"), {"data": {"v": "YQ=="}})
        door.delete(secret(part, "dropped"))
        door.post(secret(part), _map("new", group))
    with door.watch(f"{path}&resourceVersion={listed['metadata']['resourceVersion']}") as watch:
        events = [watch.event() for _ in range(9)]
        told = sorted((e["type"], *_keys({"items": [e["object"]]})[0]) for e in events)
        assert told == sorted(
            (kind, f"{SPACE}{part}", name)
            for part in ("", ".one", ".two")
            for kind, name in (("MODIFIED", "changed"), ("DELETED", "dropped"), ("ADDED", "new"))
        )
        revisions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
        assert revisions == sorted(revisions)
        assert revisions[0] > int(listed["metadata"]["resourceVersion"])
        # and from there like any watch
        door.delete(secret(".two", "kept"))
        event = watch.event()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "kept")
    for part in ("", ".one", ".two"):
        door.delete(f"{secret(part)}?labelSelector=group%3D{group}")
