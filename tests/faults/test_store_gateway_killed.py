"""A whole gateway, killed again and again: what it acknowledged stays, what it began goes on."""

from __future__ import annotations

import base64
import http.client
import json
import random
import signal
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = "from fleet.cli.main import main; main()"
NAMESPACES = "/fleet/api/v1/namespaces"


class Gateway:
    """A gateway process and a connection to it."""

    def __init__(self, directory: Path) -> None:
        kubeconfig = directory / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", RUN, "run", "--port", "0"),
                *("--state-directory", str(directory / "state")),
                *("--kubeconfig", str(kubeconfig)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self.process.stdout is not None
        said = b""
        while b"serving on" not in said:
            line = self.process.stdout.readline()
            said += line
            if not line:
                self.close()
                raise AssertionError(f"the gateway does not start: {said.decode()}")
        self.connection = connection_by(kubeconfig)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        raw = None if body is None else json.dumps(body)
        self.connection.request(method, path, body=raw, headers=headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        """Kill it, whatever it is doing."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def connection_by(kubeconfig: Path) -> http.client.HTTPSConnection:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    pair = kubeconfig.with_suffix(".pem")
    pair.write_bytes(
        base64.b64decode(user["client-certificate-data"])
        + base64.b64decode(user["client-key-data"])
    )
    context.load_cert_chain(pair)
    host, port = cluster["server"].removeprefix("https://").split("/")[0].split(":")
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=30)


@contextmanager
def gateway(directory: Path) -> Iterator[Gateway]:
    found = Gateway(directory)
    try:
        yield found
    finally:
        found.connection.close()
        found.close()


def names(answer: tuple[int, Any]) -> list[str]:
    status, listed = answer
    assert status == 200
    return [item["metadata"]["name"] for item in listed["items"]]


def test_killed_gateways_keep_their_word(tmp_path: Path) -> None:
    rng = random.Random(5)
    maps = f"{NAMESPACES}/default/configmaps"
    acknowledged: dict[str, str] = {}
    revisions: list[int] = []
    for start in range(3):
        with gateway(tmp_path) as running:
            found = names(running.call("GET", maps))
            assert set(acknowledged) <= set(found)
            for name, revision in acknowledged.items():  # revisions of before are preconditions
                _, obj = running.call("GET", f"{maps}/{name}")
                assert obj["metadata"]["resourceVersion"] == revision
            for number in range(rng.randrange(5, 25)):
                name = f"m{start}-{number}"
                status, made = running.call("POST", maps, {"metadata": {"name": name}})
                assert status == 201
                acknowledged[name] = made["metadata"]["resourceVersion"]
                revisions.append(int(acknowledged[name]))
    assert revisions == sorted(set(revisions))


def test_a_namespace_that_was_ending_when_the_gateway_died_is_gone_after_the_next_start(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path) as running:
        running.call("POST", NAMESPACES, {"metadata": {"name": "lab"}})
        for number in range(40):
            body = {"metadata": {"name": f"m{number}"}}
            assert running.call("POST", f"{NAMESPACES}/lab/configmaps", body)[0] == 201
        status, marked = running.call("DELETE", f"{NAMESPACES}/lab")
        assert status == 200
        assert marked["status"]["phase"] == "Terminating"
    with gateway(tmp_path) as running:
        deadline = time.monotonic() + 30
        while running.call("GET", f"{NAMESPACES}/lab")[0] != 404:
            assert time.monotonic() < deadline
        assert "lab" not in [
            item["metadata"]["namespace"]
            for item in running.call("GET", "/fleet/api/v1/configmaps")[1]["items"]
        ]
