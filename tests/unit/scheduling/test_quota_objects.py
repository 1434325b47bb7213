"""FleetQuota objects into the tree of the accounts, and the accounts into a status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fleet.errors import Invalid
from fleet.scheduling.cost.showback import Spending
from fleet.scheduling.quota.book import Book
from fleet.scheduling.quota.report import Line, lines
from fleet.scheduling.quota.tree import Key, Share
from fleet.scheduling.quota_objects import status_of, tree_of
from policies import FLEET_QUOTA

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
GPU = Key("nvidia.com/gpu", "h200")


def quota(name, parent="", guaranteed=8, **line):
    resources = [
        {"name": GPU.resource, "accelerator": GPU.accelerator, "guaranteed": guaranteed, **line}
    ]
    return {
        "metadata": {"name": name},
        "spec": {
            "parent": parent,
            "resources": resources,
            "failoverReserve": "10%",
            "preemption": {"reclaim": "LowerPriority", "minRunTime": "10m"},
        },
    }


def line(key=GPU, **more):
    amounts = dict.fromkeys(
        ("guaranteed", "used", "borrowed", "lent", "idle", "earmarked", "reserved", "lost",
         "unmanaged", "waiting", "waiting_gangs", "overcommitted"), 0,
    )  # fmt: skip
    return Line(**{"node": "a", "key": key, "depth": 0, "last": True, "limit": None, **amounts,
                   **more})  # fmt: skip


def status(*given, before=None, **more):
    found = status_of(given, now=NOW, before=before, **more)
    FLEET_QUOTA.parse({"metadata": {"name": "a"}, "spec": {}, "status": found})
    return found


def test_objects_become_the_tree_of_the_accounts():
    tree = tree_of([quota("nlp", "research", 4, limit=12, lendable=2), quota("research")])
    assert list(tree.nodes) == ["research", "nlp"]
    node = tree.nodes["nlp"]
    assert node.shares[GPU] == Share(4, 12, 2)
    assert node.reserve == {GPU: 1}
    assert (node.preemption.reclaim, node.preemption.min_run_time_s) == ("LowerPriority", 600)


def test_what_no_write_lets_happen_is_an_error():
    with pytest.raises(Invalid, match="guaranteed below node a"):
        tree_of([quota("a", guaranteed=3), quota("b", "a", guaranteed=4)])


def test_accounts_of_objects_are_written_down():
    book = Book(tree_of([quota("nlp", "research", 4), quota("research")]))
    given = [each for each in lines(book) if each.node == "nlp"]
    found = status(*given)
    assert found["resources"][0]["name"] == "nvidia.com/gpu"
    assert found["summary"]["guaranteed"] == "4"


def test_the_columns_name_kinds_where_there_are_several():
    found = status(
        line(guaranteed=24, limit=40, used=38, borrowed=14),
        line(Key("cpu"), guaranteed=1500, used=500, lent=1000),
        line(Key("memory")),
    )
    assert found["summary"] == {
        "guaranteed": "24 h200, 1500m cpu", "limit": "40 h200, – cpu", "used": "38 h200, 500m cpu",
        "borrowed": "14 h200, – cpu", "lent": "– h200, 1 cpu",
    }  # fmt: skip
    assert [each["name"] for each in found["resources"]] == ["nvidia.com/gpu", "cpu"]


def conditions(found):
    return {each["type"]: (each["status"], each["message"]) for each in found["conditions"]}


def test_more_than_the_limit_is_overcommitted():
    found = status(line(limit=8, used=11, overcommitted=3))
    assert conditions(found)["Overcommitted"] == (
        "True", "3 nvidia.com/gpu (h200) above its limit",
    )  # fmt: skip
    assert conditions(status(line(limit=8, used=8)))["Overcommitted"] == ("False", "")


def test_a_namespace_that_two_quotas_claim_is_told():
    found = status(line(), contested={"n": ["b", "c"]})
    assert conditions(found)["Valid"] == ("False", "namespace n is claimed by b, c as well")


def test_money_by_month_latest_first():
    october = {"month": "2026-10", "currency": "USD", "amount": "9", "forecast": "9"}
    before = {"spent": [{"month": "2026-11", "currency": "USD", "amount": "1"}, october]}
    spending = Spending({"USD": 2_500_000}, {"USD": 500_000}, unpriced=True)
    found = status(line(), spending=spending, before=before)
    assert found["spent"] == [
        {"month": "2026-11", "currency": "USD", "amount": "2.5", "forecast": "3", "unknown": True},
        october,
    ]
    assert found["summary"]["spent"] == "2.5 USD"


def test_written_again_it_is_the_same():
    spending = Spending({"USD": 1}, {})
    once = status(line(limit=8, used=11, overcommitted=3), spending=spending)
    later = status_of(
        [line(limit=8, used=11, overcommitted=3)],
        now=NOW + timedelta(hours=1), spending=spending, before=once,
    )  # fmt: skip
    assert later == once
