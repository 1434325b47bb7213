"""`describe`, `events` and `top`: what people read when something is wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("kind", ["pods", "deploy", "svc", "rs", "cm", "secrets", "jobs"])
def test_describe_says_what_it_says_in_the_member(kubectl: Any, payments: str, kind: str) -> None:
    there = kubectl.at("west")
    assert f"{payments}.west" in kubectl("describe", kind, "-n", f"{payments}.west")
    kubectl.agree(
        lambda: _plain(kubectl("describe", kind, "-n", f"{payments}.west"), member="west"),
        lambda: _plain(there("describe", kind, "-n", payments)),
    )


def test_describe_pod_has_its_events_and_its_node(kubectl: Any, payments: str) -> None:
    pod = kubectl("get", "pods", "-n", f"{payments}.east", "-l", "app=web", "-o", "name").split()[0]
    text = kubectl("describe", pod, "-n", f"{payments}.east")
    assert re.search(r"Node: +n[12]\.east/", text), text
    assert re.search(r"Normal +Scheduled .* Successfully assigned", text), text
    assert re.search(r"Controlled By: +ReplicaSet/web-", text)


def test_describe_node_counts_the_pods_of_its_own_member(kubectl: Any, payments: str) -> None:
    name = kubectl.at("east")("get", "nodes", "-o", "name").split()[0].removeprefix("node/")
    there = kubectl.at("east")
    merged = kubectl("describe", "node", f"{name}.east")
    assert re.search(rf"Name: +{name}\.east", merged)
    assert any(namespace == f"{payments}.east" for namespace, _ in _pods(merged))

    def counted(text: str, suffix: str = "") -> Any:
        pods = {(namespace + suffix, pod) for namespace, pod in _pods(text)}
        return pods, _section(text, "Allocated resources:")

    kubectl.agree(
        lambda: counted(kubectl("describe", "node", f"{name}.east")),
        lambda: counted(there("describe", "node", name), ".east"),
    )


def test_events_of_one_object_and_of_a_namespace(kubectl: Any, payments: str) -> None:
    where = ("-n", f"{payments}.east")
    pod = kubectl("get", "pods", *where, "-l", "app=web", "-o", "name").split()[0]
    name = pod.removeprefix("pod/")
    of_one, of_all, got, everywhere = kubectl.together(
        ("events", "--for", pod, *where),
        ("events", *where, "--types=Normal"),
        ("get", "events", *where, "--field-selector", f"involvedObject.name={name}"),
        ("get", "events", "-A", "--field-selector", "reason=ScalingReplicaSet"),
    )
    assert "Scheduled" in of_one
    assert all(f"Pod/{name}" in row for row in of_one.splitlines()[1:])
    assert f"Pod/{name}" in of_all
    assert "Deployment/web" in of_all
    assert "pod/" + name in got
    assert f"{payments}.east" in everywhere
    assert f"{payments}.west" in everywhere


def _plain(text: str, *, member: str = "-") -> list[str]:
    """Lines without what a moment changes and what projection adds or alters."""
    lines = []
    # the first of a block of labels or annotations shares the line with its title
    text = re.sub(r"^(Labels|Annotations):( +)", r"\1:\n\2", text, flags=re.MULTILINE)
    for line in text.splitlines():
        if re.match(r" +(fleet\.dev/\S+[:=].*|<none>)$", line):
            continue
        line = line.replace(f".{member}", "")
        line = re.sub(r"\b(\d+[smhd])+\b|<invalid>|<unknown>", "AGE", line)
        line = re.sub(r"AGE \(x\d+ over AGE\)", "AGE", line)
        lines.append(re.sub(r"\s+", " ", line).strip())
    return lines


def _section(text: str, title: str) -> list[str]:
    lines = text[text.index(title) :].splitlines()[1:]
    end = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), None)
    return [re.sub(r"\s+", " ", line) for line in lines[:end]]


def _pods(text: str) -> set[tuple[str, str]]:
    rows = _section(text, "Non-terminated Pods:")[2:]
    return {(row.split()[0], row.split()[1]) for row in rows if row.strip()}
