"""Streams reach the one member that runs the pod: logs, exec, cp, attach, port-forward."""

from __future__ import annotations

import re
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.controlplane

MEMBERS = ("east", "west")


@pytest.fixture
def pods(kubectl: Any, payments: str) -> dict[str, str]:
    """A pod of each member, by member."""
    found = {}
    for item in kubectl.json("get", "pods", "-A", "-l", "app=web")["items"]:
        namespace, _, member = item["metadata"]["namespace"].rpartition(".")
        if namespace == payments:
            found[member] = item["metadata"]["name"]
    return found


def test_logs_by_pod_and_by_what_owns_it(kubectl: Any, payments: str, pods: dict[str, str]) -> None:
    calls = [
        ("logs", of, "-n", f"{payments}.{member}")
        for member in MEMBERS
        for of in (pods[member], "deploy/web", "svc/web", "job/once")
    ]
    for call, text in zip(calls, kubectl.together(*calls), strict=True):
        member = call[-1].rpartition(".")[2]
        assert text.splitlines() == [f"member {member}", "started", "ready"], call


def test_logs_options(kubectl: Any, payments: str, pods: dict[str, str]) -> None:
    where = ("-n", f"{payments}.east")
    tail, stamped, several, follow = kubectl.together(
        ("logs", pods["east"], *where, "--tail=1"),
        ("logs", pods["east"], *where, "--timestamps", "-c", "main"),
        ("logs", *where, "-l", "app=web", "--prefix"),
        ("logs", pods["east"], *where, "--limit-bytes=6"),
    )
    assert tail == "ready\n"
    assert stamped.splitlines()[0] == "2026-01-01T00:00:00.000000000Z member east"
    assert len(re.findall(r"\[pod/web-\S+/main\] member east", several)) == 2
    assert follow == "member"
    with kubectl.running("logs", "-f", pods["east"], *where) as running:
        running.line("ready")
    err = kubectl.refused("logs", "nope", *where)
    assert 'pods "nope" not found' in err


def test_exec_runs_in_the_pods_member(kubectl: Any, payments: str, pods: dict[str, str]) -> None:
    calls = [
        ("exec", of, "-n", f"{payments}.{member}", "--", "sh", "-c", "echo in $FLEET_MEMBER")
        for member in MEMBERS
        for of in (pods[member], "deploy/web", "svc/web")
    ]
    for call, text in zip(calls, kubectl.together(*calls), strict=True):
        member = call[3].rpartition(".")[2]
        assert text == f"in {member}\n", call


def test_exec_carries_input_errors_and_exit_codes(
    kubectl: Any, payments: str, pods: dict[str, str]
) -> None:
    where = (pods["west"], "-n", f"{payments}.west")
    echoed = kubectl("exec", "-i", *where, "--", "cat", stdin="over there and back\n" * 1000)
    assert echoed == "over there and back\n" * 1000
    failing = ("--", "sh", "-c", "echo lost >&2; exit 7")
    ended = kubectl.run("exec", *where, *failing)
    direct = kubectl.at("west").run("exec", pods["west"], "-n", payments, *failing)
    assert "lost" in ended.err
    assert (ended.code, ended.out, ended.err) == (direct.code, direct.out, direct.err)
    missing = kubectl.run("exec", "nope", "-n", f"{payments}.west", "--", "true")
    assert missing.code == 1
    assert 'pods "nope" not found' in missing.err


def test_files_are_copied_both_ways(
    kubectl: Any, payments: str, pods: dict[str, str], tmp_path: Path
) -> None:
    there = f"/tmp/fleet-compat-{kubectl.version}-{payments}.txt"
    sent = tmp_path / "sent.txt"
    sent.write_text("bytes of a file\n" * 500)
    pod = f"{payments}.east/{pods['east']}"
    kubectl("cp", str(sent), f"{pod}:{there}")
    back = tmp_path / "back.txt"
    kubectl("cp", f"{pod}:{there}", str(back))
    assert back.read_text() == sent.read_text()
    kubectl("exec", pods["east"], "-n", f"{payments}.east", "--", "rm", there)


@pytest.mark.parametrize("of", ["pod", "deploy/web", "svc/web"])
def test_a_port_is_forwarded(kubectl: Any, payments: str, pods: dict[str, str], of: str) -> None:
    of = f"pod/{pods['west']}" if of == "pod" else of
    port = "80" if of == "svc/web" else "8080"
    with kubectl.running("port-forward", of, "-n", f"{payments}.west", f":{port}") as running:
        line = running.line(r"Forwarding from 127\.0\.0\.1:")
        local = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert local is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{local[1]}/", timeout=60) as answer:
            assert answer.read() == b"member west\n"


def test_attach_shows_what_the_container_writes(
    kubectl: Any, payments: str, pods: dict[str, str], east: Any
) -> None:
    log = east.layout.root / "pod.log"
    before = log.read_bytes()
    with kubectl.running("attach", pods["east"], "-n", f"{payments}.east") as running:
        try:
            kubectl.until(lambda: _write(log) or any("just now" in seen for seen in running.seen))
        finally:
            log.write_bytes(before)


def test_what_a_client_abandons_ends_in_the_gateway(
    kubectl: Any, payments: str, pods: dict[str, str]
) -> None:
    """rancher#21324, kubectl#1163: nothing of a stream stays when its client is gone."""
    where = ("-n", f"{payments}.east")
    running = [
        ("logs", "-f", pods["east"], *where),
        ("attach", pods["east"], *where),
        ("exec", pods["east"], *where, "--", "sleep", "600"),
        ("port-forward", pods["east"], *where, ":8080"),
        ("get", "pods", "-A", "-w"),
        ("events", "-A", "-w"),
    ]
    with ExitStack() as stack:
        for command in running:
            stack.enter_context(kubectl.running(*command))
        kubectl.until(lambda: _open_streams(kubectl) >= len(running))
    kubectl.until(lambda: _open_streams(kubectl) == 0)


def test_a_union_has_no_streams(kubectl: Any, payments: str, pods: dict[str, str]) -> None:
    err = kubectl.refused("logs", pods["east"], "-n", f"{payments}.*")
    assert "union of namespaces" in err
    assert f"{payments}.MEMBER" in err


def _write(log: Path) -> None:
    with log.open("a") as file:
        file.write("2026-01-01T00:00:09.000000000Z stdout F just now\n")


def _open_streams(kubectl: Any) -> float:
    text = kubectl("get", "--raw", "/metrics")
    found = re.search(r"^fleet_long_running_requests (\S+)$", text, re.MULTILINE)
    assert found is not None
    return float(found[1])
