"""Protobuf bodies against a real API server: what it says in protobuf, we say as its JSON does.

Three ways round. Everything that the server holds is listed in both encodings, at one revision.
What it says in protobuf is sent back, as it is and as our JSON of it: the outcomes are the same.
And kubectl's own bodies are caught on their way and sent both ways before they pass.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from fleet.kube.protobuf import MAGIC, MEDIA_TYPE, decode
from fleet.kube.protobuf.schema import load
from fleet.testbed.binaries import ensure
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

JSON = "application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OBJECTS = list(yaml.safe_load_all(Path(__file__).with_suffix(".yaml").read_text()))
META = "k8s.io.apimachinery.pkg.apis.meta.v1"
# Drawn, counted or timed anew for each request; a Service's addresses are drawn as well.
DRAWN = frozenset(
    "uid creationTimestamp deletionTimestamp resourceVersion time startTime token "
    "expirationTimestamp clusterIP clusterIPs nodePort healthCheckNodePort controller-uid "
    "batch.kubernetes.io/controller-uid".split()
)
UNKNOWN = "k8s.io.apimachinery.pkg.runtime.Unknown"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    server = LocalCluster(
        "protobuf",
        components=API_ONLY,
        extra_args={"kube-apiserver": ["--runtime-config=api/all=true"]},
    )
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture(scope="module")
def linked() -> descriptor_pool.DescriptorPool:
    """The messages as any protobuf client has them, to change a body before it is sent back."""
    shipped = resources.files("fleet.kube.protobuf") / "descriptors.binpb.gz"
    files = descriptor_pb2.FileDescriptorSet.FromString(gzip.decompress(shipped.read_bytes()))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


class Api:
    """The admin's connection; a body that is not bytes goes as JSON."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self.session = session
        self.server = server

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = JSON,
        content: str = JSON,
        **query: str,
    ) -> tuple[int, bytes]:
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        async with self.session.request(
            method,
            self.server + path,
            params=query,
            data=data,
            headers={"Accept": accept, "Content-Type": content},
        ) as response:
            return response.status, await response.read()

    async def must(self, method: str, path: str, body: Any = None, **options: str) -> bytes:
        status, answer = await self.call(method, path, body, **options)
        assert status < 300, f"{method} {path}: {status} {answer[:600]!r}"
        return answer

    async def collections(self) -> dict[tuple[str, str], str]:
        """(apiVersion, kind) → plural of each collection that the server lists."""
        found = {}
        for root in ("/api", "/apis"):
            document = json.loads(await self.must("GET", root, accept=DISCOVERY))
            for group in document["items"]:
                for version in group["versions"]:
                    name, number = group["metadata"].get("name", ""), version["version"]
                    api_version = f"{name}/{number}" if name else number
                    for resource in version.get("resources", ()):
                        if "list" in resource["verbs"]:
                            kind = resource["responseKind"]["kind"]
                            found[api_version, kind] = resource["resource"]
        return found


@asynccontextmanager
async def connected(cluster: LocalCluster) -> AsyncIterator[Api]:
    connector = aiohttp.TCPConnector(ssl=cluster.ssl_context())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Api(session, cluster.server)


@pytest.fixture
async def api(cluster: LocalCluster) -> AsyncIterator[Api]:
    async with connected(cluster) as api:
        yield api


