"""What waits, as the planner keeps it between two rounds, and what a round was decided over.

Values, compared by identity wherever that tells: a question of the same revisions is not read
again, and an answer that nothing speaks against is the very same as before, so that nobody writes
it down twice. Next step: `placing` asks and answers.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.dispatch.planning import Answer, Answered, nobody

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.dispatch.planning import Question, Said
    from fleet.scheduling.decisions import Why
    from fleet.scheduling.lending.desk import Desk
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.placer import Item
    from fleet.scheduling.planner import Asked, Decided, Fleet
    from fleet.scheduling.standing import Wish
    from policies.quota_tree import Claims

Object = dict[str, Any]


class Asking(NamedTuple):
    """A workload that waits, ready to be decided about, and what it was read by."""

    question: Question
    asked: Asked
    wish: Wish
    item: Item
    preempted: bool
    fleet: Fleet
    claims: Claims

    def holds(self, question: Question, fleet: Fleet, claims: Claims) -> bool:
        """Whether reading a question again would tell nothing else."""
        mine = self.question
        return (
            self.fleet.policies is fleet.policies
            and self.fleet.priorities is fleet.priorities
            and self.claims is claims
            and "queuedAt" in self.asked.before
            and (
                mine is question
                or (
                    _same(mine.workload, question.workload)
                    and _same(mine.placement, question.placement)
                    and replace(mine, workload={}, placement={})
                    == replace(question, workload={}, placement={})
                )
            )
        )

    @property
    def uid(self) -> str:
        return self.item.uid

    @property
    def waits_as(self) -> tuple[Item, bool, bool]:
        """What the engine is told of it."""
        return self.item, self.preempted, self.asked.running is not None

    def answered(
        self,
        decided: Decided,
        *,
        said: Said | None = None,
        stored: Callable[[], None] = nobody,
    ) -> Answered:
        rules = decided.policy.spec
        answer = Answer(
            spec=decided.spec,
            status=decided.status,
            placed=decided.placed,
            final=decided.final,
            lease_s=rules.failover.tolerate.total_seconds(),
            fencing=rules.failover.fencing,
            offsets=rules.gang.index_mode == "Offset",
            retry_after_s=decided.retry_after_s,
            said=said,
            stored=stored,
        )
        return Answered(self.question, answer)


def _same(before: Object, after: Object) -> bool:
    """Whether it is the same revision of the same object."""
    mine, theirs = before.get("metadata") or {}, after.get("metadata") or {}
    return bool(mine.get("resourceVersion")) and all(
        mine.get(name) == theirs.get(name) for name in ("uid", "resourceVersion")
    )


class Told(NamedTuple):
    """What was answered to one that goes on waiting."""

    asking: Asking
    why: Why
    refusal: Refusal | None
    """Of what waits for a place."""
    answered: Answered

    def says(self, answered: Answered) -> bool:
        """Whether that is the same answer to the very same question."""
        mine = self.answered
        return mine.question is answered.question and mine.answer == answered.answer

    def stands(self, each: Asking, why: Why, refusal: Refusal | None, *, anew: bool) -> bool:
        """Whether it would be told the same again. `anew`: it was decided about since, by other
        rules perhaps; who waits for others has to be told how they stand then."""
        if self.asking.asked is not each.asked:
            return False
        if not anew:
            return True
        return (
            refusal is not None
            and self.refusal is refusal
            and self.why == why
            and why.spared_s is None
            and self.asking.fleet.prices is each.fleet.prices
        )


Rulings = tuple[object, ...]


def rulings(fleet: Fleet, claims: Claims, desk: Desk) -> Rulings:
    """The rules that decisions are made by, for comparing by identity."""
    return fleet.policies, fleet.priorities, fleet.prices, claims, desk.tree, desk.terms


class Round(NamedTuple):
    """What a round was decided over, and whether it left everything as it was."""

    at_rest: bool = False
    rules: Rulings = ()
    changes: int = -1
    """Of the members, see `Rooms.changes`."""
    due_s: float | None = None
    """When the first of those that wait may be answered otherwise by time alone."""

    def under(self, rules: Rulings) -> bool:
        """Whether it was decided by the very same rules."""
        return len(rules) == len(self.rules) and all(map(is_, rules, self.rules))
