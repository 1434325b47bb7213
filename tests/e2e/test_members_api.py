"""Transport and reflectors against a real API server that is stopped, frozen and killed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import sys
import time
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from adapters.kubernetes import KubernetesTransport, connect, flatten
from fleet.errors import ConfigError, JoinError, TransportError, Unauthorized
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.wire import Request
from fleet.members.credentials import CredentialStore
from fleet.members.member import Rhythm
from fleet.members.reflector import Pace, Reflector
from fleet.members.roster import Change, Members
from fleet.testbed.components import API_ONLY
from fleet.testbed.local import LocalCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.controlplane

FAR = float("inf")
CONFIGMAPS = Resource(
    GroupVersionResource("", "v1", "configmaps"), "ConfigMap", True, ("list", "watch")
)


@pytest.fixture(scope="module")
def cluster(binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    """An API server and its etcd, for this module to torment."""
    made = LocalCluster("torment", components=API_ONLY)
    asyncio.run(made.start())
    try:
        yield made
    finally:
        asyncio.run(made.stop())


@pytest.fixture(scope="module")
def old_cluster(binaries: dict[str, Path]) -> Iterator[LocalCluster]:
    """One that does not serve WatchList."""
    switched_off = ["--feature-gates=WatchList=false"]
    made = LocalCluster("old", components=API_ONLY, extra_args={"kube-apiserver": switched_off})
    asyncio.run(made.start())
    try:
        yield made
    finally:
        asyncio.run(made.stop())


@pytest.fixture
async def transport(cluster: LocalCluster) -> AsyncIterator[KubernetesTransport]:
    made = connect(cluster.kubeconfig)
    yield made
    await made.aclose()


async def call(
    transport: KubernetesTransport, method: str, path: str, body: Any = None
) -> dict[str, Any]:
    """A request that has to succeed; the object that was answered."""
    headers = {"accept": "application/json", "content-type": "application/json"}
    raw = orjson.dumps(body) if body is not None else b""
    response = await transport.handle(Request(method, path, headers=headers, body=raw))
    assert isinstance(response.body, bytes)
    assert response.status < 300, response.body
    answered: dict[str, Any] = orjson.loads(response.body)
    return answered


@pytest.fixture
async def space(transport: KubernetesTransport) -> str:
    """A namespace of this test's own."""
    name = f"t{os.urandom(4).hex()}"
    await call(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


async def put(
    transport: KubernetesTransport, space: str, name: str, value: str = "", **data: str
) -> int:
    """Make a ConfigMap; its revision."""
    body = {"metadata": {"name": name}, "data": {"value": value, **data}}
    made = await call(transport, "POST", f"/api/v1/namespaces/{space}/configmaps", body)
    return int(made["metadata"]["resourceVersion"])


class Mirror:
    """A sink that holds what the member holds."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.lists = 0
        self.bookmarks = 0

    def replace(self, objects: Any, revision: int) -> None:
        self.lists += 1
        self.objects = {self._key(obj): obj for obj in objects}

    def upsert(self, obj: dict[str, Any]) -> None:
        self.objects[self._key(obj)] = obj

    def remove(self, obj: dict[str, Any]) -> None:
        del self.objects[self._key(obj)]

    def progress(self, revision: int) -> None:
        self.bookmarks += 1

    @staticmethod
    def _key(obj: dict[str, Any]) -> tuple[str, str]:
        assert obj["kind"] == "ConfigMap"
        assert obj["apiVersion"] == "v1"
        return obj["metadata"]["namespace"], obj["metadata"]["name"]


@contextlib.asynccontextmanager
async def reflecting(
    transport: KubernetesTransport, mirror: Mirror, pace: Pace | None = None
) -> AsyncIterator[Reflector]:
    reflector = Reflector(
        member="torment",
        handler=transport,
        resource=CONFIGMAPS,
        sink=mirror,
        random=Random(1),
        pace=pace or Pace(probe_s=1.0),
    )
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.synced.wait()
        yield reflector
    finally:
        task.cancel()
        await asyncio.wait({task})


async def listed(transport: KubernetesTransport) -> dict[tuple[str, str], str]:
    found = await call(transport, "GET", "/api/v1/configmaps")
    return {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["metadata"][
            "resourceVersion"
        ]
        for item in found["items"]
    }


def shown(mirror: Mirror) -> dict[tuple[str, str], str]:
    return {key: obj["metadata"]["resourceVersion"] for key, obj in mirror.objects.items()}


async def agrees(mirror: Mirror, transport: KubernetesTransport) -> None:
    """Wait until the mirror is what a list says. An API server writes maps of its own as well, in
    its first seconds above all, and the mirror follows them a moment later."""
    while shown(mirror) != await listed(transport):  # noqa: ASYNC110, a server is asked
        await asyncio.sleep(0.05)


async def test_a_mirror_follows_every_change(transport, space):
    await put(transport, space, "a")
    mirror = Mirror()
    async with reflecting(transport, mirror) as reflector:
        assert (space, "a") in mirror.objects
        last = await put(transport, space, "b")
        assert await reflector.reached(last, FAR)
        gone = await call(transport, "DELETE", f"/api/v1/namespaces/{space}/configmaps/a")
        assert gone["status"] == "Success"
        last = await put(transport, space, "c", "ä" * 100)
        assert await reflector.reached(last, FAR)
        await agrees(mirror, transport)
        assert mirror.lists == 1


async def test_an_object_of_nearly_the_largest_size_arrives(transport, space):
    mirror = Mirror()
    async with reflecting(transport, mirror) as reflector:
        last = await put(transport, space, "big", "x" * 1_000_000)
        assert await reflector.reached(last, FAR)
        assert len(mirror.objects[space, "big"]["data"]["value"]) == 1_000_000
    async with reflecting(transport, mirror):
        assert len(mirror.objects[space, "big"]["data"]["value"]) == 1_000_000


async def test_a_quiet_watch_is_proven_by_a_probe(transport, space):
    mirror = Mirror()
    async with reflecting(transport, mirror) as reflector:
        before_s = reflector.last_contact_s
        answers = await asyncio.gather(*(reflector.confirm(FAR, within_s=0) for _ in range(20)))
        assert all(answers)
        assert reflector.last_contact_s > before_s
        await agrees(mirror, transport)


async def test_frozen_then_thawed(cluster, transport, space):
    mirror = Mirror()
    async with reflecting(transport, mirror) as reflector:
        await cluster.pause_api()
        try:
            assert not await reflector.confirm(time.monotonic() + 0.1, within_s=0)
            while not reflector.failure:
                await reflector.confirm(FAR, within_s=0)
            # Known to be stale: the next reader does not wait at all.
            assert not await reflector.confirm(FAR)
            assert "probe" in reflector.failure
        finally:
            await cluster.resume_api()
        last = await put(transport, space, "after")
        assert await reflector.reached(last, FAR)
        assert await reflector.confirm(FAR)
        assert mirror.lists == 1


async def test_killed_then_restarted(cluster, transport, space):
    for name in ("stays", "goes"):
        await put(transport, space, name)
    mirror = Mirror()
    async with reflecting(transport, mirror) as reflector:
        known = shown(mirror)
        await cluster.stop_api()
        while not reflector.failure:
            await reflector.confirm(FAR, within_s=0)
        assert not await reflector.confirm(FAR)
        assert shown(mirror) == known
        await cluster.start_api()
        # Before the mirror may have come back: what it missed has to arrive all the same.
        await call(transport, "DELETE", f"/api/v1/namespaces/{space}/configmaps/goes")
        last = await put(transport, space, "comes")
        assert await reflector.reached(last, FAR)
        assert await reflector.confirm(FAR)
        await agrees(mirror, transport)
        assert (space, "goes") not in mirror.objects


async def test_changes_made_while_nobody_watched_arrive_as_a_difference(cluster, space):
    """The API server comes back with an empty watch cache: what it forgot is listed anew."""
    first = connect(cluster.kubeconfig)
    mirror = Mirror()
    await put(first, space, "goes")
    async with reflecting(first, mirror, Pace(first_wait_s=3600, longest_wait_s=3600)) as reflector:
        await cluster.stop_api()
        while not reflector.failure:
            await reflector.confirm(FAR, within_s=0)
        reflector.freshness.retry.clear()
        await cluster.start_api()
        second = connect(cluster.kubeconfig)
        await call(second, "DELETE", f"/api/v1/namespaces/{space}/configmaps/goes")
        for number in range(5):
            last = await put(second, space, f"n{number}")
        await cluster.stop_api()
        await cluster.start_api()
        reflector.freshness.retry.set()
        assert await reflector.reached(last, FAR)
        await agrees(mirror, second)
        await second.aclose()
    await first.aclose()


async def test_a_server_without_watchlist_is_listed_in_pages(old_cluster):
    transport = connect(old_cluster.kubeconfig)
    for number in range(7):
        await put(transport, "default", f"n{number}")
    mirror = Mirror()
    async with reflecting(transport, mirror, Pace(page=3, probe_s=1.0)) as reflector:
        await agrees(mirror, transport)
        assert await reflector.confirm(FAR, within_s=0)
        last = await put(transport, "default", "more")
        assert await reflector.reached(last, FAR)
        assert mirror.lists == 1
    await transport.aclose()


async def test_a_watch_that_the_server_ends_is_resumed(transport, space):
    mirror = Mirror()
    async with reflecting(transport, mirror, Pace(watch_s=(1.0, 1.9), probe_s=1.0)) as reflector:
        task = asyncio.create_task(reflector.reached(1 << 62, time.monotonic() + 3.5))
        last = 0
        while not task.done():
            last = await put(transport, space, f"n{os.urandom(6).hex()}")
        assert await reflector.reached(last, FAR)
        assert mirror.lists == 1
        await agrees(mirror, transport)


# -- kubeconfigs


def edited(cluster: LocalCluster, **user: Any) -> dict[str, Any]:
    """The admin's kubeconfig as a document; `user` in place of the admin's credentials."""
    document: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_bytes())
    if user:
        document["users"][0]["user"] = user
    return document


async def version(source: Any) -> str:
    """What `/version` says through a kubeconfig."""
    raw = yaml.safe_dump(source).encode() if isinstance(source, dict) else source
    transport = connect(raw)
    try:
        answer = await call(transport, "GET", "/api/v1/namespaces/default")
        return str(answer["kind"])
    finally:
        await transport.aclose()


@pytest.fixture
async def token(cluster: LocalCluster, transport: KubernetesTransport, space: str) -> str:
    """A bearer token with an administrator's rights."""
    accounts = f"/api/v1/namespaces/{space}/serviceaccounts"
    await call(transport, "POST", accounts, {"metadata": {"name": "robot"}})
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {"metadata": {"name": space}, "subjects": [subject], "roleRef": role}
    await call(transport, "POST", bindings, binding)
    asked = {"spec": {"expirationSeconds": 600}}
    made = await call(transport, "POST", f"{accounts}/robot/token", asked)
    return str(made["status"]["token"])


async def test_certificates_in_files_beside_the_kubeconfig(cluster, tmp_path):
    document = edited(cluster, **{"client-certificate": "me.crt", "client-key": "pki/me.key"})
    document["clusters"][0]["cluster"].pop("certificate-authority-data")
    document["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    (tmp_path / "pki").mkdir()
    (tmp_path / "ca.crt").write_bytes(cluster.ca.read_bytes())
    (tmp_path / "me.crt").write_bytes(cluster.admin_cert.read_bytes())
    (tmp_path / "pki" / "me.key").write_bytes(cluster.admin_key.read_bytes())
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    assert await version(path) == "Namespace"
    alone = flatten(path)
    for file in (tmp_path / "ca.crt", tmp_path / "me.crt", path):
        file.unlink()
    assert await version(alone) == "Namespace"


async def test_tokens_and_token_files(cluster, token, tmp_path):
    assert await version(edited(cluster, token=token)) == "Namespace"
    (tmp_path / "token").write_text(token)
    assert await version(edited(cluster, tokenFile=str(tmp_path / "token"))) == "Namespace"


async def test_an_exec_plugin(cluster, token, tmp_path):
    plugin = tmp_path / "issue"
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "status": {"token": token},
    }
    plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(credential)!r})\n")
    plugin.chmod(0o755)
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    assert await version(edited(cluster, exec=spec)) == "Namespace"


