"""Clusters that stay judged: only what changed is judged again, and nothing outlives its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.scheduling import views as module
from fleet.scheduling.price import Prices, prices_of
from fleet.scheduling.views import Views


@pytest.fixture
def judged(monkeypatch):
    """Names of clusters, each time one is judged."""
    seen = []

    def judge(demand, role, cluster, **how):
        seen.append(cluster.name)
        return real(demand, role, cluster, **how)

    real = module.judge
    monkeypatch.setattr(module, "judge", judge)
    return seen


def reasons(views, demand, waited_s=0.0, **more):
    known = views.seen(demand, demand.role, waited_s=waited_s, **more).known
    return {name: each.reason for name, each in sorted(known.items())}


def test_only_what_has_changed_is_judged_again(build, judged):
    views = Views([build.cluster(name, 8) for name in "abc"])
    demand = build.demand(4)
    assert reasons(views, demand) == {"a": "", "b": "", "c": ""}
    reasons(views, demand)
    assert judged == ["a", "b", "c"]
    views.put(build.cluster("a", 8))
    views.put(replace(views.cluster("b"), cordoned=True))
    views.change("c", views.capacities["c"].without(demand.role.kind, 8))
    assert reasons(views, demand) == {"a": "", "b": "Cordoned", "c": "Full"}
    views.put(replace(views.cluster("b")))
    reasons(views, demand)
    assert sorted(judged[3:]) == ["a", "b", "c"], "nodes that were read anew may be others"


def test_the_same_nodes_at_another_time_are_no_change(build, judged):
    views = Views([build.cluster("a", 8)])
    demand = build.demand(4)
    reasons(views, demand)
    cluster = views.cluster("a")
    views.at(20.0, Prices())
    views.put(replace(cluster, capacity=cluster.capacity.at(20.0)))
    reasons(views, demand)
    assert judged == ["a"]
    assert views.capacities["a"].as_of_s == 20.0


def test_what_is_too_old_changes_once_and_again_when_it_is_confirmed(build):
    views = Views([build.cluster("a", 8)])
    demand, cluster = build.demand(4), views.cluster("a")
    told, changes = [], []
    for now_s in (30.0, 31.0, 45.0):
        views.at(now_s, Prices())
        views.put(cluster)
        told.append(views.seen(demand, demand.role, waited_s=0.0).known["a"])
        changes.append(views.changes)
    assert [each.reason for each in told] == ["", "CapacityStale", "CapacityStale"]
    assert told[2] is told[1], "how old it is changes nothing, and is not told"
    assert (changes[1] - changes[0], changes[2] - changes[1]) == (1, 0)
    views.put(replace(cluster, capacity=cluster.capacity.at(45.0)))
    assert reasons(views, demand) == {"a": ""}


def test_a_tier_is_open_to_those_who_have_waited_for_it(build):
    tiers = [
        {"name": "own", "selector": {"matchLabels": {"fleet.dev/provider": "own"}}},
        {"name": "all", "selector": {}, "after": "10m"},
    ]
    views = Views([build.cluster("a", 8), build.cluster("b", 8, provider="cloud")])
    demand = build.demand(4, {"clusters": {"tiers": tiers}})
    for waited_s, later in ((0.0, "TierNotYet"), (600.0, ""), (599.0, "TierNotYet")):
        assert reasons(views, demand, waited_s) == {"a": "", "b": later}


def test_other_prices_are_other_costs(build):
    views = Views([build.cluster("a", 8)])
    demand = build.demand(4)

    def cost():
        return views.seen(demand, demand.role, waited_s=0.0).known["a"].curve.cost(4)

    costs = [cost()]
    for price in ("1", "2"):
        offers = [{"cluster": "a", "perHour": price, "per": "Accelerator"}]
        spec = {"currency": "USD", "offers": offers}
        views.at(0.0, prices_of([{"metadata": {"name": "p"}, "spec": spec}], now=build.now))
        costs.append(cost())
    assert costs[1] < costs[2] < costs[0], "unknown is dearest"


def test_a_cluster_that_left_is_gone_and_judged_anew_when_it_is_back(build):
    views = Views([build.cluster("a", 8), build.cluster("b", 8)])
    demand = build.demand(4)
    assert reasons(views, demand) == {"a": "", "b": ""}
    views.remove("b")
    assert "b" not in views
    assert reasons(views, demand) == {"a": ""}
    views.put(build.cluster("b", 2))
    views.put(replace(views.cluster("b"), ready=False))
    assert reasons(views, demand) == {"a": "", "b": "NotReady"}


def test_what_a_cluster_is_to_one_workload_is_not_kept(build):
    views = Views([build.cluster("a", 8)])
    demand = build.demand(4)
    but = {"a": replace(views.cluster("a"), barred_because="has a Job of that name")}
    assert reasons(views, demand, but=but) == {"a": "Barred"}
    assert reasons(views, demand) == {"a": ""}
