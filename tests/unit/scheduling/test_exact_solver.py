"""CP-SAT as it was seen to behave: it gives up at once now and then, though it may go on."""

from __future__ import annotations

import pytest

from fleet.scheduling.exact.solver import Limits, cp_sat, solved_with


@pytest.fixture
def gives_up(monkeypatch):
    """`gives_up(n)`: the next `n` solves end before they begin."""
    cp = cp_sat()
    left = [0]

    class Solver(cp.CpSolver):
        def solve(self, model, *args):
            if left[0]:
                left[0] -= 1
                self.parameters.max_deterministic_time = 0.0
            return super().solve(model, *args)

    monkeypatch.setattr(cp, "CpSolver", Solver)

    def times(count):
        left[0] = count

    return times


@pytest.fixture
def puzzle():
    """A model, the variable that is asked for, and its least value."""
    model = cp_sat().CpModel()
    pods = [model.new_int_var(0, 3, f"pods {at}") for at in range(4)]
    model.add(sum(pods) == 7)
    most = model.new_int_var(0, 3, "most")
    model.add_max_equality(most, pods)
    model.minimize(most)
    return model, most, 2


@pytest.mark.parametrize("times", [0, 1, 2])
def test_it_is_asked_again_and_the_answer_is_of_the_variables_of_the_model(gives_up, puzzle, times):
    model, most, least = puzzle
    gives_up(times)
    status, found = solved_with(model, Limits())
    assert status == cp_sat().OPTIMAL
    assert found.value(most) == least


def test_that_it_does_not_begin_at_all_is_told(gives_up, puzzle):
    model, _, _ = puzzle
    gives_up(3)
    with pytest.warns(RuntimeWarning, match=r"gave up 3 times: UNKNOWN after 0 of 20 units"):
        status, _ = solved_with(model, Limits())
    assert status == cp_sat().UNKNOWN


def test_a_limit_that_is_met_is_no_reason_to_ask_again(gives_up, puzzle):
    model, _, _ = puzzle
    gives_up(1)
    status, _ = solved_with(model, Limits(work=0.0))
    assert status == cp_sat().UNKNOWN