def path_of(api_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{name}" if name else "")


@pytest.fixture(scope="module")
def paths(cluster: LocalCluster) -> list[str]:
    """The objects of the YAML file exist; their paths, in its order."""
    return asyncio.run(create_objects(cluster))


async def create_objects(cluster: LocalCluster) -> list[str]:
    paths = []
    async with connected(cluster) as api:
        collections = await api.collections()
        for document in OBJECTS:
            obj = dict(document)
            metadata, status = obj["metadata"], obj.pop("status", None)
            plural = collections[obj["apiVersion"], obj["kind"]]
            collection = path_of(obj["apiVersion"], plural, metadata.get("namespace", ""))
            path = f"{collection}/{metadata['name']}"
            await api.must("POST", collection, obj)
            if status is not None:
                body, content = {"status": status}, "application/merge-patch+json"
                await api.must("PATCH", f"{path}/status", body, content=content)
            paths.append(path)
    return paths


def spoken(obj: dict[str, Any]) -> dict[str, Any]:
    """An answer in JSON without what protobuf cannot say; it is lost to Go's own clients as well.

    An empty list is none. The server marks the claim templates of a StatefulSet with kind and
    version, and only the envelope has fields for these.
    """
    if obj.get("items") == []:
        obj["items"] = None
    for item in obj.get("items") or [obj]:
        for template in (item.get("spec") or {}).get("volumeClaimTemplates") or ():
            del template["apiVersion"], template["kind"]
    return obj


async def test_lists_read_the_same_in_both_encodings(api: Api, paths: list[str]) -> None:
    assert paths
    kinds, compared = set(), 0
    for (api_version, kind), plural in (await api.collections()).items():
        path = path_of(api_version, plural)
        wanted = json.loads(await api.must("GET", path))
        if plural == "componentstatuses":
            continue  # probed anew for each request, in no order
        revision = wanted["metadata"]["resourceVersion"]
        body = await api.must(
            "GET", path, accept=MEDIA_TYPE, resourceVersion=revision, resourceVersionMatch="Exact"
        )
        assert decode(body) == spoken(wanted), path
        if wanted["items"]:
            compared += len(wanted["items"])
            kinds.add((api_version, kind))
    assert {(each["apiVersion"], each["kind"]) for each in OBJECTS} <= kinds
    assert len(kinds) >= 60
    assert compared > 250


async def test_objects_read_the_same_in_both_encodings(api: Api, paths: list[str]) -> None:
    for path in paths:
        wanted = spoken(json.loads(await api.must("GET", path)))
        assert decode(await api.must("GET", path, accept=MEDIA_TYPE)) == wanted, path


def comparable(answer: bytes) -> Any:
    """An answer without what differs from one request to the next."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {key: plain(each) for key, each in value.items() if key not in DRAWN}

    written = plain(json.loads(answer))
    if written["kind"] == "SelfSubjectRulesReview":
        for rules in ("resourceRules", "nonResourceRules"):
            written["status"][rules].sort(key=json.dumps)
    return written


async def same(api: Api, method: str, path: str, body: bytes, **query: str) -> int:
    """Send a protobuf body and our JSON of it as dry runs, compare the answers; the status."""
    query["dryRun"] = "All"
    code, answer = await api.call(method, path, body, content=MEDIA_TYPE, **query)
    as_json, answer_to_json = await api.call(method, path, decode(body), **query)
    assert (as_json, comparable(answer_to_json)) == (code, comparable(answer)), f"{method} {path}"
    return code


async def test_updates_mean_the_same_in_both_encodings(api: Api, paths: list[str]) -> None:
    codes = {}
    for path in paths:
        body = await api.must("GET", path, accept=MEDIA_TYPE)
        codes[path] = await same(api, "PUT", path, body)
    assert {path for path, code in codes.items() if code != 200} == set()


async def test_creates_mean_the_same_in_both_encodings(
    api: Api, paths: list[str], linked: descriptor_pool.DescriptorPool
) -> None:
    unknown = message_factory.GetMessageClass(linked.FindMessageTypeByName(UNKNOWN))
    kinds, refused = load().kinds(), {}
    for path in paths:
        body = await api.must("GET", path, accept=MEDIA_TYPE)
        envelope = unknown.FromString(body[len(MAGIC) :])
        name = kinds[envelope.typeMeta.apiVersion, envelope.typeMeta.kind]
        obj = message_factory.GetMessageClass(linked.FindMessageTypeByName(name))()
        obj.ParseFromString(envelope.raw)
        obj.metadata.name = f"{obj.metadata.name}-again"
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            obj.metadata.ClearField(field)
        if envelope.typeMeta.kind == "Service" and obj.spec.clusterIP != "None":
            for field in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
                obj.spec.ClearField(field)
        if envelope.typeMeta.kind == "Job":
            obj.spec.ClearField("selector")
            obj.spec.template.metadata.ClearField("labels")
        envelope.raw = obj.SerializeToString()
        again = MAGIC + envelope.SerializeToString()
        code = await same(api, "POST", path.rpartition("/")[0], again)
        if code != 201:
            refused[path.rsplit("/", 2)[1]] = code
    # Their names follow from their content, so another name is refused, the same way both times.
    assert refused == {"apiservices": 422, "customresourcedefinitions": 422}


async def test_subresources_mean_the_same_in_both_encodings(
    api: Api, paths: list[str], linked: descriptor_pool.DescriptorPool
) -> None:
    assert paths
    for path in (
        "/apis/apps/v1/namespaces/trip/deployments/none/scale",
        "/apis/apps/v1/namespaces/trip/statefulsets/db/scale",
        "/api/v1/namespaces/trip/replicationcontrollers/old/scale",
        "/apis/apps/v1/namespaces/trip/deployments/some/status",
        "/api/v1/namespaces/trip/pods/full/status",
        "/api/v1/namespaces/trip/pods/bare/ephemeralcontainers",
        "/api/v1/nodes/trip-node/status",
    ):
        body = await api.must("GET", path, accept=MEDIA_TYPE)
        assert decode(body) == json.loads(await api.must("GET", path)), path
        assert await same(api, "PUT", path, body) == 200, path

    def framed(api_version: str, kind: str, message: str, **fields: Any) -> bytes:
        def of(name: str) -> Any:
            return message_factory.GetMessageClass(linked.FindMessageTypeByName(name))

        envelope = of(UNKNOWN)(raw=of(message)(**fields).SerializeToString())
        envelope.typeMeta.apiVersion, envelope.typeMeta.kind = api_version, kind
        content: bytes = envelope.SerializeToString()
        return MAGIC + content

    options = framed(
        "v1",
        "DeleteOptions",
        f"{META}.DeleteOptions",
        gracePeriodSeconds=0,
        propagationPolicy="Background",
        preconditions={"uid": "another"},
    )
    pod = "/api/v1/namespaces/trip/pods/bare"
    assert await same(api, "DELETE", pod, options) == 409
    eviction = framed(
        "policy/v1",
        "Eviction",
        "k8s.io.api.policy.v1.Eviction",
        metadata={"name": "bare", "namespace": "trip"},
        deleteOptions={"gracePeriodSeconds": 0, "preconditions": {}},
    )
    assert await same(api, "POST", f"{pod}/eviction", eviction) == 201
    binding = framed(
        "v1",
        "Binding",
        "k8s.io.api.core.v1.Binding",
        metadata={"name": "full", "namespace": "trip"},
        target={"kind": "Node", "name": "trip-node"},
    )
    # Gated by nothing, bound to nobody: the binding of a pod that waits is taken.
    assert await same(api, "POST", "/api/v1/namespaces/trip/pods/full/binding", binding) == 201


class Recorder:
    """A proxy for kubectl that sends each protobuf body both ways before it lets it pass."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.seen: set[str] = set()
        self.faults: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        body, query = await request.read(), dict(request.query)
        content = request.headers.get("Content-Type", "")
        if content.startswith(MEDIA_TYPE):
            self.seen.add(decode(body)["kind"])
            try:
                await same(self.api, request.method, request.path, body, **query)
            except AssertionError as fault:
                self.faults.append(str(fault))
        code, answer = await self.api.call(
            request.method,
            request.path,
            body or None,
            accept=request.headers.get("Accept", JSON),
            content=content or JSON,
            **query,
        )
        headers = {"Content-Type": content_type_of(request, answer)}
        return web.Response(status=code, body=answer, headers=headers)


def content_type_of(request: web.Request, answer: bytes) -> str:
    accept = request.headers.get("Accept", "")
    if answer.startswith(MAGIC):
        return MEDIA_TYPE
    aggregated = "APIGroupDiscoveryList" in accept and b'"kind":"APIGroupDiscoveryList"' in answer
    return DISCOVERY if aggregated else JSON


# What kubectl has typed clients for; `delete`, `drain`, `apply` and all patches are JSON.
COMMANDS = """
create namespace {ns}
create serviceaccount robot
create deployment web --image=i --replicas=0 --port=80
create deployment plain --image=i -- sleep 1
create job once --image=i -- true
create cronjob nightly --image=i --schedule=@daily
create job from-cron --from=cronjob/nightly
create configmap settings --from-literal=a= --from-literal=b=c
create secret generic hidden --from-literal=key=value
create secret tls certificate --cert={cert} --key={key}
create secret docker-registry pull --docker-username=u --docker-password=p
create service clusterip front --tcp=80:8080
create service clusterip headless --clusterip=None
create service nodeport outside --tcp=80
create service externalname away --external-name=example.com
create role reader --verb=get,list --resource=pods,deployments.apps
create rolebinding readers --role=reader --user=jane --serviceaccount={ns}:robot
create clusterrole {ns} --verb=get --non-resource-url=/healthz
create clusterrole {ns}-sum --aggregation-rule=a=b
create clusterrolebinding {ns} --clusterrole={ns} --group=g
create quota caps --hard=pods=9,cpu=1500m
create quota least --hard=pods=0 --scopes=BestEffort,NotTerminating
create poddisruptionbudget half --selector=a=b --min-available=50%
create poddisruptionbudget none --selector=a=b --max-unavailable=0
create priorityclass {ns} --value=0 --global-default=false --description=d
create ingress in --rule=a.b/*=front:80 --default-backend=front:http
create token robot --duration=10m
expose deployment web --name=exposed --port=80 --target-port=http
autoscale deployment web --min=1 --max=3 --cpu-percent=50
auth can-i create pods --subresource=log
auth can-i --list
auth whoami
auth reconcile -f {roles}
certificate approve {ns}
certificate deny {ns}-2
debug waiting --image=i --copy-to=copy
""".strip()
SENT = {
    "Namespace", "ServiceAccount", "Deployment", "Job", "CronJob", "ConfigMap", "Secret",
    "Service", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ResourceQuota",
    "PodDisruptionBudget", "PriorityClass", "Ingress", "TokenRequest", "HorizontalPodAutoscaler",
    "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview", "Pod",
    "CertificateSigningRequest",
}  # fmt: skip
ROLES = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reconciled, namespace: NAMESPACE}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""


