"""What a FleetQuota or LendingPolicy must be in accord with: the other quotas, and namespaces.

Asked before every write, with what is there at that moment, so that no write makes a cycle, a node
above which there is nothing, children that are guaranteed more than their parent, or a namespace
that two quotas count. `policies.quota_checks` judges each object alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.kube.resources import GroupVersionResource
from policies.faults import fault
from policies.quota_tree import children_of, lines_of, specs_of
from policies.schema import row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from fleet.errors import Cause
    from policies.fleet_quota import FleetQuotaSpec
    from policies.kind import Others
    from policies.quota_tree import Key

Object = dict[str, Any]

NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")
QUOTAS: Final = row("fleetquotas")
LENDING_POLICIES: Final = row("lendingpolicies")


def fleet_quota(
    obj: Object, old: Object | None, others: Others, *, now: datetime
) -> Sequence[Cause]:
    """What is wrong with a FleetQuota among the others."""
    name = obj["metadata"]["name"]
    specs = specs_of(
        each
        for each in others(QUOTAS)
        if each["metadata"]["name"] == name or not each["metadata"].get("deletionTimestamp")
    )
    mine = specs_of([obj])[name]
    if old is not None and specs_of([old]).get(name) == mine:
        return ()
    specs[name] = mine
    unread = {_name(each) for each in others(QUOTAS)} - specs.keys()
    causes = list(_parent(name, specs, unread))
    if not causes:
        causes += _guarantees(name, specs)
    causes += _namespaces(name, specs, others)
    return causes


def _parent(
    name: str, specs: Mapping[str, FleetQuotaSpec], unread: Collection[str]
) -> Iterator[Cause]:
    """`unread` are quotas that cannot be read, or are going."""
    parent = specs[name].parent
    if not parent:
        return
    if parent in unread:
        why = f"FleetQuota {parent} cannot be read, or is being deleted: mend or create it first"
        yield fault("spec.parent", why)
        return
    if parent not in specs:
        known = ", ".join(sorted({*specs} - {name})) or "none"
        why = f'no FleetQuota is called "{parent}" (there is {known}); create it first'
        yield fault("spec.parent", why)
        return
    chain, at = [name], parent
    while at and at in specs and at not in chain:
        chain.append(at)
        at = specs[at].parent
    if at == name:
        yield fault("spec.parent", f"a quota cannot be above itself: {' < '.join([*chain, name])}")
    elif at:
        yield fault("spec.parent", f"no root is above {parent}: {at} is not there, or going")
    if specs[parent].namespaces is not None:
        yield fault(
            "spec.parent",
            f"{parent} counts namespaces itself, which a parent cannot; move them to a quota of "
            "their own below it first",
        )


def _guarantees(name: str, specs: Mapping[str, FleetQuotaSpec]) -> Iterator[Cause]:
    """Wherever the write can have raised what children are guaranteed above what their parent is:
    below the node itself, and below the nearest node above it that says something of the key."""
    tree = _Tree(specs)
    where = {key: f"spec.resources[{at}].guaranteed" for at, key in enumerate(tree.lines[name])}
    for key in sorted({key for each in tree.under(name) for key in tree.lines[each]}):
        has = tree.guaranteed(name, key)
        if tree.says(name, key):
            total = tree.below(name, key)
            if total > has:
                why = (
                    f"{_shown(key, has)} is less than what those below it are guaranteed together: "
                    f"{_shown(key, total)} ({', '.join(tree.children[name])})"
                )
                yield fault(where.get(key, "spec.resources"), why)
        at = specs[name].parent
        while at in specs and not tree.says(at, key):
            at = specs[at].parent
        if at not in specs or not has:
            continue
        total = tree.below(at, key)
        if total > tree.guaranteed(at, key):
            why = (
                f"with it, those below {at} are guaranteed {_shown(key, total)} together; {at} "
                f"has {_shown(key, tree.guaranteed(at, key))}"
            )
            yield fault(where.get(key, "spec.parent"), why)


class _Tree:
    """What the nodes are guaranteed, as `fleet.scheduling.quota` counts it."""

    def __init__(self, specs: Mapping[str, FleetQuotaSpec]) -> None:
        self.lines = {name: lines_of(spec) for name, spec in specs.items()}
        self.children: dict[str, list[str]] = {name: [] for name in specs}
        for name in sorted(specs):
            if specs[name].parent in specs:
                self.children[specs[name].parent].append(name)

    def says(self, name: str, key: Key) -> bool:
        """Whether a node's own lines settle what it has of a key: those of the resource do."""
        return any(resource == key[0] for resource, _ in self.lines[name])

    def guaranteed(self, name: str, key: Key) -> int:
        if self.says(name, key):
            line = self.lines[name].get(key)
            return line.guaranteed if line is not None else 0
        return self.below(name, key)

    def below(self, name: str, key: Key) -> int:
        return sum(self.guaranteed(child, key) for child in self.children[name])

    def under(self, name: str) -> list[str]:
        """The node, and all below it."""
        found, todo = list[str](), [name]
        while todo:
            found.append(todo.pop())
            todo += self.children[found[-1]]
        return found


