"""The door to OR-tools: imported when something is to be solved, with settings that repeat.

CP-SAT with a fixed seed and a fixed number of workers gives the same answer each time as long as
its limit is one of work (`max_deterministic_time`), not of the clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fleet.errors import ConfigError, InternalError

WORK: Final = 20.0
"""Units of work that one decision may take, about seconds; most need a hundredth of one."""

_MISSING: Final = (
    "the exact reference needs OR-tools, which is not installed: pip install 'fleet-gateway[exact]'"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a solve may take. `time_limit_s` is for people who wait; it does not repeat."""

    work: float = WORK
    time_limit_s: float | None = None
    workers: int = 1


def cp_sat() -> Any:
    """The module `ortools.sat.python.cp_model`. Raises ConfigError where it is not installed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    return cp_model


def solved_with(model: Any, limits: Limits) -> tuple[Any, Any]:
    """The status, and the solver that has the answer. Raises InternalError for a model that CP-SAT
    does not take."""
    cp = cp_sat()
    made = cp.CpSolver()
    parameters = made.parameters
    parameters.random_seed = 0
    parameters.num_workers = limits.workers
    parameters.interleave_search = limits.workers > 1
    parameters.max_deterministic_time = limits.work
    if limits.time_limit_s is not None:
        parameters.max_time_in_seconds = limits.time_limit_s
    status = made.solve(model)
    if status == cp.MODEL_INVALID:
        raise InternalError(f"CP-SAT does not take the model: {model.validate()}")
    return status, made


def hint(model: Any, found: Any) -> None:
    """Begin the next solve of `model` at the solution of an earlier one.

    Variables made since are left open: to ask the solver for their values reads memory that is not
    theirs.
    """
    model.clear_hints()
    solution = found.response_proto.solution
    model.proto.solution_hint.vars.extend(range(len(solution)))
    model.proto.solution_hint.values.extend(solution)


def math_opt() -> Any:
    """The module `ortools.math_opt.python.mathopt`. Raises ConfigError where it is not there."""
    try:
        from ortools.math_opt.python import mathopt
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    return mathopt
