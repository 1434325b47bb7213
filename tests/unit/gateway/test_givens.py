"""What decisions are made over is read once for each revision, and again when it has aged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fleet.gateway.givens import PRIORITY_CLASSES, Givens, row
from fleet.gateway.rulebook import Rulebook
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.extension import NONE
from policies import PLACEMENT_POLICY, PRICE_BOOK

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


class Books:
    def clusters(self):
        return []


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def givens(store, clock):
    return Givens(
        store,
        Books(),
        now=clock,
        lease=timedelta(seconds=15),
        extensions=NONE,
        rulebook=Rulebook(store),
    )


def policy(mode):
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "any", "namespace": "payments", "uid": "p"},
        "spec": {"mode": mode},
    }


async def test_what_has_not_changed_is_the_very_same(store, givens):
    await store.create(PLACEMENT_POLICY.resource, policy("One"))
    first, second = givens.fleet(), givens.fleet()
    assert second.policies is first.policies
    assert second.priorities is first.priorities
    assert second.prices is first.prices


async def test_a_new_revision_is_read(store, givens):
    entry = await store.create(PLACEMENT_POLICY.resource, policy("One"))
    assert [each.spec.mode for each in givens.fleet().policies] == ["One"]
    changed = policy("Split")
    changed["metadata"]["resourceVersion"] = str(entry.revision)
    await store.update(PLACEMENT_POLICY.resource, changed, expected=entry.revision)
    assert [each.spec.mode for each in givens.fleet().policies] == ["Split"]


async def test_classes_are_read_with_what_they_preempt(store, givens):
    made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    quiet = {**made, "metadata": {"name": "quiet", "uid": "q"}, "preemptionPolicy": "Never"}
    await store.create(row(PRIORITY_CLASSES), quiet)
    fleet = givens.fleet()
    assert fleet.priorities == {"quiet": 7}
    assert fleet.never_preempt == {"quiet"}


async def test_prices_are_read_again_when_one_becomes_too_old(store, clock, givens):
    fresh, old = NOW - timedelta(hours=1), NOW - timedelta(hours=23)
    offers = [
        {"cluster": name, "perHour": "1", "asOf": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        for name, at in (("east", fresh), ("west", old))
    ]
    book = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PriceBook",
        "metadata": {"name": "book", "uid": "b"},
        "spec": {"currency": "USD", "maxAge": "24h", "offers": offers},
    }
    await store.create(PRICE_BOOK.resource, book)
    first = givens.fleet().prices
    assert first.outdated == frozenset()
    assert first.until == NOW + timedelta(hours=1)
    clock.now = NOW + timedelta(hours=1)
    assert givens.fleet().prices is first
    clock.now = NOW + timedelta(hours=1, seconds=1)
    later = givens.fleet().prices
    assert [each.cluster for each in later.outdated] == ["west"]
    assert later.until == fresh + timedelta(hours=24)


def test_a_kind_that_is_not_served_is_named():
    with pytest.raises(LookupError, match="widgets"):
        row(GroupVersionResource("example.com", "v1", "widgets"))
