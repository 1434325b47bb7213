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
import signal
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import pytest
import yaml

from fleet.errors import TestbedError
from fleet.testbed import processes
from fleet.testbed.binaries import PROGRAMS, binary, find, program
from fleet.testbed.leash import Leash
from fleet.testbed.local import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_STARTING_S = 180
_GATEWAY_STARTS_S = 30
_GATEWAY_STOPS_S = 20
_FLEET = Path(sys.executable).with_name("fleet")


class Finished(NamedTuple):
    """How a kubectl ended."""

    code: int
    out: str
    err: str


class Kubectl(Protocol):
    """Runs one version of kubectl: `kubectl(member.kubeconfig, "get", "pods", "-A")`."""

    def __call__(
        self, kubeconfig: Path, *arguments: str, stdin: str = "", timeout_s: float = 40
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


@pytest.fixture(scope="session")
def binaries() -> dict[str, Path]:
    """Every program of the testbed, by `NAME-VERSION`; skips what needs them if one is missing."""
    found = {f"{wanted.name}-{wanted.version}": find(wanted) for wanted in PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.skip(
            f"real control planes need {', '.join(missing)}: run `scripts/testbed build` "
            "(Go 1.26; about 12 min, once), or set KUBEBUILDER_ASSETS"
        )
    return {name: path for name, path in found.items() if path is not None}


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


@pytest.fixture(scope="session")
def kubectl(binaries: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Kubectls:
    """kubectl by version, with a home of its own so that no user's settings or caches count."""

    def choose(version: str | None = None) -> Kubectl:
        wanted = program("kubectl", version)
        path = binaries[f"kubectl-{wanted.version}"]
        home = tmp_path_factory.mktemp(f"kubectl-{wanted.version}")

        def run(
            kubeconfig: Path, *arguments: str, stdin: str = "", timeout_s: float = 40
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
            return Finished(done.returncode, done.stdout, done.stderr)

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


class Gateway:
    """A gateway that runs: a `fleet run` of its own, on a free port."""

    def __init__(self, root: Path) -> None:
        self.kubeconfig = root / "fleet.kubeconfig"
        self.log = root / "gateway.log"
        self._root = root
        self._run = root / "run"
        self._process: processes.Process | None = None
        self._leash: Leash | None = None

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
        deadline = time.monotonic() + _GATEWAY_STARTS_S
        while not (self._written() != before and self._ready()):
            if not self._process.alive or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"no gateway came up:\n{self.log.read_text()[-4000:]}", pytrace=False)
            time.sleep(0.05)

    def stop(self) -> int:
        """Asks it to end, waits for that and returns the exit code."""
        assert self._process is not None and self._leash is not None
        self._process.send(signal.SIGTERM)
        deadline = time.monotonic() + _GATEWAY_STOPS_S
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

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as the gateway's admin."""
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

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        timeout_s: float = 30,
    ) -> Answer:
        """One request on a connection of its own; a body that is no bytes is sent as JSON."""
        at = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            at.hostname or "", at.port, context=self.ssl_context(), timeout=timeout_s
        )
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **kwargs: Any) -> Any:
        """The JSON that a GET answers with 200."""
        answer = self.request("GET", path, **kwargs)
        assert answer.status == 200, (path, answer.status, answer.body[:2000])
        return answer.json

    def join(self, name: str, member: LocalCluster) -> None:
        body = {"name": name, "kubeconfig": member.kubeconfig.read_text()}
        answer = self.request("POST", "/fleet/join", body)
        assert answer.status == 200, answer.body

    def leave(self, name: str) -> None:
        answer = self.request("POST", "/fleet/leave", {"name": name})
        assert answer.status == 200, answer.body

    # -- inside

    def _written(self) -> int:
        return self.kubeconfig.stat().st_mtime_ns if self.kubeconfig.exists() else 0

    def _ready(self) -> bool:
        try:
            return self.request("GET", "/readyz").status == 200
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
    """`with start_gateway(east=cluster) as gateway`: it runs, and the members have joined."""

    def __call__(self, **members: LocalCluster) -> AbstractContextManager[Gateway]: ...


@pytest.fixture(scope="session")
def start_gateway(tmp_path_factory: pytest.TempPathFactory) -> StartGateway:
    @contextmanager
    def start(**members: LocalCluster) -> Iterator[Gateway]:
        gateway = Gateway(tmp_path_factory.mktemp("gateway"))
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
            assert not gateway.faults()

    return start


@pytest.fixture(scope="session")
def fleet(east: LocalCluster, west: LocalCluster, start_gateway: StartGateway) -> Iterator[Gateway]:
    """A gateway over `east` and `west`. Leave it as you found it."""
    with start_gateway(east=east, west=west) as gateway:
        yield gateway