@pytest.mark.parametrize("version", ["1.32", "1.36"])
async def test_what_kubectl_sends(
    api: Api, cluster: LocalCluster, tmp_path: Path, version: str
) -> None:
    namespace = f"kubectl-{version.replace('.', '-')}"
    (tmp_path / "roles.yaml").write_text(ROLES.replace("NAMESPACE", namespace))
    pair = cluster.issue("jane")
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    names = {
        "ns": namespace,
        "roles": str(tmp_path / "roles.yaml"),
        "cert": str(tmp_path / "tls.crt"),
        "key": str(tmp_path / "tls.key"),
    }
    recorder = Recorder(api)
    app = web.Application(client_max_size=2**22)
    app.router.add_route("*", "/{path:.*}", recorder.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        for line in COMMANDS.splitlines():
            code, out = await kubectl(
                version, f"http://{host}:{port}", namespace, line.format(**names), tmp_path
            )
            assert code == 0, f"kubectl {line}: {out}"
            if line.startswith("create namespace"):
                await what_commands_need(api, namespace)
    finally:
        await runner.cleanup()
    assert recorder.faults == []
    assert recorder.seen >= SENT


async def what_commands_need(api: Api, namespace: str) -> None:
    """A pod to copy, and two certificate requests to decide on."""
    pod = {
        "kind": "Pod",
        "metadata": {"name": "waiting"},
        "spec": {"containers": [{"name": "a", "image": "i"}]},
    }
    await api.must("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    for name in (namespace, f"{namespace}-2"):
        signing = {
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(pem).decode(),
                "signerName": "example.com/signer",
                "usages": ["client auth"],
            },
        }
        path = path_of("certificates.k8s.io/v1", "certificatesigningrequests")
        await api.must("POST", path, signing)


async def kubectl(
    version: str, server: str, namespace: str, line: str, home: Path
) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        str(await ensure("kubectl", version=version)),
        f"--server={server}",
        f"--namespace={namespace}",
        f"--cache-dir={home / 'cache'}",
        *line.split(),
        env={"HOME": str(home), "KUBECONFIG": str(home / "none")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()
