"""A leave that is broken off between any two of its steps is ended later: when the gateway starts
again, or when somebody asks for it again."""

from __future__ import annotations

import itertools
import os
import random
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.errors import JoinError, StoreError
from fleet.gateway import own
from fleet.gateway.clusters import CLUSTERS, Clusters
from fleet.gateway.rulebook import Rulebook
from fleet.kube.wire import Response
from fleet.members.credentials import CredentialStore
from fleet.members.roster import Members
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.kube.wire import Request
    from fleet.members.roster import Change

KUBECONFIG = b"to: east\n"


class CrashError(BaseException):
    """The process is gone."""


class East:
    """A cluster that answers whatever a join asks. A transport."""

    credentials_expire_at = None

    async def handle(self, request: Request) -> Response:
        value: dict[str, Any] = {"kind": "APIGroupList", "groups": [], "versions": []}
        if request.path == "/api/v1/namespaces/kube-system":
            value = {"metadata": {"uid": "uid-east"}}
        elif request.path == "/version":
            value = {"gitVersion": "v1.36.3"}
        return Response(200, {}, orjson.dumps(value))

    async def aclose(self) -> None:
        """There is nothing to close."""


class Life:
    """One run of a gateway over what the ones before have stored."""

    def __init__(self, directory: Path, backend: MemoryBackend, epoch: int) -> None:
        self.credentials = CredentialStore(directory)
        self.store = ObjectStore(backend, Sequencer(epoch=epoch))
        self.members = Members(self.credentials, lambda _: East(), random=random.Random(1))
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Life:
        await self.store.__aenter__()
        await self.members.__aenter__()
        rows = {kind.resource.gvr: kind.resource for kind in policies.kinds()}
        numbers = itertools.count()
        kernel = own.build(
            self.store,
            [
                CustomKind(kind.resource, kind.openapi, kind.columns, kind.status, kind.rules)
                for kind in policies.kinds()
            ],
            openapi=own.OwnOpenApi({}),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            uid=lambda: f"uid-{next(numbers)}",
            rng=random.Random(1),
            server_address="fleet",
        )
        self.objects = self.store.collection(rows[CLUSTERS])
        self._clusters = Clusters(
            kernel=kernel,
            store=self.store,
            resource=rows[CLUSTERS],
            rulebook=Rulebook(self.store),
            members=self.members,
            books=SimpleNamespace(clusters=list),  # type: ignore[arg-type]
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        self.members.on_change(self._changed)
        await self.members.end_leaves()
        return self

    async def _changed(self, change: Change) -> None:
        if change.kind == "left":
            self.before()
        await self._clusters.changed(change)
        if change.kind == "left":
            self.after()

    async def __aexit__(self, *exception: object) -> None:
        try:
            await self.members.__aexit__(None, None, None)
        finally:
            await self.store.__aexit__(None, None, None)

    def state(self) -> tuple[list[str], list[str]]:
        return [m.name for m in self.members], [
            entry.name for entry in self.objects.snapshot().entries()
        ]


@pytest.fixture
def live(tmp_path: Path) -> Callable[[], Life]:
    backend, epochs = MemoryBackend(), itertools.count(1)
    return lambda: Life(tmp_path / "members", backend, next(epochs))


def crash() -> None:
    raise CrashError


def crashes(monkeypatch: pytest.MonkeyPatch, life: Life, step: str) -> None:
    """Have the process die at a step of the leave to come."""

    def patched(place: Any, name: str, *, done: bool) -> None:
        real = getattr(place, name)

        def act(*args: Any, **more: Any) -> None:
            if done:
                real(*args, **more)
            crash()

        monkeypatch.setattr(place, name, act)

    match step:
        case "before-it-is-written-down":
            patched(os, "replace", done=False)
        case "when-it-is-written-down":
            patched(os, "replace", done=True)
        case "before-the-credentials-are-wiped":
            patched(os, "truncate", done=False)
        case "when-the-credentials-are-wiped":
            patched(os, "truncate", done=True)
        case "before-it-is-told":
            life.before = crash
        case "when-it-was-told":
            life.after = crash
        case "before-it-is-ended":
            patched(Path, "unlink", done=False)
        case "when-it-is-ended":
            patched(Path, "unlink", done=True)


STEPS = (
    "before-it-is-written-down",
    "when-it-is-written-down",
    "before-the-credentials-are-wiped",
    "when-the-credentials-are-wiped",
    "before-it-is-told",
    "when-it-was-told",
    "before-it-is-ended",
    "when-it-is-ended",
)


async def broken_off(life: Life, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """A join, then a leave that dies at `step` together with its process."""
    with monkeypatch.context() as patch:
        with pytest.raises((CrashError, BaseExceptionGroup)):
            async with life:
                await life.members.join("east", KUBECONFIG)
                assert life.state() == (["east"], ["east"])
                crashes(patch, life, step)
                await life.members.leave("east")
                pytest.fail("it did not die")


@pytest.mark.parametrize("step", STEPS)
async def test_the_next_start_ends_a_leave(
    live: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    await broken_off(live(), monkeypatch, step)
    async with live() as life:
        if step == "before-it-is-written-down":
            assert life.state() == (["east"], ["east"])
            await life.members.leave("east")
        assert life.state() == ([], [])
        assert list((tmp_path / "members").iterdir()) == []
        with pytest.raises(JoinError, match="east is no member"):
            await life.members.leave("east")


@pytest.mark.parametrize("step", STEPS[1:])
async def test_whoever_joins_again_after_a_leave_that_was_broken_off_stays(
    live: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    await broken_off(live(), monkeypatch, step)
    for _ in range(2):
        async with live() as life:
            if "east" not in life.members:
                await life.members.join("east", KUBECONFIG)
            assert life.state() == (["east"], ["east"])
    assert [path.name for path in (tmp_path / "members").iterdir()] == ["east.kubeconfig"]


async def test_a_listener_that_fails_is_told_again(live: Any, tmp_path: Path) -> None:
    async with live() as life:
        await life.members.join("east", KUBECONFIG)

        def full() -> None:
            raise StoreError("the disk is full")

        life.before = full
        await life.members.leave("east")
        assert life.state() == ([], ["east"])
        marker = tmp_path / "members" / "east.leaving"
        assert marker.read_bytes() == b""
        await life.members.leave("east")  # again: it is still owed
        assert life.state() == ([], ["east"])
        life.before = lambda: None
        await life.members.leave("east")
        assert life.state() == ([], [])
        assert not marker.exists()
