"""Real clients against a real gateway over two real members.

`kubectl` is a client of the merged root, once for each version in `VERSIONS`; `kubectl.at("east")`
is the same program connected to a member, the oracle of most tests here. `payments` is a namespace
with the same workloads in both members, for tests that only read; `space` is one for tests that
write, where each test uses names of its own.
"""

from __future__ import annotations

import json
import queue
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fleet.testbed.binaries import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

# How long anything may take beside other work on the machine; nothing here measures speed.
PATIENCE_S = 60
VERSIONS = ("1.36", "1.32")
MEMBERS = ("east", "west")

WORKLOADS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: green}
---
apiVersion: v1
kind: Secret
metadata: {name: token, labels: {app: web}}
stringData: {password: hunter2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {team: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec:
      containers:
      - {name: main, image: "registry.example/web:1", ports: [{containerPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, labels: {app: once}}
spec:
  completions: 1
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/once:1"}]}
"""


class Ended:
    """How a program ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Kubectl:
    """One version of kubectl, connected to one API."""

    def __init__(
        self,
        path: Path,
        home: Path,
        version: str,
        configs: Mapping[str, Path],
        heard: Callable[[str], str],
    ) -> None:
        self.version = version
        self._heard = heard
        self._path, self._home, self._configs = path, home, configs
        self.kubeconfig = configs["fleet"]
        self._environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home)}

    def at(self, name: str) -> Kubectl:
        """The same program connected to a member, past the gateway."""
        other = Kubectl(self._path, self._home, self.version, self._configs, self._heard)
        other.kubeconfig = self._configs[name]
        return other

    def run(
        self,
        *arguments: str,
        stdin: str = "",
        timeout_s: float = PATIENCE_S + 10,
        editor: str = "false",
        applyset: bool = False,
    ) -> Ended:
        done = subprocess.run(
            self._argv(arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=self._environment
            | {"KUBE_EDITOR": editor, "KUBECTL_APPLYSET": str(applyset).lower()},
        )
        return Ended(done.returncode, done.stdout, self._heard(done.stderr))

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it prints on stdout; it has to succeed."""
        ended = self.run(*arguments, stdin=stdin)
        assert ended.code == 0, f"kubectl {' '.join(arguments)}: {ended}"
        return ended.out

    def refused(self, *arguments: str, stdin: str = "") -> str:
        """What it prints on stderr; it has to fail."""
        ended = self.run(*arguments, stdin=stdin)
        assert ended.code != 0, f"kubectl {' '.join(arguments)}: {ended}"
        return ended.err

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def apply(self, manifest: str, *arguments: str) -> str:
        return self("apply", "-f", "-", *arguments, stdin=manifest)

    def within(self, namespace: str) -> Kubectl:
        """The same program with a namespace set in its context, as `kubectl config` does."""
        config = self._home / f"{namespace}.kubeconfig"
        config.write_bytes(self.kubeconfig.read_bytes())
        there = self.at("fleet")
        there.kubeconfig = config
        there("config", "set-context", "--current", f"--namespace={namespace}")
        return there

    def together(self, *calls: tuple[str, ...]) -> list[str]:
        """What each of some calls that do not depend on each other prints; they run at once."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            return list(pool.map(lambda call: self(*call), calls))

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """The rows of a table that it prints, by column."""
        return rows(self(*arguments))

    def until(self, look: Callable[[], Any]) -> Any:
        """What `look` gives as soon as it is something; asks again and again."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := look()):
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s"
            time.sleep(0.1)
        return found

    def agree(self, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """What both looks give, as soon as it is the same: they are two reads, and controllers
        may write between them."""
        deadline = time.monotonic() + PATIENCE_S
        while (seen := one()) != (there := other()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert seen == there
        return seen

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Running]:
        """A kubectl that goes on: `get -w`, `port-forward`, `logs -f`."""
        process = subprocess.Popen(
            self._argv(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        try:
            yield Running(process)
        finally:
            process.kill()
            process.communicate()

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(self._path), "--kubeconfig", str(self.kubeconfig), *arguments]


class Running:
    """The lines that a running program prints; `seen` has them all."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.seen: list[str] = []
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def line(self, pattern: str) -> str:
        """The next line that holds `pattern`, a regular expression."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line with {pattern!r} among {self.seen}", pytrace=False)
            if re.search(pattern, line):
                return line

    def ended(self, code: int) -> None:
        """Waits for its end; with `code` it has to end."""
        assert self._process.wait(timeout=PATIENCE_S) == code, self.seen

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.seen.append(line.rstrip("\n"))
            self._lines.put(self.seen[-1])


def rows(text: str) -> list[dict[str, str]]:
    """A table as kubectl prints it: columns begin where the header has them."""
    head, *lines = text.splitlines() or [""]
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S+(?: \S+)*", head)]
    ends = [*starts[1:], None]
    names = [head[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    return [
        {
            name: line[start:end].strip()
            for name, start, end in zip(names, starts, ends, strict=True)
        }
        for line in lines
    ]


@pytest.fixture(scope="session", params=VERSIONS)
def kubectl(
    request: pytest.FixtureRequest,
    fleet: Any,
    east: Any,
    west: Any,
    binaries: dict[str, Path],
    heard: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Kubectl:
    """kubectl with a home of its own, so that no user's settings or caches count."""
    wanted = program("kubectl", request.param)
    configs = {
        "fleet": fleet.kubeconfig,
        "east": east.kubeconfig,
        "west": west.kubeconfig,
    }
    home = tmp_path_factory.mktemp(f"kubectl-{wanted.version}")
    return Kubectl(binaries[f"kubectl-{wanted.version}"], home, request.param, configs, heard)


@pytest.fixture(scope="session")
def payments(kubectl: Kubectl) -> str:
    """A namespace of the fleet and of both members, where `WORKLOADS` run in each member."""
    namespace = f"payments-{kubectl.version.replace('.', '-')}"
    kubectl("create", "namespace", namespace)

    def furnish(member: str) -> None:
        there = kubectl.at(member)
        there("create", "namespace", namespace)
        there.apply(WORKLOADS, "-n", namespace)
        there("rollout", "status", "deploy/web", "-n", namespace, "--timeout=60s")
        there("wait", "--for=condition=complete", "job/once", "-n", namespace, "--timeout=60s")

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(furnish, MEMBERS))
    return namespace


@pytest.fixture(scope="session")
def space(kubectl: Kubectl) -> str:
    """A namespace of the fleet and of both members, empty at first."""
    namespace = f"flows-{kubectl.version.replace('.', '-')}"
    kubectl("create", "namespace", namespace)
    for member in MEMBERS:
        kubectl.at(member)("create", "namespace", namespace)
        kubectl.until(
            lambda member=member: (
                kubectl.at(member).run("get", "sa", "default", "-n", namespace).code == 0
            )
        )
    return namespace
