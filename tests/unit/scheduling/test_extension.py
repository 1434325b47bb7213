"""Extensions: found as installed distributions are, named when they fail, the example works."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleet.errors import ConfigError
from fleet.scheduling.extension import FILTERS, PRICES, SCORES, Extension, Extensions, load
from fleet.scheduling.placement import Refusal, place, replace_shards

EXAMPLE = Path(__file__).parents[3] / "examples" / "extension"


def install(site: Path, name: str, points: dict[str, dict[str, str]], module: str = "") -> None:
    """What an installer leaves behind in `site`."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, named in points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in named.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    if module:
        (site / f"{name}.py").write_text(module)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def find_in(site):
    def find(*, group):
        points = []
        for each in metadata.distributions(path=[str(site)]):
            points += each.entry_points.select(group=group)
        return points

    return find


def test_none_is_installed_and_nothing_is_different():
    nothing = Extensions()
    assert nothing.why_not(None, None) == ""
    assert nothing.score(None, None).value == 0
    assert nothing.read_prices().objects == ()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("import gone", "which cannot be made: ModuleNotFoundError: No module named 'gone'"),
        ("", "which cannot be made: AttributeError"),
        ("class It:\n    def __init__(self): raise ValueError('no key')", "ValueError: no key"),
        ("class It: pass", "which lacks the method `why_not`"),
        ("It = 5", "which cannot be made: TypeError"),
    ],
)
def test_one_that_cannot_be_used_is_named(site, module, words):
    install(site, "broken", {FILTERS: {"mine": "broken:It"}}, module or "# nothing")
    with pytest.raises(ConfigError) as caught:
        load(find_in(site))
    assert str(caught.value).startswith(f"{FILTERS} has mine of broken, ")
    assert words in str(caught.value)


def test_all_that_are_wrong_are_named_and_of_one_name_there_is_one(site):
    fine = "class It:\n    def score(self, demand, cluster): return 1\n"
    install(site, "a", {SCORES: {"same": "a:It"}}, fine)
    install(site, "b", {SCORES: {"same": "b:It"}, PRICES: {"p": "b:Gone"}}, fine)
    with pytest.raises(ConfigError) as caught:
        load(find_in(site))
    first, second = str(caught.value).split("; ", 1)
    assert first == f"{SCORES} has same of b, and one of a: uninstall one"
    assert second.startswith(f"{PRICES} has p of b, which cannot be made")


class Raising:
    def why_not(self, demand, cluster):
        raise KeyError("label")

    def score(self, demand, cluster):
        raise KeyError("label")

    def prices(self):
        raise OSError("no route")


class Wrong:
    def why_not(self, demand, cluster):
        return None

    def score(self, demand, cluster):
        return 0.5

    def prices(self):
        return {"offers": [{"cluster": "a", "perHour": "0"}], "currency": "USX"}


def of(made):
    found = (Extension("mine", "dist", made),)
    return Extensions(found, found, found)


def test_a_filter_that_fails_keeps_the_cluster_out():
    assert of(Raising()).why_not(None, None) == (
        "filter mine (dist) failed, so it is not known to allow it: KeyError: 'label'"
    )
    assert "its answer is NoneType, not a text" in of(Wrong()).why_not(None, None)


def test_a_score_that_fails_counts_nothing_and_the_others_count():
    class Two:
        def score(self, demand, cluster):
            return 2

    both = Extensions(scores=(Extension("a", "d", Raising()), Extension("b", "d", Two())))
    scored = both.score(None, None)
    assert scored.value == 2
    assert scored.warnings == ("score a (d) failed and counts nothing: KeyError: 'label'",)
    assert of(Wrong()).score(None, None).warnings[0].endswith("not a whole number")


def test_a_price_source_that_fails_leaves_its_prices_unknown():
    failed = of(Raising()).read_prices()
    assert failed.objects == ()
    assert failed.warnings == ("price source mine (dist) failed: OSError: no route",)
    wrong = of(Wrong()).read_prices()
    assert wrong.objects == ()
    assert "price source mine (dist) says what no PriceBook can" in wrong.warnings[0]
    assert "spec.currency" in wrong.warnings[0]


# -- the example


@pytest.fixture
def example(site):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(site, project["name"], project["entry-points"])
    (site / "house_rules.py").write_text((EXAMPLE / "house_rules.py").read_text())
    return load(find_in(site))


def test_the_example_is_found(example):
    assert [str(each) for each in example.filters] == ["licences (fleet-house-rules)"]
    assert [each.name for each in (*example.scores, *example.prices)] == ["green", "price-list"]


def asking(namespace):
    return SimpleNamespace(workload=SimpleNamespace(namespace=namespace))


def test_the_example_filters_and_scores(example, build):
    east, west = build.cluster("east"), build.cluster("west")
    licensed = SimpleNamespace(labels={"example.com/licence-solver-9": "true"})
    why = "solver-9 is not licensed there (filter licences)"
    assert example.why_not(asking("simulation"), east) == why
    assert example.why_not(asking("simulation"), licensed) == ""
    assert example.why_not(asking("web"), west) == ""
    green = SimpleNamespace(labels={"example.com/grams-per-kwh": "20"})
    assert example.score(asking("web"), green).value > example.score(asking("web"), east).value