def _namespaces(name: str, specs: Mapping[str, FleetQuotaSpec], others: Others) -> Iterator[Cause]:
    claimed = specs[name].namespaces
    if claimed is None:
        return
    if children := children_of(name, specs):
        why = (
            "only a quota with none below it counts namespaces itself; below this one there is "
            f"{', '.join(children)}"
        )
        yield fault("spec.namespaces", why)
    selector = claimed.compiled()
    rivals = {
        rival: spec.namespaces.compiled()
        for rival, spec in sorted(specs.items())
        if spec.namespaces is not None and rival != name
    }
    for rival in rivals:
        if specs[rival].namespaces == claimed:
            yield fault("spec.namespaces", f"{rival} selects the same ones")
            return
    for namespace in sorted(others(NAMESPACES), key=_name):
        labels = namespace["metadata"].get("labels") or {}
        if not selector.matches(labels):
            continue
        for rival, theirs in rivals.items():
            if theirs.matches(labels):
                why = f"namespace {_name(namespace)} is counted by {rival} already"
                yield fault("spec.namespaces", why)
                return


def quota_in_use(obj: Object, others: Others) -> str:
    """Why a FleetQuota cannot go yet; "" when it can."""
    name = _name(obj)
    if children := children_of(name, specs_of(others(QUOTAS))):
        return (
            f"below it there is {', '.join(children)}; delete that first, or set another "
            "spec.parent there"
        )
    for policy in sorted(others(LENDING_POLICIES), key=_name):
        if name in _named(policy).values():
            return f"LendingPolicy {_name(policy)} names it; change or delete that first"
    return ""


def lending_policy(
    obj: Object, old: Object | None, others: Others, *, now: datetime
) -> Sequence[Cause]:
    """What is wrong with a LendingPolicy among the quotas there are."""
    known = sorted(map(_name, others(QUOTAS)))
    before = set(_named(old).values()) if old is not None else set()
    there = ", ".join(known) or "none"
    return [
        fault(where, f'no FleetQuota is called "{name}" (there is {there}); create it first')
        for where, name in _named(obj).items()
        if name not in known and name not in before
    ]


def _named(policy: Object) -> dict[str, str]:
    """The quotas that a LendingPolicy names, by field."""
    spec = _fields(policy.get("spec"))
    found = {"spec.from.quota": str(_fields(spec.get("from")).get("quota", ""))}
    borrowers = spec.get("to")
    for index, each in enumerate(borrowers if isinstance(borrowers, list) else ()):
        found[f"spec.to[{index}].quota"] = str(_fields(each).get("quota", ""))
    return found


def _fields(value: Any) -> Object:
    """Those of what is stored, in whatever form; none of what has none."""
    return value if isinstance(value, dict) else {}


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _shown(key: Key, amount: int) -> str:
    resource, accelerator = key
    kind = f" of kind {accelerator}" if accelerator else ""
    if resource == "cpu":
        text = f"{amount}m" if amount % 1000 else str(amount // 1000)
    else:
        text = str(amount)
    return f"{text} {resource}{kind}"
