"""What is wrong within one FleetQuota or LendingPolicy: parts that contradict each other.

What only its neighbours can show to be wrong is judged by `policies.quota_tree`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from fleet.kube.names import label_key_problems, label_value_problems
from policies.checks import NOTHING_TO_SPEND, selector_faults
from policies.faults import fault
from policies.fleet_quota import smallest
from policies.scalars import MOST, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleet.errors import Cause
    from policies.fleet_quota import FleetQuota, Line
    from policies.lending_policy import LendingPolicy

_NOTHING: Final = timedelta()


def fleet_quota(new: FleetQuota, old: FleetQuota | None) -> Sequence[Cause]:
    return tuple(_fleet_quota(new))


def _fleet_quota(new: FleetQuota) -> Iterator[Cause]:
    spec = new.spec
    if spec.namespaces is not None:
        yield from selector_faults(spec.namespaces, "spec.namespaces")
    seen: set[tuple[str, str]] = set()
    for index, line in enumerate(spec.resources):
        where = f"spec.resources[{index}]"
        yield from _line(line, where)
        key = (line.name, line.accelerator)
        if key in seen:
            what = f"{line.name} of {line.accelerator}" if line.accelerator else line.name
            yield fault(where, f"an earlier line is for {what}; write both as one")
        seen.add(key)
    if spec.budget is not None and not spec.budget.per_month.micro:
        yield fault("spec.budget.perMonth", NOTHING_TO_SPEND)


def _line(line: Line, where: str) -> Iterator[Cause]:
    if not line.name:
        yield fault(f"{where}.name", "may not be empty, write e.g. nvidia.com/gpu")
    else:
        for problem in label_key_problems(line.name):
            yield fault(f"{where}.name", f'"{line.name}" names no resource: {problem}')
    for problem in label_value_problems(line.accelerator):
        yield fault(f"{where}.accelerator", f'"{line.accelerator}" names no kind: {problem}')
    amounts = {
        "guaranteed": line.guaranteed, "limit": line.limit, "lendable": line.lendable,
    }  # fmt: skip
    for field, quantity in amounts.items():
        if quantity is None:
            continue
        if line.name == "cpu":
            if quantity.nano % 10**6:
                yield fault(f"{where}.{field}", f"{quantity} is no whole number of thousandths")
            elif quantity.milli_value >= MOST:
                yield fault(
                    f"{where}.{field}",
                    f"{quantity} is more than can be counted: in thousandths it must be below "
                    "2^63 - 1",
                )
        elif not quantity.is_whole:
            yield fault(
                f"{where}.{field}", f"{quantity} is no whole number; of {line.name} only whole "
                "ones are counted",
            )  # fmt: skip
    guaranteed = smallest(line.name, line.guaranteed)
    if line.limit is not None and smallest(line.name, line.limit) < guaranteed:
        yield fault(f"{where}.limit", f"{line.limit} is less than the {line.guaranteed} guaranteed")
    if line.lendable is not None and smallest(line.name, line.lendable) > guaranteed:
        yield fault(
            f"{where}.lendable",
            f"{line.lendable} is more than the {line.guaranteed} guaranteed: only what is "
            "guaranteed can be lent",
        )


def lending_policy(new: LendingPolicy, old: LendingPolicy | None) -> Sequence[Cause]:
    return tuple(_lending_policy(new))


def _lending_policy(new: LendingPolicy) -> Iterator[Cause]:
    spec = new.spec
    if not spec.from_.quota:
        yield fault("spec.from.quota", "may not be empty")
    if not spec.to:
        yield fault("spec.to", "may not be empty: name the quotas that may borrow")
    expected: set[tuple[str, str]] = set()
    for index, each in enumerate(spec.from_.expects):
        where, key = f"spec.from.expects[{index}]", (each.name, each.accelerator)
        if not each.name:
            yield fault(f"{where}.name", "may not be empty")
        elif key in expected:
            yield fault(where, f'"{" ".join(filter(None, key))}" is there twice')
        expected.add(key)
    seen: set[str] = set()
    for index, borrower in enumerate(spec.to):
        where = f"spec.to[{index}].quota"
        if not borrower.quota:
            yield fault(where, "may not be empty")
        elif borrower.quota == spec.from_.quota:
            yield fault(where, f'"{borrower.quota}" is the donor itself')
        elif borrower.quota in seen:
            yield fault(where, f'"{borrower.quota}" is there twice')
        seen.add(borrower.quota)
    term = spec.term
    if term.max <= _NOTHING:
        yield fault("spec.term.max", "must be longer than nothing")
    elif term.notice >= term.max:
        yield fault(
            "spec.term.notice",
            f"{duration_text(term.notice)} is no shorter than the term of "
            f"{duration_text(term.max)}: work would be called back as it starts",
        )
    if len(set(spec.recall_order)) < len(spec.recall_order):
        yield fault("spec.recallOrder", "names a step twice")
