"""Real control planes for this lane: `east` and `west`, started on first use, once per session.

With CI=true the programs are built if they are missing; elsewhere the tests are skipped and say
what to do, because a build takes minutes. The members run as processes of their own, so these
fixtures are plain functions and no event loop is shared between tests.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest

from fleet.errors import TestbedError
from fleet.testbed.binaries import PROGRAMS, binary, find, program
from fleet.testbed.local import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STARTING_S = 180


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
