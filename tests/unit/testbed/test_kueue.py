"""Kueue beside a member: its configuration and its webhooks, on loopback."""

from __future__ import annotations

import base64
from pathlib import Path

from fleet.testbed.kueue import by_url, configuration


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
