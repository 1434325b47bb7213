"""Extensions: found as installed distributions are, named when they fail, the example works."""

from __future__ import annotations

import json
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleet.errors import ConfigError
from fleet.scheduling.extension import FILTERS, PRICES, SCORES, Extension, Extensions, load

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
    assert example.why_not(asking("simulation"), east) == "solver-9 is not licensed there"
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
    file.unlink()
    assert "FileNotFoundError" in example.read_prices().warnings[0]
