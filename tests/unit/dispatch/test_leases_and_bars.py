"""How long a shard may run unheard, and how long a cluster is kept out of a workload's plans."""

from __future__ import annotations

import pytest

from fleet.dispatch.bars import Bars
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.leases import Leases, ShardKey, deadline_s

KEY = ShardKey("east", "Job", "payments", "train-g1-east")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_shard_not_seen_since_the_start_may_have_been_renewed_until_then(clock):
    leases = Leases(clock)
    clock.now += 100
    assert leases.until(KEY, lease_s=15) == 1000 + 15 + 2


def test_a_deadline_that_was_sent_counts_though_nobody_answered(clock):
    leases = Leases(clock)
    leases.seen(KEY, 3)
    leases.granted(KEY, 15)
    assert leases.until(KEY, lease_s=15) == 1000 + 17


def test_a_lease_only_ever_gets_longer(clock):
    leases = Leases(clock)
    leases.granted(KEY, 60)
    leases.seen(KEY, 5)
    leases.seen(KEY, None)
    assert leases.until(KEY, lease_s=15) == 1062
    leases.forget(KEY)
    assert leases.until(KEY, lease_s=15) == 1017


@pytest.mark.parametrize(
    ("started_at", "member_clock", "expected"),
    [(None, 500.0, 15), (500.0, 500.0, 15), (500.0, 530.5, 46), (500.0, 490.0, 15)],
)
def test_a_deadline_counts_from_the_start_by_the_members_clock(started_at, member_clock, expected):
    job = JobView("u", "1", started_at=started_at)
    assert deadline_s(job, clock=member_clock, seconds=15) == expected


def test_a_bar_falls_after_a_while_that_grows(clock):
    bars = Bars(clock)
    bars.put("u", "west", "why")
    assert bars.of("u") == {"west": "why"}
    assert bars.of("other") == {}
    assert bars.next_s("u") == 30
    clock.now += 30
    assert bars.of("u") == {}
    bars.put("u", "west", "why")
    assert bars.next_s("u") == 60


def test_a_bar_falls_with_news_of_its_cluster_but_not_by_the_workload_itself(clock):
    bars = Bars(clock)
    bars.put("u", "west", "why")
    bars.changed("east")
    bars.changed("west", by="u")
    assert bars.of("u") == {"west": "why"}
    bars.changed("west", by="another")
    assert bars.of("u") == {}
    bars.put("u", "west", "again")
    assert bars.next_s("u") == 60  # what failed before is remembered


def test_a_cluster_that_turned_it_out_is_no_reason_to_end_it_elsewhere(clock):
    bars = Bars(clock)
    bars.put("u", "west", "why")
    clock.now += 10_000
    assert bars.of("u") == {}
    assert bars.lasting("u") == {"west": "why"}
    assert bars.lasting("other") == {}
    bars.changed("west")
    assert bars.lasting("u") == {}
    bars.put("u", "west", "again")
    bars.changed("west")
    assert bars.lasting("u") == {"west": "again"}
    bars.forget("u")
    assert bars.lasting("u") == {}


def test_bars_of_a_workload_go_with_it(clock):
    bars = Bars(clock)
    bars.put("u", "west", "why")
    bars.forget("u")
    assert bars.of("u") == {}
    assert bars.next_s("u") is None
