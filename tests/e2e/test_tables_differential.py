"""Tables against a real API server: its cells and columns, and ours of the same objects.

A list with `includeObject=Object` carries each row's object beside the cells, both of one instant,
so that every resource can be compared without a race. Cells that age are compared for each second
that the request may have been answered in.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleet.kube.tables import (
    TABLE_TAIL,
    column_definitions,
    printer_for,
    row_bytes,
    table_head,
)
from fleet.kube.tables.catalog import BUILT_IN
from fleet.kube.tables.jsonpath import JSONPathError, compile_path
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OBJECTS = Path(__file__).with_suffix(".yaml")
AGO = re.compile(r"-(\d+)(us|s)")
# Served by none of the components here, or impossible to create without one that is missing.
NOT_COMPARED = {
    ("metrics.k8s.io", "nodes"),
    ("metrics.k8s.io", "pods"),
    ("certificates.k8s.io", "podcertificaterequests"),
}
FEATURES = (
    "--runtime-config=api/all=true",
    "--feature-gates=GenericWorkload=true,GangScheduling=true,ClusterTrustBundle=true,"
    "DRADeviceTaintRules=true,DRAResourcePoolStatus=true,StorageVersionMigrator=true,"
    "StorageVersionAPI=true,APIServerIdentity=true,CoordinatedLeaderElection=true",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    server = LocalCluster(
        "tables", components=API_ONLY, extra_args={"kube-apiserver": list(FEATURES)}
    )
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


class Api:
    """JSON over the admin's connection."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self.session = session
        self.server = server

    async def call(
        self, method: str, path: str, body: Any = None, *, accept: str = "application/json"
    ) -> tuple[int, bytes]:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self.session.request(
            method,
            self.server + path,
            data=None if body is None else orjson.dumps(body),
            headers={"Accept": accept, "Content-Type": content},
        ) as response:
            return response.status, await response.read()

    async def must(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        status, answer = await self.call(method, path, body, **options)
        assert status < 300, f"{method} {path}: {status} {answer.decode()[:600]}"
        return orjson.loads(answer)

    async def resources(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Every listable resource: (apiVersion, plural) → its discovery."""
        found = {}
        for root in ("/api", "/apis"):
            for group in (await self.must("GET", root, accept=DISCOVERY))["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    api_version = f"{name}/{version['version']}" if name else version["version"]
                    for resource in version["resources"]:
                        if "list" in resource["verbs"]:
                            found[api_version, resource["resource"]] = resource
        return found


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    connector = aiohttp.TCPConnector(ssl=cluster.ssl_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Api(session, cluster.server)


def path_of(api_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{name}" if name else "")


def back_from(now_s: float, value: Any) -> Any:
    """`value` with each "-90s" in it replaced by that time."""
    if isinstance(value, dict):
        return {key: back_from(now_s, each) for key, each in value.items()}
    if isinstance(value, list):
        return [back_from(now_s, each) for each in value]
    match = AGO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    at = datetime.fromtimestamp(now_s - int(match[1]), UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if match[2] == "us" else "%Y-%m-%dT%H:%M:%SZ")


async def create(api: Api, kinds: dict[tuple[str, str], str], obj: dict[str, Any]) -> None:
    """Create `obj`, then its status; delete it if a finalizer holds it."""
    metadata, status = obj["metadata"], obj.pop("status", None)
    plural = kinds[obj["apiVersion"], obj["kind"]]
    collection = path_of(obj["apiVersion"], plural, metadata.get("namespace", ""))
    path = f"{collection}/{metadata['name']}"
    await api.must("POST", collection, obj)
    if status is not None:
        await api.must("PATCH", f"{path}/status", {"status": status})
    if "fleet.dev/held" in metadata.get("finalizers", ()):
        await api.must("DELETE", path)


def signing_material() -> tuple[bytes, bytes]:
    """A certificate request and a self-signed CA certificate, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2046, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return request.public_bytes(pem), certificate.public_bytes(pem)


def certificates() -> list[dict[str, Any]]:
    request, bundle = signing_material()
    spec = {
        "request": request,
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "expirationSeconds": 7200,
    }
    signing = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return [
        {**signing, "metadata": {"name": "pending"}, "spec": spec},
        {**signing, "metadata": {"name": "forever"}, "spec": {**spec, "expirationSeconds": None}},
        {
            "apiVersion": "certificates.k8s.io/v1beta1",
            "kind": "ClusterTrustBundle",
            "metadata": {"name": "bundle"},
            "spec": {"trustBundle": bundle.decode()},
        },
    ]


async def compare(
    api: Api, api_version: str, plural: str, *, crd_columns: list[dict[str, Any]] | None = None
) -> int:
    """Compare one resource's table with ours; the number of rows."""
    group = api_version.partition("/")[0] if "/" in api_version else ""
    printer = printer_for(group=group, resource=plural, crd_columns=crd_columns)
    before_s = time.time()
    table = await api.must(
        "GET", path_of(api_version, plural) + "?includeObject=Object", accept=TABLE
    )
    after_s = time.time()
    where = f"{plural}.{api_version}"
    assert orjson.loads(column_definitions(printer.columns)) == table["columnDefinitions"], where
    for row in table["rows"] or ():
        template = printer.row(row["object"])
        moments = (before_s, *range(int(before_s) + 1, int(after_s) + 1), after_s)
        ours = [orjson.loads(template.cells(now_s)) for now_s in moments]
        name = row["object"]["metadata"]["name"]
        if row["cells"] not in ours:
            wrong = [
                (column["name"], theirs, our)
                for column, theirs, our in zip(
                    table["columnDefinitions"], row["cells"], ours[-1], strict=False
                )
                if theirs != our
            ]
            pytest.fail(f"{where} {name}: (column, theirs, ours) {wrong}")
        conditions = orjson.loads(b"{" + template.conditions[1:] + b"}").get("conditions")
        assert conditions == row.get("conditions"), f"{where} {name}"
    return len(table["rows"] or ())


async def test_every_resource_prints_as_the_api_server_prints_it(api: Api) -> None:
    resources = await api.resources()
    kinds = {
        (version, resource["responseKind"]["kind"]): plural
        for (version, plural), resource in resources.items()
    }
    now_s = time.time()
    for document in yaml.safe_load_all(OBJECTS.read_text()):
        await create(api, kinds, back_from(now_s, document))
    for document in certificates():
        body = orjson.loads(orjson.dumps(document, default=_base64))
        await create(api, kinds, body)

    compared: dict[tuple[str, str], int] = {}
    for api_version, plural in resources:
        group = api_version.partition("/")[0] if "/" in api_version else ""
        rows = await compare(api, api_version, plural)
        compared[group, plural] = compared.get((group, plural), 0) + rows
    missing = {key for key in BUILT_IN if not compared.get(key)} - NOT_COMPARED
    assert not missing, "resources that were not compared on any object"


# What printer columns say in practice, and the corners of the dialect.
PATHS = (
    ".spec.text",
    ".spec.html",
    ".spec.empty",
    ".spec.null",
    ".spec.absent",
    ".spec.absent.deeper",
    ".spec.text.deeper",
    ".spec.whole",
    ".spec.negative",
    ".spec.float",
    ".spec.tiny",
    ".spec.huge",
    ".spec.integral",
    ".spec.yes",
    ".spec.map",
    ".spec.list",
    ".spec.list[0]",
    ".spec.list[-1]",
    ".spec.list[9]",
    ".spec.list[-9]",
    ".spec.list[*]",
    ".spec.list[0:2]",
    ".spec.list[1:]",
    ".spec.list[:2]",
    ".spec.list[0:3:2]",
    ".spec.list[::0]",
    ".spec.list[-2:-1]",
    ".spec.list[0,2]",
    ".spec.list[2:1]",
    ".spec.text[0]",
    ".spec.text.*",
    ".spec.one.*",
    ".spec['text']",
    ".spec['one'].a",
    ".spec['text','html']",
    ".spec.dotted\\.key",
    ".spec['dotted.key']",
    ".spec['dotted\\.key']",
    ".metadata.name",
    ".metadata.labels.a",
    "..extra",
    ".spec..deep",
    ".spec.items[*].name",
    ".spec.items[0].name",
    '.spec.items[?(@.type=="Ready")].status',
    ".spec.items[?(@.type=='Ready')].status",
    '.spec.items[?(@.type == "Ready")].status',
    '.spec.items[?(@.type!="Ready")].status',
    '.spec.items[?(@.type=="Absent")].status',
    ".spec.items[?(@.weight>1)].name",
    ".spec.items[?(@.weight>=2)].name",
    ".spec.items[?(@.weight<2)].name",
    ".spec.items[?(@.weight<=1)].name",
    ".spec.items[?(@.weight==2)].name",
    ".spec.items[?(@.weight==2.0)].name",
    ".spec.items[?(@.ok==true)].name",
    ".spec.items[?(@.ok<true)].name",
    ".spec.items[?(@.extra)].name",
    ".spec.items[?(@.extra[7])].name",
    ".spec.items[?(@.name==@.type)].name",
    ".spec.items[?(@.name)]",
    '.spec.items[?(@.type=="it\'s")].name',
    '.spec.items[?(@.type=="a)b")].name',
    '.spec.items[?(@.name=="\\u0063")].type',
    ".spec.map[?(@.a==1)].b",
    ".spec.one[*]",
    ".spec.items[-3:-2].extra",
    ".spec.when",
    ".spec.fraction",
    ".spec.offset",
    ".spec.zero",
    ".spec.day",
    ".spec.comma",
    ".spec.sixty",
    ".metadata.creationTimestamp",
    "$.spec.text",
    ".spec.text ",
    ". spec",
    ".spec.list[0]  ",
    ".spec.list[ 0 ]",
    ".spec.@.text",
    ".spec$.text",
    ".",
    ".spec.",
    ".spec.{text",
    ".spec.list[a]",
    ".spec.list[0",
    ".spec.list[]",
    ".spec.items[?(@.type",
    '.spec.items[?(@.type=="x]',
    ".spec....text",
    ".spec.text}",
    ".spec,text",
    ".spec true",
    ".spec range",
    ".spec.items[?(@.weight===2)].name",
    ".spec 7",
)
THINGS: tuple[dict[str, Any], ...] = (
    {
        "text": "plain",
        "html": '<a href="x">&\u2028',
        "empty": "",
        "null": None,
        "whole": 42,
        "negative": -7,
        "float": 1.5,
        "tiny": 0.00001234,
        "huge": 1.5e25,
        "integral": 3.0,
        "yes": True,
        "map": {"b": [1, 2.5, None, False], "a": {"<": "&"}},
        "list": ["x", "y", "z"],
        "one": {"a": "b"},
        "dotted.key": "dotted",
        "replicas": 3,
        "deeper": {"deep": "down"},
        "items": [
            {"type": "Ready", "status": "True", "name": "a", "weight": 1, "ok": True},
            {"type": "it's", "status": "False", "name": "b", "weight": 2, "extra": [1]},
            {"type": "a)b", "status": "False", "name": "c", "weight": 3, "ok": False},
            {"type": "d", "status": "False", "name": "d", "weight": 4},
        ],
        "when": "-4000s",
        "fraction": "2026-01-01T00:00:00.25Z",
        "offset": "2026-01-01T00:00:00+02:00",
        "zero": "0001-01-01T00:00:00Z",
        "day": "2026-01-01",
        "comma": "2026-01-01T00:00:00,5Z",
        "sixty": "2026-01-01T00:00:60Z",
    },
    {
        "text": 5,
        "html": ["<"],
        "null": {"a": None},
        "whole": "42",
        "float": 7,
        "huge": 9007199254740993,
        "yes": "true",
        "map": [{"a": 1, "b": "one"}, {"a": 2, "b": "two"}],
        "list": {"a": "b"},
        "one": "text",
        "items": [{"type": 5, "weight": "1", "name": "n"}, "not a map", None],
        "when": "null",
        "fraction": 5,
        "day": "",
    },
    {"list": [], "items": [], "map": {}, "items2": [], "when": "9999-12-31T23:59:59Z"},
    {"list": [None, 1], "items": {"a": "b"}, "null": [], "zero": "1600-01-01T00:00:00Z"},
)


def crd(versions: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """A CRD whose versions v1, v2, … have these printer columns."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.tables.example"},
        "spec": {
            "group": "tables.example",
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [
                {
                    "name": f"v{number}",
                    "served": True,
                    "storage": number == 1,
                    "additionalPrinterColumns": columns,
                    "subresources": {
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                        }
                    },
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
                for number, columns in enumerate(versions, 1)
            ],
        },
    }


async def served(api: Api, path: str) -> None:
    """Return when a new resource answers; there is no event that says so."""
    for _ in range(600):
        status, answer = await api.call("GET", path)
        if status == 200:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{path} is not served: {answer.decode()[:300]}")


async def test_custom_columns_print_as_the_api_server_prints_them(api: Api) -> None:
    """All paths in all types; and those that cannot be parsed, which end the columns."""
    good: list[str] = []
    bad: list[str] = []
    for path in PATHS:
        try:
            compile_path(path)
        except JSONPathError:
            bad.append(path)
        else:
            good.append(path)
    good = [path for path in good if path.startswith(".")]
    bad = [path for path in bad if path.startswith(".")]
    versions: list[list[dict[str, Any]]] = [
        [{"name": path, "type": kind, "jsonPath": path} for path in good]
        for kind in ("string", "integer", "number", "boolean", "date")
    ]
    versions += [
        [
            {"name": "x", "type": "string", "jsonPath": ".spec.text", "format": "byte"},
            {"name": "y", "type": "date", "jsonPath": path, "description": "d", "priority": 3},
            {"name": "z", "type": "string", "jsonPath": ".spec.text"},
        ]
        for path in bad
    ]
    versions.append([])
    await api.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(versions))
    root = "/apis/tables.example"
    await served(api, f"{root}/v{len(versions)}/things")
    now_s = time.time()
    for number, spec in enumerate(THINGS):
        thing = {
            "apiVersion": "tables.example/v1",
            "kind": "Thing",
            "metadata": {"name": f"thing-{number}", "labels": {"a": "label"}},
            "spec": back_from(now_s, spec),
        }
        await api.must("POST", f"{root}/v1/things", thing)
    for number, columns in enumerate(versions, 1):
        rows = await compare(api, f"tables.example/v{number}", "things", crd_columns=columns)
        assert rows == len(THINGS)
    scale = await api.must("GET", f"{root}/v1/things/thing-0/scale", accept=TABLE)
    printer = printer_for(group="tables.example", resource="things/scale", crd_columns=versions[0])
    assert orjson.loads(column_definitions(printer.columns)) == scale["columnDefinitions"]
    shown = await api.must("GET", f"{root}/v1/things/thing-0/scale")
    assert orjson.loads(printer.row(shown).cells(time.time()))[:3] == scale["rows"][0]["cells"][:3]


def random_pod(dice: random.Random, name: str) -> dict[str, Any]:
    """A pod in a state that may never occur, but is legal."""

    def state() -> dict[str, Any]:
        match dice.randrange(7):
            case 0:
                return {"waiting": {"reason": dice.choice(["CrashLoopBackOff", "PodInitializing"])}}
            case 1:
                return {"waiting": {}}
            case 2:
                return {"terminated": {"exitCode": 0, "reason": dice.choice(["", "Completed"])}}
            case 3:
                reason = dice.choice(["", "Error", "OOMKilled"])
                signal = dice.choice([0, 9])
                return {"terminated": {"exitCode": 137, "reason": reason, "signal": signal}}
            case 4:
                return {}
            case _:
                return {"running": {"startedAt": "-5s"}}

    def container_status(name: str) -> dict[str, Any]:
        last = {"terminated": {"exitCode": 1, "finishedAt": f"-{dice.randrange(10**7)}s"}}
        status = {
            "name": name,
            "image": "i",
            "imageID": "",
            "ready": dice.random() < 0.6,
            "restartCount": dice.choice([0, 0, 1, 12]),
            "state": state(),
            "lastState": dice.choice([{}, last, {"terminated": {"exitCode": 1}}]),
        }
        if dice.random() < 0.7:
            status["started"] = dice.random() < 0.6
        return status

    sidecar = {"image": "i", "restartPolicy": "Always"}
    init = [
        {"name": f"init-{n}", **(sidecar if dice.random() < 0.5 else {"image": "i"})}
        for n in range(dice.choice([0, 0, 1, 2, 3]))
    ]
    containers = [{"name": f"c-{n}", "image": "i"} for n in range(dice.randrange(1, 4))]
    gates = [f"gate.example/{n}" for n in range(dice.choice([0, 0, 1, 3]))]
    conditions = [
        {"type": kind, "status": dice.choice(["True", "False", "Unknown"])}
        for kind in ("Initialized", "Ready", "PodScheduled", *gates)
        if dice.random() < 0.7
    ]
    for condition in conditions:
        if condition["type"] == "PodScheduled" and dice.random() < 0.3:
            condition |= {"reason": "SchedulingGated", "status": "False"}
    status: dict[str, Any] = {
        "phase": dice.choice(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"]),
        "conditions": conditions,
        "initContainerStatuses": [container_status(each["name"]) for each in init],
        "containerStatuses": [container_status(each["name"]) for each in containers],
    }
    if dice.random() < 0.3:
        status["reason"] = dice.choice(["NodeLost", "Evicted", "UnexpectedAdmissionError"])
    if dice.random() < 0.5:
        status["podIPs"] = [{"ip": "10.9.8.7"}]
    metadata: dict[str, Any] = {"name": name, "namespace": "random"}
    if dice.random() < 0.3:
        metadata["finalizers"] = ["fleet.dev/held"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": "n",
            "initContainers": init,
            "containers": containers,
            "readinessGates": [{"conditionType": gate} for gate in gates],
        },
        "status": status,
    }


async def test_pods_in_random_states_print_as_the_api_server_prints_them(api: Api) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "random"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api.must("POST", "/api/v1/namespaces", namespace)
    await api.must("POST", "/api/v1/namespaces/random/serviceaccounts", account)
    dice, now_s = random.Random(36), time.time()
    for number in range(200):
        pod = back_from(now_s, random_pod(dice, f"pod-{number}"))
        await create(api, {("v1", "Pod"): "pods"}, pod)
    assert await compare(api, "v1", "pods") >= 200


async def test_the_bytes_have_upstreams_fields_in_upstreams_order(api: Api) -> None:
    """Whole answers: each form of `object`, both versions of the kind, paged, empty and watched."""

    def ordered(text: bytes) -> Any:
        return json.loads(text, object_pairs_hook=list)

    secrets = "/api/v1/namespaces/kube-public/secrets"
    for name in ("a", "b", "c"):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        await api.must("POST", secrets, secret)
    printer = printer_for(group="", resource="secrets")
    for version in ("v1", "v1beta1"):
        for include in ("None", "Metadata", "Object"):
            accept = TABLE.replace("v=v1", f"v={version}")
            query = f"?limit=2&includeObject={include}"
            status, theirs = await api.call("GET", secrets + query, accept=accept)
            assert status == 200
            now_s = time.time()
            whole = await api.must("GET", f"{secrets}?limit=2&includeObject=Object", accept=TABLE)
            meta = orjson.loads(theirs)["metadata"]
            told = {
                name: meta[name] for name in ("resourceVersion", "continue", "remainingItemCount")
            }
            head = table_head(
                orjson.dumps(told), columns=column_definitions(printer.columns), version=version
            )
            candidates = []
            for moment in (now_s, now_s - 1):
                rows = [
                    row_bytes(
                        printer.row(row["object"]).cells(moment),
                        include=include,
                        metadata=orjson.dumps(row["object"]["metadata"]),
                        raw=orjson.dumps(row["object"]),
                        version=version,
                    )
                    for row in whole["rows"]
                ]
                candidates.append(ordered(head + b",".join(rows) + TABLE_TAIL))
            assert ordered(theirs) in candidates, (version, include)

    none = f"{secrets}?fieldSelector=metadata.name=none"
    _, theirs = await api.call("GET", none, accept=TABLE)
    metadata = orjson.dumps(orjson.loads(theirs)["metadata"])
    head = table_head(metadata, columns=column_definitions(printer.columns))
    assert ordered(theirs) == ordered(head + TABLE_TAIL)

    watch = (
        f"{secrets}?watch=1&timeoutSeconds=1&sendInitialEvents=true&includeObject=None"
        "&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    )
    _, stream = await api.call("GET", watch, accept=TABLE)
    first, *others = (orjson.loads(line) for line in stream.splitlines())
    assert first["object"]["columnDefinitions"] == orjson.loads(column_definitions(printer.columns))
    assert [event["object"]["columnDefinitions"] for event in others] == [None] * len(others)
    empty = table_head(b"{}", columns=None) + TABLE_TAIL
    assert orjson.loads(empty)["columnDefinitions"] is None
    bookmark = next(event["object"] for event in others if event["type"] == "BOOKMARK")
    assert bookmark["rows"][0]["cells"] == orjson.loads(printer.row({}).cells(time.time()))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
