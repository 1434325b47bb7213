"""What CP-SAT is given: the settings that repeat, and hints that are a solution's."""

from __future__ import annotations

import pytest

from fleet.errors import InternalError
from fleet.scheduling.exact.solver import Limits, cp_sat, hint, solved_with


@pytest.fixture
def puzzle():
    """A model, its variables and the least value of the last of them."""
    model = cp_sat().CpModel()
    pods = [model.new_int_var(0, 3, f"pods {at}") for at in range(4)]
    model.add(sum(pods) == 7)
    most = model.new_int_var(0, 3, "most")
    model.add_max_equality(most, pods)
    model.minimize(most)
    return model, [*pods, most], 2


def test_the_least_is_found(puzzle):
    model, variables, least = puzzle
    status, found = solved_with(model, Limits())
    assert status == cp_sat().OPTIMAL
    assert found.value(variables[-1]) == least


def test_a_limit_that_is_met_is_the_status(puzzle):
    model, _, _ = puzzle
    status, _ = solved_with(model, Limits(work=0.0))
    assert status == cp_sat().UNKNOWN


def test_a_hint_is_of_the_variables_that_were_there(puzzle):
    model, variables, least = puzzle
    _, found = solved_with(model, Limits())
    more = [model.new_int_var(0, 9, f"later {at}") for at in range(50)]
    model.add(sum(more) >= 9)
    for _ in range(2):  # the second takes the place of the first
        hint(model, found)
        given = model.proto.solution_hint
        assert list(given.vars) == list(range(len(variables)))
        assert list(given.values) == [found.value(each) for each in variables]
    status, found = solved_with(model, Limits())
    assert status == cp_sat().OPTIMAL
    assert found.value(variables[-1]) == least


def test_a_model_that_is_none_is_an_error_and_no_limit(puzzle):
    model, variables, _ = puzzle
    model.add_hint(variables[0], -(2**63))
    with pytest.raises(InternalError, match="does not take the model"):
        solved_with(model, Limits())
