"""Namespaces tell whose things are; errors say what to type instead."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.controlplane


def test_namespaces_of_all(kubectl: Any, payments: str) -> None:
    found = {row["NAME"]: row for row in kubectl.table("get", "namespaces")}
    assert found[payments]["CLUSTER"] == "fleet"
    for member in ("east", "west"):
        assert found[f"{payments}.{member}"]["CLUSTER"] == member
        assert found[f"kube-system.{member}"]["STATUS"] == "Active"
    assert "kube-system" not in found
    described = kubectl("describe", "ns", f"{payments}.east")
    assert f"{payments}.east" in described


def test_a_member_that_is_none(kubectl: Any, payments: str) -> None:
    for command in (("get", "pods"), ("create", "cm", "x"), ("logs", "x"), ("delete", "cm", "x")):
        err = kubectl.refused(*command, "-n", f"{payments}.eats")
        assert 'no member "eats"' in err, command
        assert f'did you mean "{payments}.east"' in err, command
    err = kubectl.refused("create", "namespace", f"{payments}.eats")
    assert f'did you mean "{payments}.east"' in err
    err = kubectl.refused("get", "pods", "-n", f"{payments}.nowhere")
    assert "members: east, west" in err


def test_what_is_in_a_member_is_pointed_to_from_the_fleets_namespace(
    kubectl: Any, payments: str
) -> None:
    pod = kubectl("get", "pods", "-n", f"{payments}.east", "-l", "app=web", "-o", "name").split()[0]
    name = pod.removeprefix("pod/")
    for command in (("logs", name), ("get", "pod", name), ("exec", name, "--", "true")):
        where = ("-n", payments)
        err = kubectl.refused(command[0], *where, *command[1:])
        assert f"in the fleet's namespace {payments}; east has one: -n {payments}.east" in err, (
            command
        )
    kubectl("get", "cm", "-A")
    err = kubectl.refused("delete", "cm", "settings", "-n", payments)
    assert "east (and west) has one" in err
    assert f"-n {payments}.east" in err


def test_a_union_is_read_only(kubectl: Any, payments: str) -> None:
    for command in (
        ("create", "cm", "x"),
        ("delete", "cm", "settings"),
        ("label", "cm", "settings", "a=b"),
        ("scale", "deploy/web", "--replicas=9"),
        ("get", "cm", "settings"),
        ("logs", "deploy/web"),
    ):
        err = kubectl.refused(*command, "-n", f"{payments}.*")
        assert "union of namespaces" in err, command
    kubectl("get", "deploy", "web", "-n", f"{payments}.east")
    assert kubectl("get", "deploy", "-n", f"{payments}.*", "--no-headers").count("web") == 2


@pytest.mark.parametrize("namespace", ["*.east", "*", "a*", f"{'x.'}*.east"])
def test_a_star_stands_for_members_only(kubectl: Any, namespace: str) -> None:
    err = kubectl.refused("get", "pods", "-n", namespace)
    assert "invalid" in err
    assert "NAMESPACE.*" in err
