"""Single pods on machines with parts of accelerators."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.nodelevel.chooser import Choice, Chooser
from fleet.scheduling.nodelevel.machines import WHOLE, Machine, Request
from fleet.scheduling.nodelevel.mix import Mix
from fleet.scheduling.nodelevel.rules import EQUAL, Fgd

CPU = Request(2000)
HALF = Request(4000, devices=1, share=500)
MOST = Request(1000, devices=1, share=700)
ONE = Request(4000, devices=1)
TWO = Request(8000, devices=2)


def machine(name: str = "m", *left: int, cpu: int = 16000, model: str = "") -> Machine:
    return Machine(name, cpu, 64, left, model)


# -- what is stranded


@pytest.mark.parametrize(
    ("left", "cpu", "stranded"),
    [
        # for HALF nothing, for ONE the part that is left of the second
        ((1000, 600), 16000, {HALF: 0, ONE: 600, TWO: 1600, CPU: 1600}),
        # the machine has no cores for any more of them
        ((1000, 1000), 3000, {HALF: 2000, ONE: 2000, TWO: 2000, CPU: 2000}),
        # too little is left of both for a half
        ((400, 300), 16000, {HALF: 700, MOST: 700, ONE: 700}),
        ((600, 300), 16000, {HALF: 300, MOST: 900}),
        ((0, 0), 16000, {HALF: 0, ONE: 0, CPU: 0}),
        ((), 16000, {HALF: 0, CPU: 0}),
    ],
)
def test_a_device_is_stranded_for_work_that_cannot_use_it(
    left: tuple[int, ...], cpu: int, stranded: dict[Request, int]
) -> None:
    for request, amount in stranded.items():
        assert Mix.of([request]).stranded(cpu, left) == amount
    # over a mix it is the sum, as often as each is asked for
    several = [*stranded] + [next(iter(stranded))] * 2
    expected = sum(stranded[each] for each in several)
    assert Mix.of(several, typical=100).stranded(cpu, left) == expected


def test_rare_kinds_of_work_do_not_count() -> None:
    usual, rare = [ONE] * 99, [HALF]
    assert Mix.of([*usual, *rare]) == Mix.of(usual)
    assert Mix.of([*rare, *usual], typical=100) != Mix.of(usual)


# -- requests


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"cpu": -1}, "less than nothing"),
        ({"cpu": 1, "devices": -1}, "less than nothing"),
        ({"cpu": 1, "devices": 2, "share": 500}, "of one device only"),
        ({"cpu": 1, "devices": 1, "share": 0}, "1 to 1000 thousandths"),
        ({"cpu": 1, "devices": 1, "share": 1001}, "1 to 1000 thousandths"),
    ],
)
def test_a_request_that_nobody_could_mean_is_refused(wrong: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Request(**wrong)


def test_a_request_has_every_device_that_differs_to_choose_from() -> None:
    several = machine("m", 1000, 600, 1000, 400, 600)
    assert several.options(HALF) == [(1,), (0,)]
    assert several.options(ONE) == [(0,)]
    assert several.options(TWO) == [(0, 2)]
    assert several.options(CPU) == [()]
    assert several.options(Request(1, memory=65)) == []
    assert several.options(Request(16001)) == []
    assert several.options(Request(1, devices=3)) == []


def test_a_request_that_names_models_goes_to_no_other() -> None:
    wanted = Request(1, devices=1, models=frozenset({"A", "B"}))
    fleet = [machine("x", 1000, model="C"), machine("y", 1000, model="B"), machine("z", 1000)]
    assert Chooser(fleet, Fgd(Mix.of([wanted]))).choose(wanted) == Choice("y", (0,))


# -- choices


def test_a_part_goes_where_a_part_is_missing_already() -> None:
    fleet = [machine("a", 1000, 1000), machine("b", 500, 1000)]
    chooser = Chooser(fleet, Fgd(Mix.of([HALF, ONE, TWO])))
    assert chooser.choose(HALF) == Choice("b", (0,))


def test_work_without_devices_leaves_cores_to_devices() -> None:
    fleet = [machine("a", 1000, cpu=5000), machine("b", 0, cpu=5000)]
    assert Chooser(fleet, Fgd(Mix.of([ONE]))).choose(CPU) == Choice("b", ())


def test_of_equal_machines_the_fullest_is_taken() -> None:
    fleet = [machine("a", 1000, 1000), machine("b", 1000, 0), machine("c", 1000, 1000)]
    assert Chooser(fleet, Fgd(Mix.of([ONE]))).choose(ONE) == Choice("b", (0,))


def test_what_is_full_takes_nothing() -> None:
    chooser = Chooser([machine("a", 400)], Fgd(Mix.of([HALF])))
    assert chooser.choose(HALF) is None
    assert Chooser([], Fgd(Mix.of([HALF]))).choose(HALF) is None


def test_a_choice_of_an_earlier_time_is_refused() -> None:
    chooser = Chooser([machine("a", 600)], Fgd(Mix.of([HALF])))
    choice = chooser.choose(HALF)
    assert choice is not None
    chooser.take(HALF, choice)
    with pytest.raises(ValueError, match="does not fit on a any more"):
        chooser.take(HALF, choice)


requests = st.sampled_from([CPU, HALF, MOST, ONE, TWO, Request(500, memory=20, devices=1)])
machines = st.lists(
    st.tuples(st.integers(0, 20000), st.integers(0, 64), st.lists(st.sampled_from([0, 400, 1000]))),
    min_size=1,
    max_size=6,
).map(
    lambda told: [
        Machine(f"m{at}", cpu, memory, tuple(left)) for at, (cpu, memory, left) in enumerate(told)
    ]
)


def strands(mix: Mix, machine: Machine, request: Request, devices: tuple[int, ...]) -> int:
    after = mix.stranded(machine.cpu - request.cpu, machine.left_with(request, devices))
    return (after - mix.stranded(machine.cpu, machine.left)) // (EQUAL * mix.weight)


@given(fleet=machines, stream=st.lists(requests, min_size=1, max_size=25), seed=st.integers(0, 9))
def test_every_choice_is_the_best_of_all_machines_whatever_came_and_went(
    fleet: list[Machine], stream: list[Request], seed: int
) -> None:
    mix, chance = Mix.of(stream), random.Random(seed)
    chooser, running = Chooser(fleet, Fgd(mix)), list[tuple[Request, Choice]]()
    names = [each.name for each in fleet]
    for request in stream:
        if running and chance.random() < 0.3:
            chooser.give(*running.pop(chance.randrange(len(running))))
        present = [chooser.machine(name) for name in names]
        possible = [
            strands(mix, each, request, devices)
            for each in present
            for devices in each.options(request)
        ]
        choice = chooser.choose(request)
        if not possible:
            assert choice is None
            continue
        assert choice is not None
        chosen = chooser.machine(choice.machine)
        assert strands(mix, chosen, request, choice.devices) == min(possible)
        chooser.take(request, choice)
        running.append((request, choice))
        assert all(0 <= part <= WHOLE for part in chooser.machine(choice.machine).left)
    for each in running:
        chooser.give(*each)
    assert [chooser.machine(name) for name in names] == fleet


@given(fleet=machines, stream=st.lists(requests, min_size=1, max_size=12), data=st.data())
def test_the_order_in_which_machines_are_told_does_not_matter(
    fleet: list[Machine], stream: list[Request], data: st.DataObject
) -> None:
    def play(told: list[Machine]) -> list[Choice | None]:
        chooser, choices = Chooser(told, Fgd(Mix.of(stream))), list[Choice | None]()
        for request in stream:
            choice = chooser.choose(request)
            choices.append(choice)
            if choice is not None:
                chooser.take(request, choice)
        return choices

    assert play(fleet) == play(data.draw(st.permutations(fleet)))


def test_two_machines_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two machines have one name"):
        Chooser([machine("a"), machine("a")], Fgd(Mix.of([CPU])))