async def test_an_exec_plugin_that_issues_certificates(cluster, tmp_path):
    made = cluster.issue("jane", groups=["system:masters"])
    plugin = tmp_path / "issue"
    credential = {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "status": {
            "clientCertificateData": made.certificate.decode(),
            "clientKeyData": made.key.decode(),
        },
    }
    plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(credential)!r})\n")
    plugin.chmod(0o755)
    spec = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(plugin)}
    assert await version(edited(cluster, exec=spec)) == "Namespace"


async def test_impersonation_fields_take_rights_away(cluster):
    document = edited(cluster)
    document["users"][0]["user"] |= {"as": "nobody", "as-groups": ["nothing"]}
    transport = connect(yaml.safe_dump(document).encode())
    response = await transport.handle(Request("GET", "/api/v1/secrets"))
    assert response.status == 403
    assert b'User \\"nobody\\"' in response.body
    await transport.aclose()


async def test_a_server_by_another_name_and_one_that_is_not_checked(cluster):
    document = edited(cluster)
    there = document["clusters"][0]["cluster"]
    there["tls-server-name"] = "kubernetes.default.svc"
    assert await version(document) == "Namespace"
    there["tls-server-name"] = "elsewhere.example"
    with pytest.raises(TransportError, match="tls-server-name") as caught:
        await version(document)
    assert not caught.value.sent
    del there["certificate-authority-data"]
    there["insecure-skip-tls-verify"] = True
    assert await version(document) == "Namespace"


