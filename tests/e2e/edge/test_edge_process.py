"""`fleet run` as a process: from nothing to a kubeconfig that works, and orderly to its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from fleet.cli.client import Client, read_access
from fleet.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def environment(state: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FLEET_")}
    return {**kept, "FLEET_STATE_DIRECTORY": str(state), "XDG_CONFIG_HOME": str(state)}


def fleet(state: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleet.cli.main", *args]
    return subprocess.run(command, capture_output=True, text=True, env=environment(state))


@contextmanager
def gateway(state: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A gateway that has said it serves."""
    with subprocess.Popen(
        [sys.executable, "-m", "fleet.cli.main", "run", "--port", "0", *args],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(state),
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("fleet gateway on https://127.0.0.1:"), line
            yield process
        finally:
            process.kill()


def kubeconfig(state: Path) -> Path:
    return state / "fleet.kubeconfig"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_the_first_start_makes_everything_and_the_next_keeps_it(state: Path) -> None:
    with gateway(state) as process:
        first = read_access(kubeconfig(state))
        client = Client(first)
        assert client.get("/version")["major"] == "1"
        assert client.get("/api/v1/namespaces/default")["kind"] == "Namespace"
        assert Client(read_access(kubeconfig(state), "fleet-objects")).get("/version")
        with pytest.raises(NotFound):
            client.get("/clusters/nowhere/version")
        for private in (state, *state.rglob("*")):
            assert private.stat().st_mode & 0o077 == 0, private
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    with gateway(state) as process:
        second = read_access(kubeconfig(state))
        assert (second.authority, second.certificate) == (first.authority, first.certificate)
        assert (state / "epoch").read_text() == "2\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_without_credentials_only_health_is_told(state: Path) -> None:
    with gateway(state):
        access = read_access(kubeconfig(state))
        context = ssl.create_default_context(cadata=access.authority.decode())

        def status(path: str) -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(access.server + path, context=context) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read()

        assert status("/livez") == (200, b"ok")
        code, body = status("/readyz?verbose")
        checks = "ping shutdown store dispatch controllers informer-sync".split()
        told = [f"[+]{check} ok" for check in checks]
        assert (code, body.decode().splitlines()) == (200, [*told, "readyz check passed"])
        code, body = status("/livez?verbose&exclude=dispatch")
        told = ["[+]ping ok", "[+]store ok", "[+]dispatch excluded: ok", "[+]controllers ok"]
        assert (code, body.decode().splitlines()) == (200, [*told, "livez check passed"])
        assert status("/readyz/store") == (200, b"ok")
        assert status("/livez/informer-sync")[0] == 404
        for path in ("/api", "/metrics", "/fleet/api", "/clusters/x/livez"):
            code, body = status(path)
            assert (code, json.loads(body)["reason"]) == (401, "Unauthorized")
        assert b"fleet_requests_total" in b"".join(Client(access).stream("/metrics"))


def test_open_watches_end_in_order_when_it_is_told_to_stop(state: Path) -> None:
    with gateway(state) as process:
        stream = Client(read_access(kubeconfig(state))).stream(
            "/api/v1/namespaces", [("watch", "1"), ("timeoutSeconds", "600")]
        )
        first = json.loads(next(stream).splitlines()[0])
        assert first["type"] == "ADDED"
        process.send_signal(signal.SIGTERM)
        list(stream)  # a broken stream would raise IncompleteRead
        assert process.wait() == 0


def test_what_stands_in_the_way_is_said_in_a_line(state: Path, tmp_path: Path) -> None:
    with gateway(state):
        taken = urlsplit(read_access(kubeconfig(state)).server).port
        second = fleet(state, "run", "--port", "0")
        assert second.returncode == 1
        assert second.stderr.startswith("fleet: another gateway (process ")
        elsewhere = fleet(tmp_path / "other", "run", "--port", str(taken))
        assert elsewhere.returncode == 1
        assert f"cannot serve on 127.0.0.1 port {taken}" in elsewhere.stderr
        assert "--port" in elsewhere.stderr and "Traceback" not in elsewhere.stderr
    plain = tmp_path / "plain"
    plain.touch()
    for nowhere in (tmp_path / "no" / "such" / "kubeconfig", plain / "kubeconfig", tmp_path):
        run = fleet(tmp_path / "other", "run", "--port", "0", "--kubeconfig", str(nowhere))
        assert run.returncode == 1
        assert f"the kubeconfig {nowhere} cannot be written: " in run.stderr
        assert "--kubeconfig" in run.stderr and "cannot serve" not in run.stderr
    run = fleet(tmp_path / "other", "run", "--port", "0", "--address", "192.0.2.1")
    assert "cannot serve on 192.0.2.1 port 0: " in run.stderr


def test_nothing_listens_beyond_this_machine(state: Path) -> None:
    with gateway(state):
        port = urlsplit(read_access(kubeconfig(state)).server).port
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
            pytest.raises(ConnectionRefusedError),
        ):
            probe.connect(("192.0.2.1", 9))  # sends nothing: it asks for this machine's address
            address = probe.getsockname()[0]
            if address.startswith("127."):
                pytest.skip("this machine has no other address")
            socket.create_connection((address, port), timeout=5)


def test_commands_speak_to_it(state: Path) -> None:
    with gateway(state):
        got = fleet(state, "get", "ns")
        assert got.returncode == 0, got.stderr
        assert got.stdout.splitlines()[0].split() == ["NAME", "CLUSTER", "STATUS", "AGE"]
        missing = fleet(state, "get", "pod", "none")
        assert (missing.returncode, missing.stderr) == (1, 'fleet: pods "none" not found\n')
        refused: Any = fleet(state, "leave", "nobody")
        assert refused.returncode == 1 and "nobody is no member" in refused.stderr
    gone = fleet(state, "get", "ns")
    assert gone.returncode == 1
    assert re.search("start it with `.*fleet.* run`", gone.stderr), gone.stderr