def test_the_example_reads_prices(example, tmp_path, monkeypatch):
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"fetched": "2026-11-29T06:00:00Z", "p5": "41.10"}))
    monkeypatch.setenv("HOUSE_PRICES", str(file))
    found = example.read_prices()
    assert found.warnings == ()
    (book,) = found.objects
    assert book["metadata"]["name"] == "price-list"
    assert book["spec"]["offers"][0]["perHour"] == "41.10"
    monkeypatch.setenv("HOUSE_PRICES", str(EXAMPLE / "prices.json"))
    found = example.read_prices()
    assert found.warnings == ()
    assert all("asOf" not in each for each in found.objects[0]["spec"]["offers"])
    assert len(found.objects[0]["spec"]["offers"]) == 2
    assert "HOUSE_PRICES=$PWD/examples/extension/prices.json" in (EXAMPLE / "README.md").read_text()
    monkeypatch.delenv("HOUSE_PRICES")
    found = example.read_prices()
    assert (found.warnings, found.objects[0]["spec"].get("offers", [])) == ((), [])
    monkeypatch.setenv("HOUSE_PRICES", str(file))
    file.unlink()
    assert "FileNotFoundError" in example.read_prices().warnings[0]


# -- in decisions


class Only:
    """Lets work into some clusters."""

    def __init__(self, *names):
        self.names = names

    def why_not(self, demand, cluster):
        self.asked = [*getattr(self, "asked", ()), cluster.name]
        return "" if cluster.name in self.names else "not on Sundays"


class Likes:
    def __init__(self, **scores):
        self.scores = scores

    def score(self, demand, cluster):
        return self.scores.get(cluster.name, 0)


def extensions(*, filter=None, score=None, failed=None):
    found = {
        "filters": (Extension("mine", "dist", filter),) if filter else (),
        "scores": (Extension("mine", "dist", score),) if score else (),
    }
    return Extensions(**found, **({"failed": failed} if failed else {}))


def decided(demand, fleet, with_, **more):
    return place(demand, fleet, generation=1, now_s=0.0, extensions=with_, **more)


def where(decision):
    return [shard.cluster for shard in decision.shards]


def test_a_filter_is_a_verdict_with_its_name_and_is_asked_once(build):
    fleet = [build.cluster(name) for name in "abc"]
    only = Only("c")
    plan = decided(build.demand(4), fleet, extensions(filter=only))
    assert where(plan) == ["c"]
    verdicts = {each.cluster: each for each in plan.verdicts}
    assert (verdicts["a"].verdict, verdicts["a"].reason) == ("Refused", "Filtered")
    assert verdicts["a"].message == "not on Sundays (filter mine)"
    assert only.asked == ["a", "b", "c"]
    refusal = decided(build.demand(4), fleet, extensions(filter=Only()))
    assert isinstance(refusal, Refusal)
    assert {each.reason for each in refusal.verdicts} == {"Filtered"}


def test_what_is_placed_anew_is_filtered_as_well(build):
    fleet = [build.cluster(name, 4) for name in "abc"]
    demand = build.demand(6, {"mode": "Split"})
    plan = decided(demand, fleet, extensions())
    assert where(plan) == ["a", "b"]
    anew = replace_shards(
        plan, ["b"], fleet, generation=2, now_s=0.0, extensions=extensions(filter=Only("c"))
    )
    assert where(anew) == ["a", "c"]


@pytest.mark.parametrize(
    ("offers", "incumbents", "cluster"),
    [
        pytest.param([], [], "c", id="among equals, before the name"),
        pytest.param([("a", "1"), ("b", "1"), ("c", "2")], [], "b", id="not before the price"),
        pytest.param([], ["a"], "a", id="not before where it ran"),
    ],
)
def test_a_score_breaks_ties_and_nothing_else(build, offers, incumbents, cluster):
    fleet = [build.cluster(name) for name in "abc"]
    prices = build.prices(*({"cluster": name, "perHour": price} for name, price in offers))
    plan = decided(
        build.demand(4), fleet, extensions(score=Likes(b=1, c=2)), prices=prices,
        incumbents=incumbents,
    )  # fmt: skip
    assert where(plan) == [cluster]


def test_those_that_fail_are_told_of_and_break_no_decision(build):
    fleet = [build.cluster(name) for name in "ab"]
    said = []
    raising = extensions(filter=Raising(), failed=lambda *what: said.append(what))
    refusal = decided(build.demand(4), fleet, raising)
    assert isinstance(refusal, Refusal)
    assert "failed, so it is not known to allow it" in refusal.verdicts[0].message
    raising = extensions(score=Raising(), failed=lambda *what: said.append(what))
    assert where(decided(build.demand(4), fleet, raising)) == ["a"]
    assert set(said) == {
        ("filter", "mine (dist)", "KeyError: 'label'"),
        ("score", "mine (dist)", "KeyError: 'label'"),
    }


def test_the_example_decides(example, build):
    licensed = {"example.com/licence-solver-9": "true"}
    fleet = [
        replace(build.cluster(name), labels=labels)
        for name, labels in (
            ("a", {}),
            ("b", {**licensed, "example.com/grams-per-kwh": "400"}),
            ("c", {**licensed, "example.com/grams-per-kwh": "20"}),
        )
    ]
    demand = build.demand(4)
    workload = replace(demand.workload, namespace="simulation")
    plan = decided(replace(demand, workload=workload), fleet, example)
    assert where(plan) == ["c"]
    (verdict,) = (each for each in plan.verdicts if each.cluster == "a")
    assert verdict.message == "solver-9 is not licensed there (filter licences)"
