"""The door to OR-tools: imported when something is to be solved, with settings that repeat.

CP-SAT with a fixed seed and a fixed number of workers gives the same answer each time as long as
its limit is one of work (`max_deterministic_time`), not of the clock.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Final

from fleet.errors import ConfigError

WORK: Final = 20.0
"""Units of work that one decision may take, about seconds; most need a hundredth of one."""

_ATTEMPTS: Final = 3
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
    """The status, and the solver that has the answer.

    Asked again, of a copy and with another seed, where it gave up with its limits hardly touched:
    on a busy machine CP-SAT was seen to return from a model of a hundredth of a second with nothing
    done, and to do so again for the same model. Warns (RuntimeWarning) where that does not help.
    """
    cp = cp_sat()
    for attempt in range(_ATTEMPTS):
        made = _solver(limits, seed=attempt)
        status = made.solve(model.clone() if attempt else model)
        if status in (cp.OPTIMAL, cp.INFEASIBLE) or limits.time_limit_s is not None:
            return status, made
        spent = made.response_proto.deterministic_time
        if spent >= limits.work / 2:
            return status, made
    says = made.response_proto.solution_info or model.validate() or "nothing more"
    warnings.warn(
        f"CP-SAT gave up {_ATTEMPTS} times: {made.status_name(status)} after {spent:g} of "
        f"{limits.work:g} units of work, {made.wall_time:.3f} s; it says {says}",
        RuntimeWarning,
        stacklevel=2,
    )
    return status, made


def _solver(limits: Limits, *, seed: int) -> Any:
    """A CpSolver that repeats itself."""
    made = cp_sat().CpSolver()
    parameters = made.parameters
    parameters.random_seed = seed
    parameters.num_workers = limits.workers
    parameters.interleave_search = limits.workers > 1
    parameters.max_deterministic_time = limits.work
    if limits.time_limit_s is not None:
        parameters.max_time_in_seconds = limits.time_limit_s
    return made


def math_opt() -> Any:
    """The module `ortools.math_opt.python.mathopt`. Raises ConfigError where it is not there."""
    try:
        from ortools.math_opt.python import mathopt
    except ImportError as error:
        raise ConfigError(_MISSING) from error
    return mathopt
