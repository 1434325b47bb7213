"""Tables of nodes and pods: what they say, and what becomes of it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ConfigError
from fleet.scheduling.nodelevel.filling import filled, played
from fleet.scheduling.nodelevel.machines import Machine, Request
from fleet.scheduling.nodelevel.mix import Mix
from fleet.scheduling.nodelevel.rules import NAMES, BestFit, LeastAllocated, rule_of
from fleet.scheduling.nodelevel.told import WHY, told
from fleet.scheduling.nodelevel.trace import Pod, Trace, is_table, trace_of

NODES = b"sn,cpu_milli,memory_mib,gpu,model\na,8000,64,2,T4\nb,8000,64,1,G2\nc,4000,64,0,\n"
PODS = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1000,1,1,500\ny,1000,1,2,1000\n"


def rows(*pods: str, times: bool = False) -> tuple[str, bytes]:
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec"
    head += ",creation_time,deletion_time" if times else ""
    return "pods.csv", "\n".join([head, *pods]).encode()


def play(*pods: str, until_s: float | None = None, times: bool = False) -> Any:
    trace = trace_of([("nodes.csv", NODES), rows(*pods, times=times)])
    mix = Mix.of(each.request for each in trace.pods)
    return told(played(trace, BestFit(), until_s=until_s), policy="BestFit", mix=mix)


def test_tables_are_known_by_their_columns() -> None:
    assert is_table(NODES)
    assert is_table(b"\xef\xbb\xbf" + PODS)
    assert not is_table(b"name,runs,cpu\n")
    assert not is_table(b"\xff\xfe")


def test_what_a_row_says() -> None:
    trace = trace_of(
        [
            ("nodes.csv", NODES),
            (
                "pods.csv",
                b"name,qos,num_gpu,gpu_milli,cpu_milli,memory_mib,gpu_spec,creation_time,"
                b"deletion_time,scheduled_time\n"
                b"x,LS,1,460,6000,12,T4|G2,10,100,40\ny,BE,2,1000,1,2,,5,,\n\nz,LS,0,0,1,2,T4,,,\n",
            ),
        ]
    )
    assert trace.machines[0] == Machine("a", 8000, 64, (1000, 1000), "T4")
    assert trace.thousandths == 3000
    assert trace.pods == (
        Pod("x", Request(6000, 12, 1, 460, frozenset({"T4", "G2"})), 10, 60),
        Pod("y", Request(1, 2, 2), 5, None),
        Pod("z", Request(1, 2), 0, None),
    )


def test_a_later_table_overrides_by_name() -> None:
    more = b"sn,cpu_milli,memory_mib,gpu,model\na,1,1,8,H\nd,1,1,1,H\n"
    trace = trace_of([("nodes.csv", NODES), ("pods.csv", PODS), ("more.csv", more)])
    assert [(each.name, len(each.left)) for each in trace.machines] == [
        ("a", 8), ("b", 1), ("c", 0), ("d", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        (b"name,cpu_milli\nx,1\n", "pods.csv, line 1: a table of pods has a column memory_mib"),
        (PODS + b"x,1,1,0,0\n", "pods.csv, line 4: x is there twice"),
        (PODS + b"z,1,1,0,0,9\n", "pods.csv, line 4: has more fields than columns"),
        (PODS + b"z,one,1,0,0\n", 'line 4: column cpu_milli: "one" is no whole number'),
        (PODS + b"z,-1,1,0,0\n", 'column cpu_milli: "-1" is no whole number from 0 on'),
        (PODS + b"z,1,1,1,0\n", "column gpu_milli: 0 is not from 1 to 1000"),
        (PODS + b"z,1,1,1,1001\n", "column gpu_milli: 1001 is not from 1 to 1000"),
        (PODS + b",1,1,1,10\n", "column name: must be given"),
        (PODS.splitlines()[0], "no pods: a table of them has the columns name, "),
        (b"name,cpu_milli\n\xff", "pods.csv: is no text in UTF-8"),
        (rows("x,1,1,0,0,,9,3", times=True)[1], "column deletion_time: is before it was there"),
        (rows("x,1,1,0,0,,soon,3", times=True)[1], 'creation_time: "soon" is no time in seconds'),
    ],
)
def test_what_is_wrong_is_said_where_it_is(pods: bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        trace_of([("nodes.csv", NODES), ("pods.csv", pods)])
    assert words in str(caught.value)


def test_without_machines_there_is_nothing_to_play() -> None:
    with pytest.raises(ConfigError, match="no machines: a table of them has the columns sn, "):
        trace_of([("pods.csv", PODS)])


def test_who_finds_no_room_waits_in_the_order_of_arrival() -> None:
    found = play(
        "first,1000,1,2,1000,,0,100",
        "second,1000,1,2,1000,,10,110",
        "third,1000,1,2,1000,,20,120",
        "part,1000,1,1,500,T4,30,40",
        times=True,
    )
    assert found["pods"] == {"arrived": 4, "placed": 4, "waited": 3, "notPlaced": 0}
    # first leaves at 100, second at 200, third at 300, part runs until 310
    assert found["waitSeconds"] == {"mean": (90 + 180 + 270) / 4, "longest": 270}
    assert found["lastedSeconds"] == 310
    assert found["allocated"]["peak"] == round(2 / 3, 6)
    assert found["allocated"]["atEnd"] == 0
    assert found["allocated"]["mean"] == round((300 * 2 + 10 * 0.5) / 310 / 3, 6)


def test_an_end_leaves_what_runs_where_it_is() -> None:
    found = play("x,1,1,2,1000,,5,100", "y,1,1,2,1000,,6,100", until_s=50, times=True)
    assert found["allocated"]["atEnd"] == round(2 / 3, 6)
    assert found["pods"]["notPlaced"] == 1
    assert found["lastedSeconds"] == 50


@pytest.mark.parametrize(
    ("before", "pod", "reason"),
    [
        ([], "x,1,1,1,1000,H100", "NoSuchModel"),
        ([], "x,1,1,3,1000,", "TooLarge"),
        ([], "x,9000,1,0,0,", "TooLarge"),
        (["f,1,1,2,1000,"], "x,1,1,2,1000,", "Full"),
        (["f,1,1,1,300,T4", "g,1,1,1,1000,T4"], "x,1,1,1,800,T4", "Full"),
        (["f,1,1,1,600,T4", "g,1,1,1,600,T4"], "x,1,1,1,500,T4", "InParts"),
        (["f,7500,1,0,0,", "g,7500,1,0,0,"], "x,1000,1,1,1000,", "NoCores"),
        (["f,1,60,0,0,", "g,1,60,0,0,", "h,1,60,0,0,"], "x,1,10,1,1000,", "NoMemory"),
    ],
)
def test_why_a_pod_has_no_place(before: list[str], pod: str, reason: str) -> None:
    (lacking,) = play(*before, pod)["notPlaced"]
    assert (lacking["reason"], lacking["pods"]) == (reason, 1)
    assert lacking["message"] == WHY[reason]


def test_kinds_of_nodes_apart_and_together() -> None:
    found = play("x,1,1,1,500,T4", "y,1,1,1,1000,G2")
    kinds = {each["name"]: each for each in found["nodeKinds"]}
    assert {name: each["allocated"]["atEnd"] for name, each in kinds.items()} == {
        "no GPU": None, "T4 × 2": 0.25, "G2 × 1": 1.0,
    }  # fmt: skip
    assert (found["nodes"], found["gpus"], found["gpusAskedFor"]) == (3, 3, 1.5)
    assert found["allocated"]["atEnd"] == 0.5


def test_best_fit_fills_and_least_allocated_spreads() -> None:
    table = rows(*(f"x{at},1000,1,1,250,," for at in range(4)))
    nodes = b"sn,cpu_milli,memory_mib,gpu,model\na,8000,64,2,T\nb,8000,64,2,T\n"
    trace = trace_of([("nodes.csv", nodes), (table[0], table[1].replace(b",,", b","))])
    left = {
        type(rule): sorted(each.left for each in played(trace, rule).machines)
        for rule in (BestFit(), LeastAllocated())
    }
    assert left == {
        BestFit: [(0, 1000), (1000, 1000)],
        LeastAllocated: [(750, 750), (750, 750)],
    }


@given(
    name=st.sampled_from(NAMES),
    pods=st.lists(
        st.tuples(
            st.integers(0, 4000), st.sampled_from([0, 1, 1, 2]), st.integers(1, 1000),
            st.integers(0, 50), st.integers(0, 50),
        ),
        min_size=1,
        max_size=20,
    ),
    fill=st.booleans(),
)  # fmt: skip
def test_nothing_is_lost_and_equal_inputs_give_equal_answers(
    name: str, pods: list[tuple[int, int, int, int, int]], fill: bool
) -> None:
    trace = Trace(
        tuple(Machine.empty(f"m{at}", cpu=8000, memory=9, devices=at) for at in range(4)),
        tuple(
            Pod(f"p{at}", Request(cpu, 1, n, share if n == 1 else 1000), at_s, runs_s)
            for at, (cpu, n, share, at_s, runs_s) in enumerate(pods)
        ),
    )
    mix = Mix.of(each.request for each in trace.pods)
    fill = fill and any(each.request.taken for each in trace.pods)

    def once() -> Any:
        rule = rule_of(name, mix=mix, chance=random.Random(1))
        if fill:
            found = filled(trace, rule, asked=1.3, chance=random.Random(2))
            assert found.asked >= 1.3 * trace.thousandths
        else:
            found = played(trace, rule)
        used = trace.thousandths - sum(sum(each.left) for each in found.machines)
        assert used == found.total.now == sum(each.now for each in found.use.values())
        assert found.arrived == found.placed + found.turned_away.total()
        if not fill:
            # Whatever fits on an empty machine has run and left.
            assert used == 0
            fits = [p for p in trace.pods if any(m.options(p.request) for m in trace.machines)]
            assert found.placed == len(fits)
        return told(found, policy=name, mix=mix)

    assert once() == once()


def test_a_rule_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="none of FGD, BestFit"):
        rule_of("Best", mix=Mix.of([]), chance=random.Random(0))
