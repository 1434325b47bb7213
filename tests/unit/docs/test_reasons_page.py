"""docs/errors.md names every reason that a Placement or a fleet Job can show, and no other.

The reasons are read off the source: what is handed over, assigned, returned or written as a reason.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from fleet.dispatch.chronicle import happenings
from fleet.dispatch.elastic import without
from fleet.dispatch.record import Record, Shard
from fleet.scheduling.reasons import REASONS
from policies import placement

PACKAGES = ("fleet/scheduling", "fleet/dispatch")
WORD = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")
REASON = "reason"
WHY = "WhyItIsSo"


class Reasons(ast.NodeVisitor):
    """Collects reasons of modules by where they stand."""

    def __init__(self, trees):
        self.found: dict[str, str] = {}
        self.constants: dict[str, ast.expr] = {}
        self.places: dict[str, int] = {}
        self.module = ""
        for tree in trees.values():
            self._learn(tree)
        for self.module, tree in trees.items():
            self.visit(tree)

    def _learn(self, tree):
        """Constants of modules by name, and at which place a callable takes a reason."""
        for node in tree.body:
            if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.constants |= {t.id: node.value for t in targets if isinstance(t, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
            elif isinstance(node, ast.ClassDef):
                names = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)]
            else:
                continue
            if REASON in names:
                self.places[node.name] = names.index(REASON)

    def _take(self, node):
        match node:
            case ast.Constant(str(text)) if WORD.fullmatch(text):
                self.found.setdefault(text, self.module)
            case ast.IfExp(body=body, orelse=other):
                self._take(body)
                self._take(other)
            case ast.BoolOp(values=values):
                for value in values:
                    self._take(value)
            case ast.Name(id=name) if name in self.constants:
                self._take(self.constants[name])

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        for keyword in node.keywords:
            if keyword.arg == REASON:
                self._take(keyword.value)
        place = self.places.get(name)
        if place is not None and place < len(node.args):
            self._take(node.args[place])
        self.generic_visit(node)

    def visit_Assign(self, node):
        for target in node.targets:
            self._assigned(target, node.value)
        self.generic_visit(node)

    def _assigned(self, target, value):
        if isinstance(target, ast.Name) and target.id == REASON:
            self._take(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=False):
                self._assigned(one, other)

    def visit_Dict(self, node):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == REASON:
                self._take(value)
        self.generic_visit(node)

    def visit_Return(self, node):
        """`return "Full", "has no room …"`, alone or within another tuple."""
        self._pair(node.value)
        self.generic_visit(node)

    def _pair(self, node):
        if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
            return
        if isinstance(node.elts[0], ast.Constant | ast.Name):
            self._take(node.elts[0])
        for each in node.elts:
            self._pair(each)


@pytest.fixture(scope="module")
def reasons():
    root = Path(__file__).resolve().parents[3]
    modules = [path for name in PACKAGES for path in sorted((root / name).rglob("*.py"))]
    trees = {str(p.relative_to(root)): ast.parse(p.read_text("utf-8")) for p in modules}
    found = Reasons(trees).found
    # What the engine says is told to users in their words.
    own = {word: module for word, module in found.items() if word not in REASONS}
    return own | dict.fromkeys(REASONS.values(), "fleet/scheduling/reasons.py")


@pytest.fixture
def documented(page, code):
    """Words by the column they stand in, of everything about Placements."""
    found: dict[str, list[str]] = {}
    for row in page("errors.md").rows("## The status of a Placement"):
        first = next(iter(row))
        found.setdefault(first, []).extend(code(row[first]))
    text = page("errors.md").section("### Conditions of the fleet's Job")
    text += page("errors.md").section("### Conditions of the fleet's Pod")
    text += page("errors.md").section("### The condition Placed")
    text += page("errors.md").section("## Conditions of a FleetQuota")
    text += page("errors.md").section("### Events")
    return found | {"Prose": code(text)}


def test_every_reason_is_in_a_table(reasons, documented):
    known = {*documented["Reason"], *documented["Prose"]}
    missing = {word: module for word, module in reasons.items() if word not in known}
    assert not missing, "docs/errors.md does not say what these mean"


def test_every_reason_in_a_table_can_come(reasons, documented):
    assert set(documented["Reason"]) - set(reasons) == set()


def test_every_phase_and_state_is_in_its_table(documented):
    assert documented["Phase"] == list(get_args(placement.Phase))
    assert documented["State"] == list(get_args(placement.ShardState))


def test_every_verdict_in_a_table_exists(page):
    rows = page("errors.md").rows("### Why a cluster was taken or not")
    said = {verdict for row in rows for verdict in row["Verdict"].split(", ")}
    assert said == set(get_args(placement.Verdict))


def test_every_event_is_in_its_table(page, code):
    told = set()
    for phase, state in product(get_args(placement.Phase), get_args(placement.ShardState)):
        shard = Shard("east", index=0, generation=1, first=0, count=1)
        before = Record(phase="Committed" if phase == "Queued" else "Queued", shards=(shard,))
        changed = replace(shard, state=state, message="why")
        after = Record(phase=phase, shards=(changed,), reason=WHY, message="why")
        told |= {(reason, kind) for kind, reason, _ in happenings(before, after) if reason != WHY}
    east = Shard("east", index=0, generation=1, first=0, count=1, state="Running")
    west = Shard("west", index=1, generation=2, first=1, count=1, state="Running")
    both = Record(generation=2, phase="Running", shards=(east, west), least=1, most=2)
    joining = replace(both, phase="Committed", shards=(east, replace(west, state="Committed")))
    for before, after in ((both, without(both, [west], 0.0)), (joining, both)):
        told |= {(reason, kind) for kind, reason, _ in happenings(before, after)}
    rows = page("errors.md").rows("### Events")
    assert {(code(row["Event"])[0], row["Type"]) for row in rows} == told