async def test_an_authority_that_did_not_issue_the_server(cluster, old_cluster):
    document = edited(cluster)
    foreign = base64.b64encode(old_cluster.ca.read_bytes()).decode()
    document["clusters"][0]["cluster"]["certificate-authority-data"] = foreign
    with pytest.raises(TransportError, match="not trusted") as caught:
        await version(document)
    assert "certificate-authority-data" in str(caught.value)


async def test_an_expired_certificate_is_told_with_its_date(cluster):
    past = cluster.layout.authority().client(
        "jane", groups=["system:masters"], lifetime=timedelta(seconds=-60)
    )
    source = edited(
        cluster,
        **{
            "client-certificate-data": base64.b64encode(past.certificate).decode(),
            "client-key-data": base64.b64encode(past.key).decode(),
        },
    )
    with pytest.raises(Unauthorized, match=r"expired on 20\d\d-\d\d-\d\d \d\d:\d\d UTC"):
        await version(source)


class Proxy:
    """A CONNECT proxy that notes where it was asked to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        line = (await reader.readuntil(b"\r\n\r\n")).split(b" ")
        self.asked.append(line[1].decode())
        host, _, port = line[1].decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()

        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(copy(reader, back), copy(there, writer))
        writer.close()
        back.close()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def test_everything_goes_through_the_proxy_upgrades_too(cluster):
    proxy = Proxy()
    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    document = edited(cluster)
    port = server.sockets[0].getsockname()[1]
    document["clusters"][0]["cluster"]["proxy-url"] = f"http://127.0.0.1:{port}"
    transport = connect(yaml.safe_dump(document).encode())
    there = cluster.server.removeprefix("https://")
    assert (await call(transport, "GET", "/version"))["major"] == "1"
    watch = await transport.handle(
        Request("GET", "/api/v1/namespaces", (("watch", "true"), ("resourceVersion", "0")))
    )
    assert b'"type":"ADDED"' in await anext(watch.body)
    await watch.aclose()
    refused = await transport.handle(upgrade("/api/v1/namespaces/default/pods/none/exec"))
    assert refused.status == 404
    assert b'pods \\"none\\" not found' in refused.body
    assert proxy.asked == [there] * 3
    await transport.aclose()
    server.close()
    await proxy.stop()


def upgrade(path: str, *query: tuple[str, str]) -> Request:
    return Request(
        "GET",
        path,
        (("command", "cat"), ("stdin", "true"), ("stdout", "true"), *query),
        headers={
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-key": base64.b64encode(b"0123456789abcdef").decode(),
            "sec-websocket-version": "13",
            "sec-websocket-protocol": "v5.channel.k8s.io",
        },
    )


# -- joining


def members(tmp_path: Path, **options: Any) -> Members:
    def made(kubeconfig: bytes) -> KubernetesTransport:
        return connect(kubeconfig)

    rhythm = Rhythm(probe_every_s=0.2, probe_s=1.0, discover_every_s=1.0)
    return Members(
        CredentialStore(tmp_path / "credentials"), made, rhythm=rhythm, files_every_s=0.1, **options
    )


class News:
    """Changes as they are told."""

    def __init__(self, roster: Members) -> None:
        self._came = asyncio.Event()
        roster.on_change(self._heard)

    async def _heard(self, _: Change) -> None:
        self._came.set()

    async def until(self, condition: Any) -> None:
        while not condition():
            self._came.clear()
            await self._came.wait()


async def test_a_definition_made_in_a_member_is_served_and_one_deleted_is_not(
    cluster, transport, tmp_path
):
    widgets = GroupVersionResource("example.com", "v1", "widgets")
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {"color": {"type": "string"}},
                                }
                            },
                        }
                    },
                    "selectableFields": [{"jsonPath": ".spec.color"}],
                    "additionalPrinterColumns": [
                        {"name": "Color", "type": "string", "jsonPath": ".spec.color"}
                    ],
                }
            ],
        },
    }
    async with members(tmp_path) as roster:
        news = News(roster)
        member = await roster.join("torment", flatten(cluster.kubeconfig))
        crds = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        sink = Definitions()
        await member.watch(member.discovery.resources[crds], sink).synced.wait()
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await call(transport, "POST", path, definition)
        await news.until(
            lambda: (
                widgets in member.discovery.resources
                and member.discovery.resources[widgets].selectable_fields == ("spec.color",)
            )
        )
        found = member.definitions.get(widgets)
        assert found is not None
        assert [column["name"] for column in found.columns] == ["Color"]
        await news.until(lambda: "apis/example.com/v1" in member.openapi.index)
        document = await member.openapi.document("apis/example.com/v1")
        assert document is not None
        assert b"com.example.v1.Widget" in document
        await call(transport, "DELETE", f"{path}/widgets.example.com")
        await news.until(lambda: widgets not in member.discovery.resources)


class Definitions(Mirror):
    @staticmethod
    def _key(obj: dict[str, Any]) -> tuple[str, str]:
        return "", obj["metadata"]["name"]


async def test_the_same_cluster_is_recognised_and_another_is_not_confused(
    cluster, old_cluster, tmp_path
):
    same = edited(cluster)
    same["clusters"][0]["cluster"]["server"] = cluster.server.replace("127.0.0.1", "localhost")
    async with members(tmp_path) as roster:
        await roster.join("one", flatten(cluster.kubeconfig))
        with pytest.raises(JoinError, match="a member already: it is one"):
            await roster.join("two", yaml.safe_dump(same).encode())
        with pytest.raises(JoinError, match="this is not one"):
            await roster.join("one", flatten(old_cluster.kubeconfig), replace=True)
        await roster.join("two", flatten(old_cluster.kubeconfig))
        await roster.join("one", yaml.safe_dump(same).encode(), replace=True)
        assert [member.name for member in roster] == ["one", "two"]


async def test_what_cannot_join_is_told_why(cluster, transport, tmp_path):
    closed = edited(cluster)
    closed["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    stranger = edited(cluster, token="no-such-token")
    powerless = cluster.kubeconfig_for("jane").encode()
    async with members(tmp_path) as roster:
        for source, said in (
            (yaml.safe_dump(closed).encode(), "Connect call failed|refused"),
            (yaml.safe_dump(stranger).encode(), "does not accept the credentials"),
            (powerless, "kubeconfig of an administrator"),
        ):
            with pytest.raises(JoinError, match=said):
                await roster.join("east", source)
        with pytest.raises(ConfigError, match="is not YAML"):
            await roster.join("east", b"a: [")
        assert len(roster) == 0
    assert list((tmp_path / "credentials").iterdir()) == []


async def test_a_member_that_is_down_at_the_start_comes_up_by_itself(cluster, tmp_path):
    async with members(tmp_path) as roster:
        await roster.join("torment", flatten(cluster.kubeconfig))
    await cluster.stop_api()
    async with members(tmp_path) as roster:
        news = News(roster)
        member = roster.get("torment")
        assert member is not None
        await news.until(lambda: member.health["Reachable"].status == "False")
        assert member.catalogue == ()
        await cluster.start_api()
        await news.until(lambda: member.health["Reachable"].status == "True")
        await news.until(lambda: CONFIGMAPS.gvr in member.discovery.resources)
        mirror = Mirror()
        await member.watch(CONFIGMAPS, mirror).synced.wait()
        await news.until(lambda: member.health.ready)


async def test_the_four_truths_of_a_frozen_member(cluster, tmp_path):
    async with members(tmp_path) as roster:
        news = News(roster)
        member = await roster.join("torment", flatten(cluster.kubeconfig))
        await member.watch(CONFIGMAPS, Mirror()).synced.wait()
        await news.until(lambda: member.health.ready)
        await cluster.pause_api()
        try:
            await news.until(lambda: member.health["WatchFresh"].status == "False")
            await news.until(lambda: member.health["Reachable"].status == "False")
            assert member.health["CredentialsValid"].status == "True"
            assert member.health["DataPlaneHealthy"].status == "Unknown"
            await news.until(lambda: all(v.stale for g in member.catalogue for v in g.versions))
            assert CONFIGMAPS.gvr in member.discovery.resources
        finally:
            await cluster.resume_api()
        await news.until(lambda: member.health.ready)
        await news.until(lambda: not any(v.stale for g in member.catalogue for v in g.versions))
