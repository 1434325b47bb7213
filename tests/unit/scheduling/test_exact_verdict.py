"""A decision held against the proven optimum: what is said of it, and of what is not compared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import ConfigError
from fleet.scheduling.exact.gang import Infeasible, Objective, Optimum, Unproven
from fleet.scheduling.exact.solver import Limits
from fleet.scheduling.exact.verdict import Verdict, _of_plan, _of_refusal, comparison_of
from fleet.scheduling.placement import Refusal
from fleet.scheduling.planner import Fleet, asked_of
from fleet.scheduling.views import Views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.price import Prices

LIMITS = Limits(work=5.0)


@pytest.fixture
def asked(build: Any) -> Any:
    def ask(pods: int, spec: Any = None, **more: Any) -> Asked:
        policy = build.policy({"workloads": {}, **(spec or {})})
        fleet = Fleet(clusters=(), policies=(policy,))
        return asked_of(build.job(pods), None, fleet, now=build.now, **more)

    return ask


@pytest.fixture
def held(build: Any) -> Any:
    """What is said of a decision made over `clusters`, among others that it may have had."""

    def hold(
        asked: Asked,
        clusters: Iterable[Cluster],
        prices: Prices,
        among: Iterable[Cluster] | None = None,
    ) -> Verdict:
        clusters = list(clusters)
        views = Views(clusters, prices=prices)
        decision = asked.choose(views, Fleet(()).ceilings, now=build.now)
        compared = comparison_of(
            asked, decision, clusters if among is None else among, prices, now=build.now, now_s=0.0
        )
        return compared.verdict(LIMITS)

    return hold


def test_a_decision_is_proven_best(asked: Any, held: Any, build: Any) -> None:
    fleet = [build.cluster("a", [8, 8]), build.cluster("b", 8)]
    found = held(asked(12, {"mode": "Split"}), fleet, build.prices())
    assert found.word == "Optimal"
    assert found.reached == Objective(0, 0, 1, 1, 12, 0, 1, 0)


def test_what_is_better_is_named_with_how_much(asked: Any, held: Any, build: Any) -> None:
    """Decided before the cheaper cluster was there."""
    dear, cheap = build.cluster("a", 8), build.cluster("b", 8)
    offers = [
        {"cluster": name, "billing": "OnDemand", "per": "Accelerator", "perHour": price,
         "asOf": "2026-11-29T12:00:00Z"}
        for name, price in (("a", "4"), ("b", "3"))
    ]  # fmt: skip
    found = held(asked(4), [dear], build.prices(*offers), [dear, cheap])
    assert (found.word, found.level, found.gap) == ("Worse", "micro", 0.25)
    assert found.best is not None
    assert {share.cluster for share in found.best.shares} == {"b"}


def test_that_there_is_no_place_is_proven(asked: Any, held: Any, build: Any) -> None:
    assert held(asked(9), [build.cluster("a", 8)], build.prices()).word == "Infeasible"
    possible = held(asked(9), [build.cluster("a", 8)], build.prices(), [build.cluster("a", 9)])
    assert possible.word == "Possible"


def test_what_keeps_a_cluster_from_the_decision_keeps_it_from_the_optimum(
    asked: Any, held: Any, build: Any
) -> None:
    barred = asked(4, barred={"a": "no"})
    assert held(barred, [build.cluster("a", 8)], build.prices()).word == "Infeasible"


def test_a_later_tier_does_not_count_before_its_time(asked: Any, held: Any, build: Any) -> None:
    tiers = [
        {"selector": {"matchLabels": {"fleet.dev/provider": "cloud"}}},
        {"selector": {"matchLabels": {"fleet.dev/provider": "own"}}, "after": "10m"},
    ]
    later = asked(4, {"clusters": {"tiers": tiers}})
    assert held(later, [build.cluster("a", 8)], build.prices()).word == "Infeasible"


def test_what_the_model_does_not_know_of_is_not_compared(asked: Any, held: Any, build: Any) -> None:
    data = asked(1, {"data": [{"name": "d", "at": ["dc"], "size": "1Gi"}]})
    found = held(data, [build.cluster("a", 8)], build.prices())
    assert (found.word, found.why) == (
        "NotCompared", "what its data costs is not in the exact model"
    )  # fmt: skip
    refusal = Refusal(data.demand, "spent", (), reason="BudgetSpent")
    compared = comparison_of(asked(1), refusal, [], build.prices(), now=build.now, now_s=0.0)
    assert compared.verdict(LIMITS).word == "NotCompared"


OURS = Objective(0, 0, 1, 2, 0, 100, 3, 0)
BETTER = Optimum(Objective(0, 0, 1, 2, 0, 80, 9, 0), ())


@pytest.mark.parametrize(
    ("best", "word", "level", "gap", "bound"),
    [
        (Optimum(OURS, ()), "Optimal", "", 0.0, None),
        (BETTER, "Worse", "micro", 0.2, None),
        (Unproven("micro", 90, None), "Unproven", "micro", 0.1, 90),
        (Unproven("micro", 70, BETTER), "Worse", "micro", 0.2, None),
        (Unproven("micro", 90, Optimum(OURS, ())), "Unproven", "micro", 0.1, 90),
        (Infeasible(), "NotCompared", "", 0.0, None),
    ],
)
def test_what_is_said_of_a_place(
    best: Any, word: str, level: str, gap: float, bound: int | None
) -> None:
    found = _of_plan(best, OURS)
    assert (found.word, found.level, found.bound) == (word, level, bound)
    assert found.gap == pytest.approx(gap)


def test_what_is_said_where_none_was_found() -> None:
    assert _of_refusal(Infeasible()).word == "Infeasible"
    assert _of_refusal(BETTER).word == "Possible"
    assert _of_refusal(Unproven("tier", 0, BETTER)).word == "Possible"
    assert _of_refusal(Unproven("tier", 0, None)).word == "Unproven"


def test_without_or_tools_it_says_what_to_install(
    asked: Any, held: Any, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ConfigError, match=r"pip install 'fleet-gateway\[exact\]'"):
        held(asked(1), [build.cluster("a", 8)], build.prices())
