"""Programs that bound a batch: one with all gangs whole, and one in which small ones may be parts.

Both take the same constraints (`batch` states them) and say what no solution is better than.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Any, Final

from fleet.scheduling.exact.solver import Limits, cp_sat, math_opt, solved_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LARGEST: Final = 35
"""Gangs that a relaxed program has whole at first,"""
_MORE: Final = 8
"""and how many of those that it divided it has whole the next time."""
_NODES: Final = 100
"""Of branch and bound, for each unit of work."""
_TOLERANCE: Final = 1e-6
"""What a floating-point solver takes for feasible and for whole."""


class Whole:
    """CP-SAT: all variables are whole, all arithmetic is exact."""

    def __init__(self) -> None:
        self._cp = cp_sat()
        self._m = self._cp.CpModel()

    def begin(self, gang: int) -> None:
        """What is made next is of that gang."""

    def new_bool_var(self, name: str) -> Any:
        return self._m.new_bool_var(name)

    def new_int_var(self, least: int, most: int, name: str) -> Any:
        return self._m.new_int_var(least, most, name)

    def add(self, constraint: Any) -> None:
        self._m.add(constraint)

    def bound(self, terms: list[tuple[int, Any, int]], *, most: bool, limits: Limits) -> int:
        """What the sum of (factor, variable, its largest value) cannot be better than."""
        self._m.clear_objective()
        expression = sum(factor * var for factor, var, _ in terms)
        if most:
            self._m.maximize(expression)
        else:
            self._m.minimize(expression)
        status, solved = solved_with(self._m, limits)
        if status == self._cp.INFEASIBLE:
            raise AssertionError("a placement that was made is impossible")
        # Bounds are of integers: the next one that could be reached.
        found: float = solved.best_objective_bound
        return floor(found + 1e-6) if most else ceil(found - 1e-6)


class Relaxed:
    """HiGHS: whole is only which clusters and networks some gangs use, and who of these is
    admitted; all else may be fractions.

    Its solutions include those of `Whole`, so no placement is better than the best of them. It
    proves more than CP-SAT where the smaller gangs fill whatever room the larger ones leave: then
    it is the larger ones that have to be gone through, and few are enough. Where all has been gone
    through and gangs were divided that are not whole yet, the largest of these are made whole too.

    It computes in floating point. A solution may be off by `_TOLERANCE` in each variable, so what
    it says is made worse by what all of these could add: that much of the largest sum there is.
    """

    def __init__(self, sizes: Sequence[int], *, whole: int = _LARGEST) -> None:
        """`sizes` of the gangs."""
        self._opt = math_opt()
        self._m = self._opt.Model()
        self._by_size = sorted(range(len(sizes)), key=lambda at: (-sizes[at], at))
        self._whole = set(self._by_size[:whole])
        self._of: list[list[Any]] = [[] for _ in sizes]
        """What of each gang is whole if it is."""
        self._gang = 0

    def begin(self, gang: int) -> None:
        self._gang = gang

    def new_bool_var(self, name: str) -> Any:
        del name
        made = self._m.add_variable(lb=0, ub=1, is_integer=self._gang in self._whole)
        self._of[self._gang].append(made)
        return made

    def new_int_var(self, least: int, most: int, name: str) -> Any:
        del name
        return self._m.add_variable(lb=least, ub=most)

    def add(self, constraint: Any) -> None:
        if constraint is not True:
            self._m.add_linear_constraint(constraint)

    def bound(self, terms: list[tuple[int, Any, int]], *, most: bool, limits: Limits) -> int | None:
        """The same; None where the solver has nothing to say."""
        scale = max((abs(factor) for factor, _, _ in terms), default=1)
        expression = self._opt.fast_sum([factor / scale * var for factor, var, _ in terms])
        if most:
            self._m.maximize(expression)
        else:
            self._m.minimize(expression)
        off = _TOLERANCE * sum(abs(factor) * largest for factor, _, largest in terms)
        nodes, best = max(1, round(limits.work * _NODES)), None
        while nodes > 0:
            solved = self._solved(nodes, limits)
            found: float = solved.termination.objective_bounds.dual_bound
            if not isfinite(found) or solved.termination.reason not in (
                self._opt.TerminationReason.OPTIMAL,
                self._opt.TerminationReason.FEASIBLE,
                self._opt.TerminationReason.NO_SOLUTION_FOUND,
            ):
                break
            mine = floor(found * scale + off) if most else ceil(found * scale - off)
            if best is None:
                best = mine
            best = min(best, mine) if most else max(best, mine)
            nodes -= max(1, solved.solve_stats.node_count)
            if solved.termination.reason != self._opt.TerminationReason.OPTIMAL:
                break
            if not self._make_whole(solved.variable_values()):
                break
        return best

    def _solved(self, nodes: int, limits: Limits) -> Any:
        asked = self._opt.SolveParameters(
            # What counts is the bound; looking for solutions took minutes.
            heuristics=self._opt.Emphasis.OFF,
            node_limit=nodes,
            time_limit=None
            if limits.time_limit_s is None
            else timedelta(seconds=limits.time_limit_s),
        )
        return self._opt.solve(self._m, self._opt.SolverType.HIGHS, params=asked)

    def _make_whole(self, values: Mapping[Any, float]) -> bool:
        """Whether any was divided."""
        divided = [
            at
            for at in self._by_size
            if at not in self._whole
            and any(abs(values[each] - round(values[each])) > _TOLERANCE for each in self._of[at])
        ]
        for at in divided[:_MORE]:
            self._whole.add(at)
            for each in self._of[at]:
                each.integer = True
        return bool(divided)
