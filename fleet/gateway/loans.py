"""What the LendingPolicy objects say of their loans: written from the desk, when they have changed.

A loan stands at the Placement of the work that has it; here they are listed by who lends. Nothing
is read back from here. When is `statuses`' to say.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import NotFound
from fleet.gateway import queue_metrics as metrics
from fleet.gateway.quotas import unit_of
from fleet.gateway.statuses import Statuses
from fleet.scheduling.lending.record import amounts_written, written
from fleet.scheduling.record import with_condition
from fleet.scheduling.requests import quantity_text
from policies import LENDING_POLICY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.scheduling.lending.desk import Account
    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.quota_objects import Wrong

Object = dict[str, Any]

_FLOOR: Final = {
    "Kept": ("True", "{donor} has what it keeps"),
    "CalledBack": ("False", "{donor} needs more than it did; loans were called back for it"),
    "Short": ("False", "{donor} would need more than it can have even if all loans were back"),
}


class Loans(Statuses):
    what = "what is on loan"

    async def write(self) -> None:
        desk = self._placing.desk
        self._measure()
        accounts = desk.accounts()
        rules = self._placing.rulebook.rules(LENDING_POLICY)
        unread = {rule.name: rule.wrong for rule in rules}
        for entry in self._store.collection(LENDING_POLICY.resource).snapshot().entries():
            name = entry.name
            mine = sorted(
                (loan for loan in desk.loans.values() if loan.policy == name),
                key=lambda loan: (loan.since_s, loan.uid),
            )
            its = [each for each in accounts if each.policy == name]
            await self._write(name, mine, its, unread.get(name))

    async def _write(
        self, name: str, loans: list[Loan], accounts: list[Account], wrong: Wrong | None
    ) -> None:
        def change(obj: Object) -> Object | None:
            before: Object = obj.get("status") or {}
            status = self._status(obj, loans, accounts, wrong)
            return None if status == before else {**obj, "status": status}

        try:
            await self._store.rewrite(
                LENDING_POLICY.resource, namespace="", name=name, change=change
            )
        except NotFound:
            return  # deleted meanwhile

    def _status(
        self, obj: Object, loans: list[Loan], accounts: list[Account], wrong: Wrong | None
    ) -> Object:
        before: Object = obj.get("status") or {}
        sums: Counter[Key] = Counter()
        for loan in loans:
            sums.update(loan.amounts)
        status: Object = {
            "loans": [each for loan in loans for each in self._listed(loan)],
            "resources": [account_written(each) for each in accounts],
            "lent": _sum(sums),
            "observedGeneration": int(obj["metadata"].get("generation", 1)),
        }
        if loans:
            ends = min(loan.until_s if loan.ends_s is None else loan.ends_s for loan in loans)
            at = datetime.fromtimestamp(ceil(ends), UTC)
            status["nextEnd"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions: list[Object] = before.get("conditions") or []
        told = (
            self._truths(obj, accounts)
            if wrong is None
            else [("Valid", "False", wrong.reason, wrong.message)]
        )
        for kind, truth, reason, message in told:
            conditions = with_condition(
                conditions, type=kind, status=truth, reason=reason, message=message, now=self._now()
            )
        for each in conditions:
            each["observedGeneration"] = status["observedGeneration"]
        return {**status, "conditions": conditions}

    def _truths(
        self, obj: Object, accounts: list[Account]
    ) -> Iterable[tuple[str, str, str, str]]:  # fmt: skip
        spec, desk = obj["spec"], self._placing.desk
        donor = spec["from"]["quota"]
        named = [donor, *(each["quota"] for each in spec["to"])]
        missing = ", ".join(each for each in named if each not in desk.tree.nodes)
        apart = "" if missing else ", ".join(each for each in named if self._is_apart(each, donor))
        if missing:
            yield "Valid", "False", "NoSuchQuota", f"there is no FleetQuota {missing}"
        elif apart:
            told = f"{apart} and {donor} are in different trees: nothing is lent between them"
            yield "Valid", "False", "OtherTree", told
        elif not any(each.guaranteed for each in accounts):
            told = f"{donor} is guaranteed nothing that it could lend"
            yield "Valid", "False", "NothingGuaranteed", told
        else:
            yield "Valid", "True", "Sound", ""
        terms = next((t for t in desk.terms if t.name == obj["metadata"]["name"]), None)
        if terms is not None:
            stands = desk.standing(terms)
            truth, message = _FLOOR[stands]
            yield "FloorKept", truth, stands, message.format(donor=donor)

    def _is_apart(self, quota: str, donor: str) -> bool:
        tree = self._placing.desk.tree
        return tree.path(quota)[-1].name != tree.path(donor)[-1].name

    def _listed(self, loan: Loan) -> Iterable[Object]:
        told = written(loan)
        run = self._placing.engine.running().get(loan.uid)
        clusters = sorted(run.placed.clusters) if run is not None else []
        for each in amounts_written(loan.amounts):
            found = {
                "to": loan.to,
                "workload": self._placing.path_of(loan.uid),
                "clusters": clusters,
                **each,
            }
            times = ("since", "until", "recalledAt", "endsAt")
            yield found | {name: told[name] for name in times if name in told}

    def _measure(self) -> None:
        desk = self._placing.desk
        for gauge in (metrics.LOANS, metrics.LENT, metrics.KEPT):
            gauge.clear()
        for loan in desk.loans.values():
            recalled = str(loan.recalled).lower()
            metrics.LOANS.labels(loan.policy, loan.donor, loan.to, recalled).inc()
        kept: dict[tuple[str, Key], int] = {}
        for each in desk.accounts():
            labels = (each.donor, each.key.resource, each.key.accelerator)
            metrics.LENT.labels(*labels).set(each.lent / unit_of(each.key))
            kept[each.donor, each.key] = max(kept.get((each.donor, each.key), 0), each.floor)
        for (donor, key), amount in kept.items():
            metrics.KEPT.labels(donor, key.resource, key.accelerator).set(amount / unit_of(key))


def account_written(account: Account) -> Object:
    """What a donor is guaranteed of one resource, keeps, could lend and has lent."""
    key = account.key
    found: Object = {"name": key.resource}
    if key.accelerator:
        found["accelerator"] = key.accelerator
    for name in ("guaranteed", "floor", "lendable", "lent"):
        found[name] = quantity_text(key.resource, getattr(account, name))
    return found


def _sum(amounts: Counter[Key]) -> str:
    """For the column: the kind or resource is named where there are several."""
    parts = []
    for key, amount in sorted(amounts.items()):
        text = quantity_text(key.resource, amount)
        parts.append(f"{text} {key.accelerator or key.resource}" if len(amounts) > 1 else text)
    return ", ".join(parts)
