"""What is said to stay in a member is all that joining and dispatch put there."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest

from fleet.dispatch import marks, remains
from fleet.members.binding import ADMINS, BOUND_ANNOTATION, RULES

PACKAGE = Path(remains.__file__).parents[1]
MAKERS = [*sorted((PACKAGE / "dispatch").rglob("*.py")), PACKAGE / "members" / "binding.py"]
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "PriorityClass": "priorityclasses",
}
NOT_KEPT = {
    "DeleteOptions": "a body of a request",
    "SubjectAccessReview": "a question",
    "Event": "told in the fleet's own store",
}
REMOVED = {each for removal in remains.REMOVALS for each in removal.resources}


def made() -> set[str]:
    """The kinds of the objects that are written down in the code, by their resources."""
    found = set()
    for file in MAKERS:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Dict):
                entries = {
                    key.value: value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
                kind = entries.get("kind")
                if {"apiVersion", "metadata"} <= entries.keys() and isinstance(kind, ast.Constant):
                    found.add(str(kind.value))
    return {PLURALS.get(kind, f"{kind.lower()}s") for kind in found - NOT_KEPT.keys()}


def granted() -> set[str]:
    """What dispatchers may create in a namespace."""
    return {
        ".".join(filter(None, [resource, *rule["apiGroups"]]))
        for rule in RULES
        for resource in rule["resources"]
        if "create" in rule["verbs"] and "/" not in resource
    }


def test_every_kind_that_the_code_makes_is_removed() -> None:
    assert {"jobs", "namespaces", "priorityclasses", "clusterroles"} <= made()
    assert made() <= {each.partition(".")[0] for each in REMOVED}


def test_everything_that_dispatchers_may_create_is_removed() -> None:
    assert "services" in granted()
    assert granted() <= REMOVED


def test_each_command_names_its_kubeconfig_and_what_is_ours() -> None:
    for line in remains.commands("FILE"):
        words = shlex.split(line, comments=True)
        assert words[:3] == ["kubectl", "--kubeconfig", "FILE"], line
        if "delete" in words:
            assert words[-2:] == ["-l", f"{marks.MANAGED_BY_LABEL}={marks.MANAGED_BY}"], line
    text = "\n".join(remains.commands("FILE"))
    assert f" {marks.ACCEPT_LABEL}-" in text and f" {BOUND_ANNOTATION}-" in text


@pytest.mark.parametrize("made_here", [ADMINS, "fleet:dispatcher", "fleet-global-index"])
def test_what_is_known_by_name_carries_the_label(made_here: str) -> None:
    from fleet.dispatch import ranks
    from fleet.members import binding

    objects = [
        binding._admins_binding(),
        binding.dispatcher_role(),
        binding.dispatcher_binding("research"),
        ranks.policy("v1"),
        ranks.binding("v1"),
    ]
    named = [each["metadata"] for each in objects if each["metadata"]["name"] == made_here]
    assert named
    assert all(each["labels"][marks.MANAGED_BY_LABEL] == marks.MANAGED_BY for each in named)
