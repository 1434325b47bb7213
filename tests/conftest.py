"""Real control planes and gateways over them, started on first use, once per session.

`east` and `west` are whole members; `fleet` is a gateway that both have joined; `start_gateway`
makes further ones for tests that do them harm. With CI=true the programs are built if they are
missing; elsewhere the tests are skipped and say what to do, because a build takes minutes.
Everything runs as processes of their own, so these fixtures are plain functions and no event loop
is shared between tests; what a killed session leaves running ends by itself.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import pytest
import yaml
from hypothesis import settings

from fleet.errors import TestbedError
from fleet.testbed import processes
from fleet.testbed.binaries import PROGRAMS, binary, find, program
from fleet.testbed.leash import Leash
from fleet.testbed.local import API_ONLY, LocalCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

# How long anything may take beside other work on the machine; nothing here measures speed.
_PATIENCE_S = 60
_STARTING_S = 300
_FLEET = Path(sys.executable).with_name("fleet")

# A run decides about a change by the same examples every time, and a busy machine is no
# counterexample. FLEET_HYPOTHESIS=explore looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("FLEET_HYPOTHESIS", "steady"))


class Finished(NamedTuple):
    """How a kubectl ended."""

    code: int
    out: str
    err: str


class Kubectl(Protocol):
    """Runs one version of kubectl: `kubectl(member.kubeconfig, "get", "pods", "-A")`."""

    def __call__(
        self,
        kubeconfig: Path,
        *arguments: str,
        stdin: str = "",
        timeout_s: float = _PATIENCE_S + 10,
    ) -> Finished: ...


class Kubectls(Protocol):
    """`kubectl("1.32")` or `kubectl()` for the newest."""

    def __call__(self, version: str | None = None) -> Kubectl: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that comes first also pays for the start of its members."""
    for item in items:
        if item.get_closest_marker("controlplane") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_STARTING_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's timeout runs."""
    if os.environ.get("CI") != "true":
        return
    if any(item.get_closest_marker("controlplane") for item in session.items):
        for wanted in PROGRAMS:
            binary(wanted.name, version=wanted.version)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs programs that are missing, before any of its fixtures starts one."""
    if item.get_closest_marker("controlplane") is None:
        return
    missing = [name for name, path in _programs().items() if path is None]
    if missing:
        pytest.skip(
            f"real control planes need {', '.join(missing)}: run `scripts/testbed build` "
            "(Go 1.26; about 15 min, once), or set KUBEBUILDER_ASSETS"
        )


@cache
def _programs() -> dict[str, Path | None]:
    return {f"{wanted.name}-{wanted.version}": find(wanted) for wanted in PROGRAMS}


@pytest.fixture(scope="session")
def binaries() -> dict[str, Path]:
    """Every program of the testbed, by `NAME-VERSION`."""
    return {name: path for name, path in _programs().items() if path is not None}


@pytest.fixture(scope="session")
def east(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """A whole member with two nodes of four accelerators. Leave it as you found it."""
    yield from _member("east", 0, tmp_path_factory)


@pytest.fixture(scope="session")
def west(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """A second member, with other pod and service addresses."""
    yield from _member("west", 1, tmp_path_factory)


_TOO_EARLY = re.compile(
    r"^E\d{4} .* websocket\.go:\d+\] Unknown stream id \d+, discarding message\n", re.MULTILINE
)
"""What kubectl 1.32 says now and then of the empty message by which a server opens a channel: it
reads before it has made its streams (client-go tools/remotecommand)."""


@pytest.fixture(scope="session")
def heard() -> Callable[[str], str]:
    """What kubectl said on its standard error, without what it says now and then of itself."""
    return lambda said: _TOO_EARLY.sub("", said)


@pytest.fixture(scope="session")
def kubectl(
    binaries: dict[str, Path],
    heard: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Kubectls:
    """kubectl by version, with a home of its own so that no user's settings or caches count."""

    def choose(version: str | None = None) -> Kubectl:
        wanted = program("kubectl", version)
        path = binaries[f"kubectl-{wanted.version}"]
        home = tmp_path_factory.mktemp(f"kubectl-{wanted.version}")

        def run(
            kubeconfig: Path, *arguments: str, stdin: str = "", timeout_s: float = _PATIENCE_S + 10
        ) -> Finished:
            done = subprocess.run(
                [path, "--kubeconfig", kubeconfig, *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                env={"PATH": os.defpath, "HOME": str(home)},
            )
            return Finished(done.returncode, done.stdout, heard(done.stderr))

        return run

    return choose


def _member(
    name: str, network: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    root = tmp_path_factory.mktemp(name)
    member = LocalCluster(name, root=root, network=network)
    try:
        asyncio.run(member.start())
    except TestbedError as error:
        pytest.fail(f"{name} did not start: {error}", pytrace=False)
    try:
        yield member
    finally:
        asyncio.run(member.stop())


# -- gateways


class Answer(NamedTuple):
    """An HTTP answer, whole."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return self.headers.get_all("Warning", [])


class Door:
    """HTTP to one API as its admin, one request at a time on one connection."""

    def __init__(
        self, url: str, context: ssl.SSLContext, *, timeout_s: float = _PATIENCE_S
    ) -> None:
        self._at = urlsplit(url)
        self._context = context
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPSConnection | None = None

    def request(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Answer:
        """A body that is no bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = {"Content-Type": "application/json"} | (headers or {})
        if self._connection is None:
            self._connection = self._connect()
        try:
            self._connection.request(method, path, body=body, headers=headers or {})
            answer = self._connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        except BaseException:
            self.close()
            raise

    def get(self, path: str, *, headers: dict[str, str] | None = None) -> Any:
        """The JSON that a GET answers with 200."""
        return self._good(self.request("GET", path, headers=headers), path)

    def post(self, path: str, body: Any) -> Any:
        return self._good(self.request("POST", path, body), path)

    def put(self, path: str, body: Any) -> Any:
        return self._good(self.request("PUT", path, body), path)

    def patch(self, path: str, body: Any, *, kind: str = "merge") -> Any:
        headers = {"Content-Type": f"application/{kind}-patch+json"}
        return self._good(self.request("PATCH", path, body, headers=headers), path)

    def delete(self, path: str) -> Any:
        return self._good(self.request("DELETE", path), path)

    @contextmanager
    def watch(self, path: str, *, headers: dict[str, str] | None = None) -> Iterator[Watch]:
        """An open watch; `path` says everything but `watch=true`."""
        connection = self._connect()
        try:
            together = f"{path}{'&' if '?' in path else '?'}watch=true"
            connection.request("GET", together, headers=headers or {})
            answer = connection.getresponse()
            assert answer.status == 200, (path, answer.status, answer.read())
            yield Watch(connection, answer)
        finally:
            connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._at.hostname or "", self._at.port, context=self._context, timeout=self._timeout_s
        )

    @staticmethod
    def _good(answer: Answer, path: str) -> Any:
        assert answer.status < 300, (path, answer.status, answer.body[:2000])
        return answer.json


class Watch:
    """The events of an open watch."""

    def __init__(
        self, connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse
    ) -> None:
        self.headers = answer.headers
        self._connection = connection
        self._answer = answer

    def event(self, *, within_s: float = _PATIENCE_S) -> dict[str, Any] | None:
        """The next one, None at the watch's end; TimeoutError when nothing comes."""
        assert self._connection.sock is not None
        self._connection.sock.settimeout(within_s)
        line = self._answer.readline()
        return json.loads(line) if line else None

    def change(self) -> dict[str, Any]:
        """The next event that is no bookmark: where a watch asks for them, one may come at any
        time."""
        return self.until(lambda event: event["type"] != "BOOKMARK")[-1]

    def until(
        self, last: Callable[[dict[str, Any]], bool], *, within_s: float = _PATIENCE_S
    ) -> list[dict[str, Any]]:
        """The events up to the first for which `last` holds, that one included."""
        events = []
        deadline = time.monotonic() + within_s
        while not events or not last(events[-1]):
            event = self.event(within_s=max(0.001, deadline - time.monotonic()))
            assert event is not None, f"the watch ended after {events}"
            events.append(event)
        return events


class Gateway:
    """A gateway that runs: a `fleet run` of its own, on a free port."""

    def __init__(self, root: Path) -> None:
        self.kubeconfig = root / "fleet.kubeconfig"
        self.log = root / "gateway.log"
        self._root = root
        self._run = root / "run"
        self._process: processes.Process | None = None
        self._leash: Leash | None = None
        self._doors: list[Door] = []
        self._context: ssl.SSLContext | None = None

    def start(self, *, port: int = 0) -> None:
        """Returns once it serves."""
        self._run.mkdir(exist_ok=True)
        argv = [
            str(_FLEET), "run", "--port", str(port), "--log-level", "info",
            "--state-directory", str(self._root / "state"), "--kubeconfig", str(self.kubeconfig),
        ]  # fmt: skip
        before = self._written()
        self._leash = Leash(self._run)
        env = {"PATH": os.defpath, "HOME": str(self._root)}
        self._process = processes.spawn("gateway", argv, run=self._run, log=self.log, env=env)
        deadline = time.monotonic() + _PATIENCE_S
        while not (self._written() != before and self._ready()):
            if not self._process.alive or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"no gateway came up:\n{self.log.read_text()[-4000:]}", pytrace=False)
            time.sleep(0.05)

    def stop(self) -> int:
        """Asks it to end, waits for that and returns the exit code."""
        assert self._process is not None and self._leash is not None
        for door in self._doors:
            door.close()
        self._process.send(signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_S
        pid, status = 0, 0
        while not pid and time.monotonic() < deadline:
            pid, status = os.waitpid(self._process.pid, os.WNOHANG)
            time.sleep(0.02)
        processes.kill_now([self._process])
        processes.forget(self._run, ["gateway"])
        self._leash.release()
        return os.waitstatus_to_exitcode(status) if pid else -signal.SIGKILL

    def faults(self) -> str:
        """What its log holds of faults nobody foresaw."""
        text = self.log.read_text(errors="replace")
        at = text.find("Traceback (most recent call last)")
        return text[max(at - 1000, 0) : at + 4000] if at >= 0 else ""

    # -- talking to it

    @property
    def url(self) -> str:
        return str(self._entry("clusters", "fleet")["server"])

    def door(self, *, timeout_s: float = _PATIENCE_S) -> Door:
        """A connection of its own, as its admin; closed with the gateway at the latest."""
        if self._context is None:
            self._context = self._tls()
        self._doors.append(Door(self.url, self._context, timeout_s=timeout_s))
        return self._doors[-1]

    def _tls(self) -> ssl.SSLContext:
        user = self._entry("users", None)
        authority = base64.b64decode(self._entry("clusters", "fleet")["certificate-authority-data"])
        context = ssl.create_default_context(cadata=authority.decode())
        pair = self._root / "admin.pem"
        pair.write_bytes(
            base64.b64decode(user["client-certificate-data"])
            + base64.b64decode(user["client-key-data"])
        )
        context.load_cert_chain(pair)
        return context

    def join(self, name: str, member: LocalCluster) -> None:
        body = {"name": name, "kubeconfig": member.kubeconfig.read_text()}
        with closing(self.door()) as door:
            door.post("/fleet/join", body)

    def leave(self, name: str) -> None:
        with closing(self.door()) as door:
            door.post("/fleet/leave", {"name": name})

    # -- inside

    def _written(self) -> int:
        return self.kubeconfig.stat().st_mtime_ns if self.kubeconfig.exists() else 0

    def _ready(self) -> bool:
        try:
            with closing(self.door()) as door:
                return door.request("GET", "/readyz").status == 200
        except OSError:
            return False

    def _entry(self, section: str, name: str | None) -> dict[str, Any]:
        document = yaml.safe_load(self.kubeconfig.read_text())
        for entry in document[section]:
            if name is None or entry["name"] == name:
                found: dict[str, Any] = entry[section.removesuffix("s")]
                return found
        raise LookupError(name)


class StartGateway(Protocol):
    """`with start_gateway(east=cluster) as gateway`: it runs, and the members have joined. `config`
    is what its configuration file holds."""

    def __call__(
        self, *, config: dict[str, Any] | None = None, **members: LocalCluster
    ) -> AbstractContextManager[Gateway]: ...


@pytest.fixture(scope="session")
def start_gateway(tmp_path_factory: pytest.TempPathFactory) -> StartGateway:
    @contextmanager
    def start(
        *, config: dict[str, Any] | None = None, **members: LocalCluster
    ) -> Iterator[Gateway]:
        root = tmp_path_factory.mktemp("gateway")
        file = root / ".config" / "fleet" / "config.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(yaml.safe_dump(config or {}))
        gateway = Gateway(root)
        with ExitStack() as stack:
            codes: list[int] = []
            gateway.start()
            stack.callback(lambda: codes.append(gateway.stop()))
            for name, member in members.items():
                gateway.join(name, member)
            yield gateway
            stack.close()
            assert codes == [0], (
                f"the gateway ended with {codes}:\n{gateway.log.read_text()[-4000:]}"
            )
            faults = gateway.faults()
            assert not faults, faults

    return start


@pytest.fixture(scope="session")
def bare_members(
    binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two API servers without controllers, for tests that stop them. Leave them running."""
    pair = (
        LocalCluster("one", root=tmp_path_factory.mktemp("one"), components=API_ONLY, network=30),
        LocalCluster("two", root=tmp_path_factory.mktemp("two"), components=API_ONLY, network=31),
    )

    async def start() -> None:
        async with asyncio.TaskGroup() as group:
            for member in pair:
                group.create_task(member.start())

    async def stop() -> None:
        for member in pair:
            await member.stop()

    try:
        asyncio.run(start())
        yield pair
    finally:
        asyncio.run(stop())


@pytest.fixture(scope="session")
def door_to() -> Iterator[Callable[[LocalCluster], Door]]:
    """HTTP to a member itself: `door_to(cluster).get("/api/v1/pods")`."""
    with ExitStack() as stack:

        def door(member: LocalCluster) -> Door:
            return stack.enter_context(closing(Door(member.server, member.ssl_context())))

        yield door


@pytest.fixture(scope="session")
def fleet(east: LocalCluster, west: LocalCluster, start_gateway: StartGateway) -> Iterator[Gateway]:
    """A gateway over `east` and `west`. Leave it as you found it."""
    with start_gateway(east=east, west=west) as gateway:
        yield gateway
