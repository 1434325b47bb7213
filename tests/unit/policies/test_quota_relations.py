"""Quotas among each other: what no write may make, and what may not go."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.quota.tree import Key, Share
from fleet.scheduling.quota.tree import Node as TreeNode
from fleet.scheduling.quota.tree import faults as tree_faults
from policies import FLEET_QUOTA, LENDING_POLICY, PRICE_BOOK
from policies.quota_tree import claims_of, nodes_of

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
GPU = "gpu.io/gpu"


def quota(name, parent="", *, namespaces=None, **guaranteed):
    resources = [
        {"name": GPU, "accelerator": "" if kind == "gpu" else kind, "guaranteed": amount}
        for kind, amount in guaranteed.items()
    ]
    spec = {"parent": parent, "resources": resources}
    if namespaces is not None:
        spec["namespaces"] = {"matchLabels": namespaces}
    return {"metadata": {"name": name}, "spec": spec}


def lending(name, donor, *to):
    return {
        "metadata": {"name": name},
        "spec": {"from": {"quota": donor}, "to": [{"quota": each} for each in to]},
    }


def listing(objects):
    def others(gvr):
        return {
            "fleetquotas": [o for o in objects if "resources" in o["spec"]],
            "lendingpolicies": [o for o in objects if "from" in o["spec"]],
            "namespaces": [o for o in objects if o["spec"] == {}],
        }[gvr.resource]

    return others


def namespace(name, **labels):
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


def faults(new, *there, old=None):
    causes = FLEET_QUOTA.relation(new, old, listing(there), now=NOW)
    return {cause.field: cause.message for cause in causes}


@pytest.mark.parametrize(
    ("new", "there", "field", "message"),
    [
        pytest.param(
            quota("a", "b"), [], "spec.parent",
            'no FleetQuota is called "b" (there is none); create it first', id="unknown parent",
        ),
        pytest.param(
            quota("a", "a"), [quota("a")], "spec.parent", "a quota cannot be above itself: a < a",
            id="its own parent",
        ),
        pytest.param(
            quota("a", "c"), [quota("a"), quota("b", "a"), quota("c", "b")], "spec.parent",
            "a quota cannot be above itself: a < c < b < a", id="cycle",
        ),
        pytest.param(
            quota("a", "b"), [quota("b", namespaces={"x": "y"})], "spec.parent",
            "b counts namespaces itself, which a parent cannot; move them to a quota of their own "
            "below it first", id="below one with namespaces",
        ),
        pytest.param(
            quota("b", namespaces={"x": "y"}), [quota("b"), quota("a", "b")], "spec.namespaces",
            "only a quota with none below it counts namespaces itself; below this one there is a",
            id="namespaces above another",
        ),
        pytest.param(
            quota("a", "root", h200=5), [quota("root", h200=8), quota("b", "root", h200=4)],
            "spec.resources[0].guaranteed",
            "with it, those below root are guaranteed 9 gpu.io/gpu of kind h200 together; root has "
            "8 gpu.io/gpu of kind h200", id="more than the parent",
        ),
        pytest.param(
            quota("root", h200=3), [quota("root", h200=8), quota("b", "root", h200=4)],
            "spec.resources[0].guaranteed",
            "3 gpu.io/gpu of kind h200 is less than what those below it are guaranteed together: "
            "4 gpu.io/gpu of kind h200 (b)", id="less than the children",
        ),
        pytest.param(
            quota("a", "mid", h200=5),
            [quota("root", h200=8), quota("mid", "root"), quota("b", "mid", h200=4)],
            "spec.resources[0].guaranteed",
            "with it, those below root are guaranteed 9 gpu.io/gpu of kind h200 together; root has "
            "8 gpu.io/gpu of kind h200", id="through one that names nothing",
        ),
        pytest.param(
            quota("mid", "root"),
            [quota("root", h200=8), quota("mid"), quota("b", "mid", h200=9)],
            "spec.parent",
            "with it, those below root are guaranteed 9 gpu.io/gpu of kind h200 together; root has "
            "8 gpu.io/gpu of kind h200", id="moved with what is below it",
        ),
        pytest.param(
            quota("a", "root", a100=1), [quota("root", h200=8)], "spec.resources[0].guaranteed",
            "with it, those below root are guaranteed 1 gpu.io/gpu of kind a100 together; root has "
            "0 gpu.io/gpu of kind a100", id="of a kind the parent does not have",
        ),
        pytest.param(
            quota("root", h200=8), [quota("root"), quota("a", "root", a100=1)], "spec.resources",
            "0 gpu.io/gpu of kind a100 is less than what those below it are guaranteed together: "
            "1 gpu.io/gpu of kind a100 (a)", id="a parent that names other kinds only",
        ),
        pytest.param(
            quota("a", "root", h200=5), [quota("root", gpu=8)], "spec.resources[0].guaranteed",
            "with it, those below root are guaranteed 5 gpu.io/gpu of kind h200 together; root has "
            "0 gpu.io/gpu of kind h200", id="a kind that the parent counts among others",
        ),
        pytest.param(
            quota("a", namespaces={"x": "y"}),
            [quota("b", namespaces={"z": "w"}), namespace("n1", x="y"),
             namespace("n2", x="y", z="w")],
            "spec.namespaces", "namespace n2 is counted by b already", id="namespace twice",
        ),
        pytest.param(
            quota("a", namespaces={"x": "y"}), [quota("b", namespaces={"x": "y"})],
            "spec.namespaces", "b selects the same ones", id="namespaces that are yet to come",
        ),
    ],
)  # fmt: skip
def test_what_no_write_may_make(new, there, field, message):
    assert faults(new, *there) == {field: message}


@pytest.mark.parametrize(
    ("new", "there"),
    [
        pytest.param(quota("a"), [], id="a root"),
        pytest.param(quota("a", "root", h200=4),
                     [quota("root", h200=8), quota("b", "root", h200=4)], id="just enough"),
        pytest.param(quota("a", "root", h200=99), [quota("root")], id="below one without lines"),
        pytest.param(quota("a", "root", gpu=8), [quota("root", gpu=8)], id="other kinds"),
        pytest.param(quota("root", h200=4), [quota("root", h200=8), quota("b", "root", h200=4)],
                     id="lowered to what is needed"),
        pytest.param(quota("a", namespaces={"x": "y"}),
                     [quota("b", namespaces={"z": "w"}), namespace("n1", x="y"),
                      namespace("n2", z="w")], id="other namespaces"),
        pytest.param(quota("a", namespaces={"x": "y"}),
                     [quota("a", namespaces={"x": "y"}), namespace("n1", x="y")], id="its own"),
    ],
)  # fmt: skip
def test_what_is_sound(new, there):
    assert faults(new, *there) == {}


def test_a_write_that_leaves_the_spec_alone_is_not_judged():
    wrong = quota("a", "gone")
    assert faults(wrong, wrong, old=wrong) == {}


def test_a_parent_that_goes_is_no_parent_for_another():
    going = quota("root")
    going["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    assert list(faults(quota("a", "root"), going)) == ["spec.parent"]


def test_below_what_goes_nothing_is_put():
    going = quota("root")
    going["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    found = faults(quota("a", "mid", h200=1), going, quota("mid", "root"))
    assert found == {"spec.parent": "no root is above mid: root is not there, or going"}


def in_use(name, *there):
    (obj,) = [each for each in there if each["metadata"]["name"] == name]
    return FLEET_QUOTA.in_use(obj, listing(there))


def test_a_quota_that_something_hangs_on_stays():
    there = [quota("root"), quota("b", "root"), quota("a", "root"), lending("night", "a", "b")]
    assert in_use("root", *there) == (
        "below it there is a, b; delete that first, or set another spec.parent there"
    )
    assert in_use("a", *there) == "LendingPolicy night names it; change or delete that first"
    assert in_use("b", *there).startswith("LendingPolicy night")
    assert in_use("a", quota("a")) == ""


def test_a_lending_policy_names_quotas_that_are_there():
    there = [quota("a"), quota("b")]
    new = lending("night", "a", "b", "c")

    def judge(old=None):
        causes = LENDING_POLICY.relation(new, old, listing(there), now=NOW)
        return {cause.field: cause.message for cause in causes}

    assert judge() == {
        "spec.to[1].quota": 'no FleetQuota is called "c" (there is a, b); create it first'
    }
    assert judge(old=new) == {}


# -- the property the checks are for


@st.composite
def writes(draw):
    """Few names and kinds, so that writes meet."""
    names = st.sampled_from("abcd")
    amounts = st.dictionaries(
        st.sampled_from(["gpu", "h200", "a100"]), st.integers(0, 4), max_size=2
    )
    each = st.builds(lambda n, p, g: quota(n, p, **g), names, st.just("") | names, amounts)
    return draw(st.lists(each, min_size=3, max_size=9))


@given(writes())
def test_whatever_is_written_the_tree_stays_sound(objects):
    there = {}
    for obj in objects:
        name = obj["metadata"]["name"]
        if not faults(obj, *there.values(), old=there.get(name)):
            there[name] = obj
    nodes = nodes_of(there.values())
    assert {node.name for node in nodes} == set(there), "every one is below a root"
    assert not tree_faults(as_node(node) for node in nodes)


def as_node(node):
    """As the accounts take it."""
    return TreeNode(
        name=node.name,
        parent=node.parent,
        shares={Key(*key): Share(*astuple(line)) for key, line in node.lines.items()},
    )


# -- ages of prices


def book(*offers, max_age="24h"):
    return {
        "metadata": {"name": "current"},
        "spec": {"currency": "USD", "maxAge": max_age, "offers": [*offers]},
    }


def offer(age_h, per_hour="1"):
    as_of = (NOW - timedelta(hours=age_h)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"cluster": "a", "perHour": per_hour, "asOf": as_of}


def ages(new, old=None):
    causes = PRICE_BOOK.relation(new, old, lambda gvr: (), now=NOW)
    return {cause.field: cause.message for cause in causes}


def test_a_price_that_is_stale_when_written_is_refused():
    assert ages(book(offer(24))) == {}
    assert ages(book(offer(1), offer(30))) == {
        "spec.offers[1].asOf": "the price is 30h old, and one older than 24h (spec.maxAge) counts "
        "as unknown; ask for it anew"
    }
    assert ages(book({"cluster": "a", "perHour": "1"})) == {}, "as in a contract"


def test_a_price_from_the_future_would_never_grow_old():
    assert ages(book(offer(-1))) == {
        "spec.offers[0].asOf": "lies in the future: such a price would not grow old"
    }


def test_what_grew_old_in_the_book_does_not_stop_its_mending():
    old = book(offer(30), offer(40, "2"))
    assert ages(book(offer(0), offer(40, "2")), old) == {}
    assert list(ages(book(offer(30, "9"), offer(40, "2")), old)) == ["spec.offers[0].asOf"]
    assert len(ages(book(offer(30), offer(40, "2"), max_age="1h"), old)) == 2


UNREADABLE = {
    "unknown field": {"resources": [], "colour": "red"},
    "selector": {"resources": [], "namespaces": {"matchLabels": {"a b": "c"}}},
    "no spec": "resources",
}


@pytest.mark.parametrize("spec", UNREADABLE.values(), ids=UNREADABLE)
def test_a_neighbour_that_cannot_be_read_stops_no_write(spec):
    broken = {"metadata": {"name": "broken"}, "spec": spec}
    there = [broken, quota("a", gpu=4), namespace("n", team="a")]
    assert faults(quota("b", "a", namespaces={"team": "a"}, gpu=2), *there) == {}
    assert FLEET_QUOTA.in_use(quota("b"), listing(there)) == ""
    assert claims_of([broken, quota("a", namespaces={"team": "a"})], [there[2]]).quota == {"n": "a"}
    below = faults(quota("b", "broken"), *there)["spec.parent"]
    assert below.startswith("FleetQuota broken cannot be read")
    assert faults(quota("broken", gpu=1), *there, old=broken) == {}, "it can be mended"


@pytest.mark.parametrize("spec", [{"from": "a", "to": "b"}, {"from": {}, "to": ["b"]}])
def test_a_lending_policy_that_cannot_be_read_keeps_no_quota(spec):
    broken = {"metadata": {"name": "night"}, "spec": spec}
    assert FLEET_QUOTA.in_use(quota("a"), listing([broken])) == ""
    mended = lending("night", "a", "b")
    assert not LENDING_POLICY.relation(
        mended, broken, listing([quota("a"), quota("b"), broken]), now=NOW
    )
