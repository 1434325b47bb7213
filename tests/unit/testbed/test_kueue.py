"""Kueue beside a member: its configuration and its webhooks, on loopback."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from fleet.errors import TestbedError
from fleet.testbed import binaries, kueue
from fleet.testbed.kueue import by_url, configuration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def webhook(name: str, group: str, path: str) -> dict[str, object]:
    service = {"name": "webhook-service", "namespace": "system", "path": path}
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "resources": ["x"], "operations": ["*"]}
    return {"name": name, "clientConfig": {"service": service}, "rules": [rule]}


def test_webhooks_are_called_directly_and_those_of_kinds_that_are_not_there_are_left_out():
    hooks = {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating"},
        "webhooks": [
            webhook("vjob", "batch", "/validate-job"),
            webhook("vray", "ray.io", "/validate-ray"),
            webhook("vworkload", "kueue.x-k8s.io", "/validate-workload"),
        ],
    }
    found = by_url(hooks, url="https://127.0.0.1:9443", ca=b"pem")
    assert found["kind"] == "ValidatingWebhookConfiguration"
    assert found["metadata"]["name"] == "kueue-validating"
    assert [each["name"] for each in found["webhooks"]] == ["vjob", "vworkload"]
    assert found["webhooks"][0]["clientConfig"] == {
        "url": "https://127.0.0.1:9443/validate-job",
        "caBundle": base64.b64encode(b"pem").decode(),
    }


def test_a_manager_names_its_dispatcher_and_everything_is_on_loopback():
    plain = configuration(Path("/m/kueue"), 1, 2, 3, dispatcher="")
    assert "multiKueue" not in plain
    assert plain["webhook"] == {"host": "127.0.0.1", "port": 1, "certDir": "/m/kueue"}
    assert plain["metrics"] == {"bindAddress": "127.0.0.1:2"}
    assert plain["health"] == {"healthProbeBindAddress": "127.0.0.1:3"}
    manager = configuration(Path("/m/kueue"), 1, 2, 3, dispatcher="fleet.dev/dispatcher")
    assert manager["multiKueue"] == {"dispatcherName": "fleet.dev/dispatcher"}


@pytest.mark.parametrize("begun", [False, True])
async def test_a_kueue_that_is_late_says_so_with_the_end_of_its_log(monkeypatch, tmp_path, begun):
    async def ensure(name: str, *, progress: object) -> Path:
        return tmp_path / "bin" / name

    async def for_ever(*_: object) -> None:
        await asyncio.Event().wait()

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        yield None

    log = tmp_path / "kueue.log"
    if begun:
        log.write_text("waiting for certificates\n")
    pair = SimpleNamespace(certificate=b"c", key=b"k")
    authority = SimpleNamespace(server=lambda *_, **__: pair)
    layout = SimpleNamespace(root=tmp_path, authority=lambda: authority, log=lambda _: log)
    cluster = SimpleNamespace(name="hub", layout=layout, client=client)
    monkeypatch.setattr(binaries, "ensure", ensure)
    monkeypatch.setattr(kueue, "_define", for_ever)
    end = "waiting for certificates" if begun else "It was not started yet"
    with pytest.raises(TestbedError, match=rf"(?s)hub: kueue was not ready within 0 s\..*{end}"):
        await kueue.start(cluster, timeout_s=0)
