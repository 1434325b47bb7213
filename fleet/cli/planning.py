"""`fleet plan`: what would be decided about workloads and changed rules, without acting."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli import output
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.cli.client import Client

Object = dict[str, Any]

_EXACT_S = 600.0
_LEVELS = {
    "tier": "tier", "clusters": "clusters", "unpriced": "units without a price",
    "perHour": "price per hour", "blocks": "blocks",
}  # fmt: skip
_READ = (".json", ".yaml", ".yml")
_CLUSTER_SCOPED = frozenset({"FleetQuota", "LendingPolicy", "Namespace", "PriceBook"})


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet plan -f train.yaml -n research\n"
    "  fleet plan -f train.yaml -f smaller-quota.yaml\n"
    "  fleet plan -f new-prices.yaml\n"
    "  kubectl create job crawl --image=crawl --dry-run=client -o yaml | fleet plan -f -"
)
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(path_type=Path, allow_dash=True),
    multiple=True,
    required=True,
    help="Objects as YAML or JSON, or a directory of such files; - reads them from standard input.",
)
@click.option("-n", "--namespace", help="Namespace of objects that name none.")
@click.option(
    "--exact",
    is_flag=True,
    help="Hold each decision against the proven optimum. The gateway needs OR-tools for that: the "
    "extra exact.",
)
@output.option()
@gateway
def plan(
    client: Client, files: tuple[Path, ...], namespace: str | None, exact: bool, form: str
) -> None:
    """Say what would be decided if these objects were applied, and change nothing.

    Jobs and Pods: whether each would start and where, what would be ended for it, why it would
    wait and what would help, or why it would be refused. FleetQuotas, LendingPolicies,
    PlacementPolicies, PriceBooks and Namespaces: the same with them as given, which quotas would be
    above their limit, what work that waits already would wait for then, what would be ended for it,
    and what would be lent and called back.
    Each object is taken as if those before it were there.
    """
    where = namespace or client.access.namespace or "default"
    objects = [each for path in files for file in _inside(path) for each in _objects(file, where)]
    if exact:
        body = {"objects": objects, "exact": True}
        answer = client.post("/fleet/plan", body, timeout_s=_EXACT_S)
    else:
        answer = client.post("/fleet/plan", {"objects": objects})
    if form != "table":
        output.document(answer, form)
        return
    lends = any(each.get("kind") == "LendingPolicy" for each in objects)
    for line in _told(answer, lends=lends):
        click.echo(line)


def _inside(path: Path) -> list[Path]:
    """The files that a directory has, as kubectl takes them: not those of directories in it."""
    from fleet.errors import ConfigError

    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.suffix in _READ)
    if not found:
        raise ConfigError(f"{path} has no file that ends in {', '.join(_READ)}")
    return found


def _objects(file: Path, namespace: str) -> Iterator[Object]:
    import yaml

    from fleet.errors import ConfigError

    named = "standard input" if str(file) == "-" else str(file)
    try:
        if str(file) == "-":
            text = sys.stdin.buffer.read()
        else:
            text = file.read_bytes()
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except OSError as error:
        raise ConfigError(f"{named} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{named} is no YAML: {error}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise ConfigError(f"{named} holds something that is no object")
        for obj in document["items"] if document.get("kind") == "List" else [document]:
            if obj.get("kind") not in _CLUSTER_SCOPED:
                obj = {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}}
            yield obj


def _told(answer: Mapping[str, Any], *, lends: bool) -> Iterator[str]:
    """`lends`: whether it was asked about lending, so that what donors keep is of interest."""
    donors = answer.get("donors", ()) if lends else ()
    for item in answer["items"]:
        yield from _lines(item)
        if "exact" in item:
            yield f"  {_exactly(item['exact'])}"
    if "together" in answer:
        yield from _together(answer["together"])
    for each in answer.get("starts", ()):
        yield f"{each}, which waits: would start"
    for each in answer.get("waits", ()):
        told = f"{each['before']['reason']}), would wait: {each['message']}"
        yield f"{each['workload']}, which waits ({told} ({each['reason']})"
    for each in answer.get("evictions", ()):
        gone = ", ".join(each["evicts"])
        yield f"{each['workload']}, which waits: {gone} would be told to end for it"
    for each in answer.get("loans", ()):
        yield _loan(each)
    for each in donors:
        yield _donor(each)
    for each in answer["overcommitted"]:
        kind = f" ({each['accelerator']})" if each.get("accelerator") else ""
        yield (
            f"quota {each['quota']}: would be {each['by']} {each['name']}{kind} above its limit; "
            "nothing would be ended for that, and nothing more would start"
        )
    acts = any(
        answer.get(each)
        for each in ("items", "overcommitted", "starts", "waits", "evictions", "loans")
    )
    if not (acts or donors):
        yield "Nothing that runs would be touched, and what waits would wait for the same."


def _together(told: Object) -> Iterator[str]:
    yield f"one by one {told['starts']} would start; placed together {told['could']} could:"
    for each in told["workloads"]:
        yield f"  {each['namespace']}/{each['name']}: {_shares(each)}"


def _loan(told: Object) -> str:
    loan = told["loan"]
    amounts = ", ".join(_amount(each, "amount") for each in loan["resources"])
    of = f"{amounts} of {loan['donor']}"
    match told["verdict"]:
        case "Lent":
            return f"{told['workload']}: would start, {of} on loan until {_clock(loan['until'])}"
        case "Recalled":
            ends = _clock(loan["endsAt"])
            return f"{told['workload']}: would be called back ({loan['why']}), and end at {ends}"
        case _:
            return (
                f"{told['workload']}: quota {loan['to']} would cover the {of} that it has on loan"
            )


def _donor(told: Object) -> str:
    guaranteed, floor, most, lent = (
        _amount(told, field) for field in ("guaranteed", "floor", "lendable", "lent")
    )
    kept = f"would keep {floor} of the {guaranteed} that it is guaranteed"
    return f"quota {told['quota']}: {kept}, and lend {most} at most; {lent} would be on loan"


def _amount(told: Object, field: str) -> str:
    kind = f" ({told['accelerator']})" if told.get("accelerator") else ""
    return (
        f"{told[field]} {told['name']}{kind}" if field in ("amount", "guaranteed") else told[field]
    )


def _lines(item: Object) -> Iterator[str]:
    from fleet.scheduling.explain import explained

    name, status = item["name"], (item.get("placement") or {}).get("status") or {}
    evicts = ", ".join(item.get("evicts") or ())
    match item["verdict"]:
        case "Runs":
            yield f"{name}: runs already; fleet explain {item['kind'].lower()}/{name} says where"
        case "Ended" | "Leaves" | "NotPlaced":
            yield f"{name}: {item['message']}; nothing would be decided about it"
        case "Suspended":
            yield f"{name}: would wait: {item['message']}"
        case "Starts":
            yield f"{name}: would start"
            yield from explained(item["placement"], foretold=True)[1:]
        case "Evicts":
            yield f"{name}: would start; {evicts} would be ended for it"
            yield from explained(item["placement"], foretold=True)[1:]
        case "Refused":
            yield f"{name}: would be refused, and be Failed at once. {status.get('message', '')}"
            yield from explained(item["placement"], foretold=True)[2:]
        case _:
            yield f"{name}: would wait. {status.get('message', '')}".rstrip()
            hints = []
            if starts := item.get("startsAt"):
                hints.append(f"at about {_clock(starts)}, if all ends as declared")
            if evicts:
                hints.append(f"if it were the most urgent: {evicts} would be ended for it")
            for at, hint in enumerate(hints):
                yield f"  {'or' if at else 'fits'} {hint}"
            if "placement" in item:
                yield from explained(item["placement"], foretold=True)[2:]
            if later := item.get("later"):
                once = ", ".join(later.get("evicts") or ())
                ended = f" once {once} has ended" if once else ""
                becomes = "be refused" if later["verdict"] == "Refused" else f"start{ended}"
                yield f"  in {later['after']}, if nothing else changes, it would {becomes}:"
                for line in explained(later["placement"], foretold=True)[1:]:
                    yield f"  {line}"


def _exactly(told: Object) -> str:
    """One sentence."""
    level = _LEVELS.get(told.get("level", ""), "")
    match told["verdict"]:
        case "Optimal":
            return "proven: no other place is better"
        case "Worse":
            ours, best = (told[which][told["level"]] for which in ("objective", "optimum"))
            return (
                f"the optimum is {_shares(told)}: {level} {best} instead of {ours}, "
                f"{told['gap']:.1%} less"
            )
        case "Infeasible":
            return "proven: there is no place for it now"
        case "Possible":
            return f"there would be a place, {_shares(told)}, which the search did not find"
        case "Unproven":
            bound = f": {level} is at least {told['bound']}" if "objective" in told else ""
            return f"not proven in the time there was{bound}"
    return f"not held against the optimum: {told['message']}"


def _shares(told: Object) -> str:
    return " + ".join(f"{name} {pods}" for name, pods in sorted(told["clusters"].items()))


def _clock(moment: str) -> str:
    from datetime import datetime

    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")
