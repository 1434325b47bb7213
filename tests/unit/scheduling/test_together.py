"""What is asked about at once, placed together: more starts, and nobody who would is put off."""

from __future__ import annotations

from random import Random

import pytest

from fleet.scheduling.placer import Item
from fleet.scheduling.price import Prices
from fleet.scheduling.quota.book import Book
from fleet.scheduling.quota.tree import Key, Node, Share, Tree
from fleet.scheduling.together import Gang, Together

SPLIT = {"mode": "Split", "gang": {"maxClusters": 2}}
GPU = Key("nvidia.com/gpu")


def gang(build, name, pods, *, starts, priority=0, quota="", sequence=0):
    demand = build.demand(pods, SPLIT, name=name)
    item = Item(name, quota, priority, sequence, {GPU: pods}, shape=name, demand=demand)
    return Gang(item, demand, starts)


def together(gangs, clusters, book=None):
    book = Book(Tree.of([])) if book is None else book
    return Together(tuple(gangs), tuple(clusters), Prices(), book, 0.0).gain()


def two(build):
    """The large gang finds room in b only, and the small ones went there first."""
    return [build.cluster("a", 4), build.cluster("b", 6, plane="roce-2")]


def test_more_start_where_those_before_make_way(build):
    gangs = [
        gang(build, "s1", 2, starts=True),
        gang(build, "s2", 2, starts=True),
        gang(build, "large", 6, starts=False),
    ]
    found = together(gangs, two(build))
    assert found.starts == 2
    assert found.places == {"s1": {"a": 2}, "s2": {"a": 2}, "large": {"b": 6}}


def test_nothing_is_said_where_no_more_would_start(build):
    gangs = [
        gang(build, "s1", 4, starts=True),
        gang(build, "s2", 2, starts=True),
        gang(build, "large", 6, starts=False),
    ]
    assert together(gangs, [build.cluster("a", 6)]) is None


def test_nobody_who_would_start_is_put_off_for_one_who_matters_more(build):
    """Evicting is not what is asked about: who matters more waits, or has had his place."""
    gangs = [
        gang(build, "s1", 5, starts=True),
        gang(build, "large", 6, starts=False, priority=9),
    ]
    assert together(gangs, [build.cluster("a", 8)]) is None


def test_of_those_that_wait_the_more_important_comes_first(build):
    gangs = [
        gang(build, "s1", 2, starts=True),
        gang(build, "much", 8, starts=False),
        gang(build, "urgent", 6, starts=False, priority=9),
    ]
    found = together(gangs, [build.cluster("a", 8), build.cluster("b", 2, plane="roce-2")])
    assert found.places == {"s1": {"b": 2}, "urgent": {"a": 6}}


@pytest.mark.parametrize(("limit", "starts"), [(10, 3), (9, None)])
def test_what_starts_besides_has_the_quota_for_it(build, limit, starts):
    book = Book(Tree.of([Node("team", "", {GPU: Share(limit, limit)})]))
    book.charge("s1", 1, "team", {GPU: 2})
    book.charge("s2", 1, "team", {GPU: 2})
    gangs = [
        gang(build, "s1", 2, starts=True, quota="team"),
        gang(build, "s2", 2, starts=True, quota="team"),
        gang(build, "large", 6, starts=False, quota="team"),
    ]
    found = together(gangs, two(build), book)
    assert (None if found is None else len(found.places)) == starts


def test_quota_for_one_of_two_goes_to_the_first_of_the_queue(build):
    book = Book(Tree.of([Node("team", "", {GPU: Share(8, 8)})]))
    book.charge("s1", 1, "team", {GPU: 4})
    gangs = [
        gang(build, "s1", 4, starts=True, quota="team"),
        gang(build, "later", 4, starts=False, quota="team", sequence=2),
        gang(build, "sooner", 4, starts=False, quota="team", sequence=1),
    ]
    found = together(gangs, [build.cluster("a", 16)], book)
    assert sorted(found.places) == ["s1", "sooner"]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_said_is_possible_in_whatever_order_it_is_asked(build, seed):
    chance = Random(seed)
    fleet = [
        build.cluster(f"c{at}", [4] * chance.randint(1, 3), plane=f"roce-{at % 2}")
        for at in range(3)
    ]
    gangs = [
        gang(build, f"g{at}", chance.randint(1, 6), starts=at < 2, sequence=at) for at in range(6)
    ]
    found = together(gangs, fleet)
    turned = together(gangs[::-1], fleet[::-1])
    assert (found and found.places) == (turned and turned.places)
    if found is None:
        return
    assert found.places.keys() > {"g0", "g1"}
    for each in gangs:
        there = found.places.get(each.item.uid, {})
        assert sum(there.values()) == (each.item.requests[GPU] if there else 0)
    for cluster in fleet:
        given = sum(each.get(cluster.name, 0) for each in found.places.values())
        assert given <= sum(node.free[GPU.resource] for node in cluster.capacity.nodes)
