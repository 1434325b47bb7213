"""One member behind the gateway answers reads as it does itself: same status, form and content,
projection undone. The oracle is the member's own API server, over every resource it lists."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

SPACE = "differential"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WHOLE = f"{TABLE};includeObject"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AGE = re.compile(r"(\d+[dhms])+|<invalid>|<unknown>")
# Read by everybody differently: the fleet answers for itself, or they change between two reads.
_TRIES = 50
NOT_COMPARED = {"namespaces", "componentstatuses", "events", "leases"}
WORDED_BY_GO = {"resourceVersion=many", "continue=nonsense"}  # an error of Go's parser in them
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("api/v1/{}/configmaps", {"metadata": {"name": "c", "labels": {"a": "b"}}, "data": {"k": "v"}}),
    ("api/v1/{}/configmaps", {"metadata": {"name": "d", "annotations": {"x": "y.one.two"}}}),
    ("api/v1/{}/secrets", {"metadata": {"name": "s", "labels": {"a": "b"}}, "data": {"k": "dg=="}}),
    ("api/v1/{}/serviceaccounts", {"metadata": {"name": "default"}}),
    (
        "api/v1/{}/pods",
        {
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "m", "image": "example/m"}]},
        },
    ),
    (
        "api/v1/{}/services",
        {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    ),
    (
        "apis/apps/v1/{}/deployments",
        {
            "metadata": {"name": "d", "labels": {"a": "b"}},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "m", "image": "registry.example/m"}]},
                },
            },
        },
    ),
    (
        "apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
        {
            "metadata": {"name": "rb"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": SPACE}],
        },
    ),
    (
        "apis/discovery.k8s.io/v1/{}/endpointslices",
        {
            "metadata": {"name": "es", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"port": 80}],
            "endpoints": [
                {
                    "addresses": ["10.0.0.1"],
                    "nodeName": "n1",
                    "targetRef": {"kind": "Pod", "name": "p", "namespace": SPACE},
                }
            ],
        },
    ),
    ("api/v1/nodes", {"metadata": {"name": "n1", "labels": {"zone": "z"}}}),
    (
        "api/v1/persistentvolumes",
        {
            "metadata": {"name": "pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "claimRef": {"namespace": SPACE, "name": "claim"},
            },
        },
    ),
]  # fmt: skip


class Pair:
    """The same read at the gateway and at the member."""

    def __init__(self, merged: Any, direct: Any) -> None:
        self.merged, self.direct = merged, direct

    def differences(
        self, path: str, *, namespace: str = "", name: str = "", cluster: bool, query: str = "",
        accept: str = "application/json",
    ) -> str:  # fmt: skip
        """What differs, as text; "" when nothing does. In `path`, `{}` is the namespace's part.

        Both are asked again where they differ: they are two reads, and an API server writes
        objects of its own when it likes.
        """
        for _ in range(_TRIES):
            found = self._difference(path, namespace, name, cluster, query, accept)
            if not found:
                break
            time.sleep(0.1)
        return found

    def _difference(
        self, path: str, namespace: str, name: str, cluster: bool, query: str, accept: str
    ) -> str:
        answers = []
        for door, suffix in ((self.merged, ".one"), (self.direct, "")):
            place = f"namespaces/{namespace}{suffix}" if namespace else ""
            url = "/" + path.format(place).replace("//", "/")
            if name:
                url += f"/{name}{suffix if cluster else ''}"
            answer = door.request("GET", f"{url}?{query}", headers={"Accept": accept})
            answers.append((answer.status, _body(answer, suffix)))
        if answers[1][1] is None:  # a member says in plain text that there is no such path
            answers = [(code, {}) for code, _ in answers]
        return _differing(f"{path} {namespace} {name} ?{query} [{accept[:40]}]", *answers)


@pytest.fixture(scope="module")
def pair(start_gateway: Any, bare_members: Any, door_to: Any) -> Iterator[Pair]:
    direct = door_to(bare_members[0])
    direct.post("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    for path, obj in OBJECTS:
        direct.post("/" + path.format(f"namespaces/{SPACE}"), obj)
    with start_gateway(one=bare_members[0]) as gateway:
        yield Pair(gateway.door(), direct)
    direct.delete("/api/v1/nodes/n1")
    direct.delete("/api/v1/persistentvolumes/pv")


@pytest.fixture(scope="module")
def resources(pair: Pair) -> list[tuple[str, bool, list[str]]]:
    """Path with a place for the namespace, whether cluster-scoped, verbs; of what is listed."""
    found = []
    accept = {"Accept": "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"}
    for root in ("api", "apis"):
        for group in pair.direct.get(f"/{root}", headers=accept)["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                gv = f"{name}/{version['version']}" if name else version["version"]
                for resource in version["resources"]:
                    plural, scope = resource["resource"], resource["scope"]
                    if "list" in resource["verbs"] and plural not in NOT_COMPARED:
                        cluster = scope == "Cluster"
                        path = f"{root}/{gv}/{{}}/{plural}"
                        found.append((path, cluster, resource["verbs"]))
    assert len(found) > 50
    return found


@pytest.mark.parametrize("accept", ["application/json", TABLE, f"{TABLE}&whole", PARTIAL])
def test_every_resource_is_listed_as_by_the_member(
    pair: Pair, resources: list[tuple[str, bool, list[str]]], accept: str
) -> None:
    accept, _, whole = accept.partition("&")
    query = "includeObject=Object" if whole else ""
    found = []
    for path, cluster, _ in resources:
        places = [""] if cluster else [SPACE, "kube-system"]
        found += [
            pair.differences(path, namespace=place, cluster=cluster, accept=accept, query=query)
            for place in places
        ]
    _none(found)


def test_each_object_is_read_as_by_the_member(
    pair: Pair, resources: list[tuple[str, bool, list[str]]]
) -> None:
    found = []
    for path, cluster, verbs in resources:
        if "get" not in verbs:
            continue
        for namespace in [""] if cluster else [SPACE, "kube-system"]:
            place = f"namespaces/{namespace}" if namespace else ""
            items = pair.direct.get("/" + path.format(place).replace("//", "/"))["items"]
            names = [item["metadata"]["name"] for item in items[:3]]
            for name in [*names, "not-there"]:
                found += [
                    pair.differences(
                        path, namespace=namespace, name=name, cluster=cluster, accept=accept
                    )
                    for accept in ("application/json", TABLE, PARTIAL.replace("List", ""))
                ]
    _none(found)


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=a%3Db",
        "labelSelector=a%3Db,a%20in%20(b,c),!z",
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=-a",
        "labelSelector=a%20in%20b",
        "fieldSelector=metadata.name%3Dc",
        "fieldSelector=metadata.name%21%3Dc",
        "fieldSelector=spec.nodeName%3Dn1",
        "fieldSelector=type%3DOpaque",
        "fieldSelector=status.phase%3DPending",
        "fieldSelector=spec.colour%3Dgreen",
        "fieldSelector=a",
        "limit=1000",
        "limit=-1",
        "limit=many",
        "resourceVersion=0",
        "resourceVersion=many",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersion=1&resourceVersionMatch=Sometimes",
        "continue=nonsense",
        "sendInitialEvents=true",
        "timeoutSeconds=soon",
        "pretty=true",
        "unknown=parameter",
    ],
)
def test_options_mean_what_they_mean_to_the_member(pair: Pair, query: str) -> None:
    paths = (
        "api/v1/{}/configmaps",
        "api/v1/{}/pods",
        "api/v1/{}/secrets",
        "apis/apps/v1/{}/deployments",
    )
    _none([_selected(pair, path, query) for path in paths])


def test_paths_that_lead_nowhere(pair: Pair) -> None:
    places = (
        ("api/v1/{}/gizmos", SPACE, ""),
        ("apis/nobody.example/v1/{}/things", SPACE, ""),
        ("apis/apps/v9/{}/deployments", SPACE, ""),
        ("api/v1/{}/configmaps", "nowhere", ""),
        ("api/v1/{}/configmaps", "nowhere", "c"),
        ("apis/apps/v1/{}/deployments", SPACE, "c/scale"),
        ("apis/apps/v1/{}/deployments", SPACE, "d/scale"),
        ("apis/apps/v1/{}/deployments", SPACE, "d/status"),
        ("apis/apps/v1/{}/deployments", SPACE, "d/nothing"),
        ("api/v1/{}/pods", SPACE, "p/log"),
        ("api/v1/{}/pods", SPACE, "nope/log"),
    )
    _none([pair.differences(p, namespace=ns, name=n, cluster=False) for p, ns, n in places])


def _none(found: list[str]) -> None:
    texts = list(filter(None, found))
    assert not texts, f"{len(texts)} of {len(found)}\n" + "\n".join(texts)[:6000]


def _selected(pair: Pair, path: str, query: str) -> str:
    """As `differences`, with a value of a projected field translated for the gateway."""
    merged = query.replace("nodeName%3Dn1", f"nodeName%3D{quote('n1.one')}")
    answers = []
    for door, suffix, asked in ((pair.merged, ".one", merged), (pair.direct, "", query)):
        url = f"/{path.format(f'namespaces/{SPACE}{suffix}')}?{asked}"
        answer = door.request("GET", url)
        body = _masked(answer.json, suffix)
        if query in WORDED_BY_GO:
            del body["message"]
        answers.append((answer.status, body))
    return _differing(f"{path} ?{query}", *answers)


def _differing(what: str, ours: Any, theirs: Any) -> str:
    """The first few places where two answers differ; "" when there are none."""
    places = list(_places("", {"code": ours[0]} | ours[1], {"code": theirs[0]} | theirs[1]))
    return "\n  ".join([what, *places[:4]]) if places else ""


def _places(at: str, ours: Any, theirs: Any) -> Iterator[str]:
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _places(f"{at}.{key}", ours.get(key), theirs.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for n, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _places(f"{at}[{n}]", one, other)
    else:
        yield f"{at}: merged {str(ours)[:300]} | direct {str(theirs)[:300]}"


def _body(answer: Any, suffix: str) -> Any:
    if answer.headers["Content-Type"].startswith("text/plain"):
        return None
    return _masked(answer.json, suffix)


def _masked(value: Any, suffix: str) -> Any:
    if value.get("kind") == "Table" and suffix:
        cluster = [c["name"] for c in value["columnDefinitions"]].index("Cluster")
        del value["columnDefinitions"][cluster]
        value["rows"] = [row for row in value.get("rows") or () if _is_members(row["object"])]
        for row in value["rows"]:
            del row["cells"][cluster]
    elif isinstance(value.get("items"), list) and suffix:
        value["items"] = [item for item in value["items"] if _is_members(item)]
        for item in value["items"] if value["kind"] != "PartialObjectMetadataList" else ():
            del item["kind"], item["apiVersion"]  # a member leaves out what the list says
    masked = _mask(value, suffix)
    for listed in ("items", "rows"):
        if masked.get(listed, 0) is None:
            masked[listed] = []  # null from upstream where a form has no items, which breaks some
        if isinstance(masked.get(listed), list):
            masked[listed].sort(key=lambda item: json.dumps(item, sort_keys=True))
    return masked


def _is_members(obj: dict[str, Any]) -> bool:
    return "fleet.dev/cluster" in (obj["metadata"].get("labels") or {})


def _mask(value: Any, suffix: str, field: str = "") -> Any:
    if isinstance(value, dict):
        found = {
            key: _mask(inner, suffix, key)
            for key, inner in value.items()
            if not key.startswith("fleet.dev/")
        }
        for marked in ("labels", "annotations"):
            if suffix and marked in value and found.get(marked) == {} and value[marked]:
                del found[marked]
        return found
    if isinstance(value, list):
        kept = value
        if field == "cells":
            kept = ["AGE" if isinstance(c, str) and AGE.fullmatch(c) else c for c in value]
        return [_mask(inner, suffix) for inner in kept]
    if field in ("resourceVersion", "continue"):
        return "…"
    if isinstance(value, str) and suffix:
        value = value.removesuffix(suffix).replace(f'{suffix}"', '"').replace(f"{suffix}/", "/")
    return value
