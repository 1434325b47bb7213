"""LendingPolicies on their way to the desk, and what the desk decides on its way to dispatch.

`fleet.scheduling.lending` decides; a loan stands at the Placement of the work that has it and is
read from there in each round, so that nothing of it is remembered here. Next step: `placing` puts
both together, `fleet.dispatch` stores what is said here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.dispatch.planning import Evict, OnLoan, Said
from fleet.gateway import queue_metrics as metrics
from fleet.scheduling.lending import record
from fleet.scheduling.lending.loans import Recall, Renew, Return, Settle
from fleet.scheduling.lending.occupancy import Occupancy, User
from fleet.scheduling.lending.terms import closed_terms, terms_of
from fleet.scheduling.requests import is_accelerator
from policies import LENDING_POLICY

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from fleet.gateway.books import Books
    from fleet.gateway.rulebook import Rule
    from fleet.scheduling.lending.classes import Isolation
    from fleet.scheduling.lending.desk import Desk
    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.lending.terms import Terms
    from fleet.store.objects import ObjectStore
    from policies.quota_tree import Claims

Object = dict[str, Any]

Place = tuple[str, str]
"""A Placement, as namespace and name."""


def terms_in(
    rules: Iterable[Rule], *, closed: Container[str] = (), donor_of: Callable[[str], str]
) -> list[Terms]:
    """Those of all LendingPolicies, by name. `closed` are quotas of which nobody knows what they
    are guaranteed: they lend nothing more. `donor_of` says who lends by a policy, as far as
    something is on loan."""
    found = []
    for rule in rules:
        if rule.closed:
            found.append(closed_terms(rule.stored, rule.left, donor=donor_of(rule.name)))
            continue
        (terms,) = terms_of([rule.left])
        if terms.donor in closed:
            terms = replace(terms, renew=False, closed=True)
        found.append(terms)
    return sorted(found, key=lambda terms: terms.name)


def occupancy(
    desk: Desk, books: Books, claims: Claims, there: Mapping[str, tuple[str, Object]]
) -> Occupancy:
    """Who uses which nodes, where any work shares none with others. `there` are the namespaces and
    the Placements' statuses of workloads, by uid."""
    found = Occupancy({}, {})
    if not any(terms.exclusive for terms in desk.terms):
        return found
    classes: dict[str, str] = {}
    works = {name: desk.work_of(quota) for name, quota in claims.quota.items()}
    for uid, (namespace, status) in there.items():
        if work := works.get(namespace, ""):
            classes[uid] = work
        labelled = (status.get("isolation") or {}).get("node") == "Exclusive"
        user = User(uid, works.get(namespace, ""), labelled)
        for member, taken in books.taken_by(uid).items():
            for request, nodes in taken.items():
                if labelled or any(is_accelerator(name) for name, _ in request):
                    found.add(member, nodes, user)
    for member, others in books.others_on().items():
        for node, namespaces in others.items():
            for namespace in namespaces:
                found.add(member, [node], User("", works.get(namespace, ""), labelled=False))
    return Occupancy(classes, found.users)


def kept_apart(status: Object, apart: Isolation | None) -> Object:
    """The status of work that is kept apart from others, or is not."""
    left = {name: value for name, value in status.items() if name != "isolation"}
    if apart is None:
        return left
    told: Object = {"class": apart.work, "node": "Exclusive" if apart.exclusive else "Shared"}
    return {**left, "isolation": told | ({"networkPolicy": True} if apart.walled else {})}


def lent(loan: Loan) -> Said:
    """What work is told that starts on loan."""
    return Said("Normal", "Lent", f"runs on {record.words(loan)}")


def told(decided: Renew | Recall | Return | Settle, place: Place, store: ObjectStore) -> Step:
    """What dispatch has to do about a loan that is out."""
    loan = decided.loan
    match decided:
        case Renew():
            said = Said("Normal", "LoanRenewed", record.words(loan))
            return OnLoan(place, loan.uid, record.written(loan), said, metrics.LOANS_RENEWED.inc)
        case Recall():
            said = Said("Warning", "LoanRecalled", record.ends_words(loan))
            return OnLoan(place, loan.uid, record.written(loan), said, metrics.LOANS_RECALLED.inc)
        case Settle():
            words = f"quota {loan.to} covers what was on loan from {loan.donor}: it goes on"
            if not decided.covered:
                words = (
                    f"no LendingPolicy lends for {loan.donor} any more: it goes on, and what was "
                    "on loan is borrowed without a term, as quotas allow"
                )
            said = Said("Normal", "LoanSettled", words)
            return OnLoan(place, loan.uid, None, said, metrics.LOANS_SETTLED.inc)
        case Return():
            entry = store.get(LENDING_POLICY.resource, "", loan.policy)
            other = record.returned_to(loan, uid=entry.uid if entry is not None else "")
            said = Said("Warning", "LoanReturned", other["why"])
            return Evict(place, loan.uid, other, said, metrics.LOANS_RETURNED.inc)


Step = Evict | OnLoan
