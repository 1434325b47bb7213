"""`fleet join`, `leave` and `members`: which clusters are in the fleet."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fleet.cli import output
from fleet.cli.program import pasteable
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fleet.cli.client import Client

JOIN_S = 60.0
_WIDTH = 92
CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"
_PLACEMENTS = "/apis/fleet.dev/v1alpha1/placements"
_THERE = frozenset({"Holding", "Held", "Committed", "Running"})
"""States of a shard that has pods in its cluster."""
_BEGUN = frozenset({"Committed", "Running"})
"""Those of a Pod that is lost with its cluster; one that was only held goes elsewhere."""
_LISTED = 10
_CREDENTIALS = (
    "client-certificate-data",
    "client-certificate",
    "token",
    "tokenFile",
    "exec",
    "auth-provider",
    "username",
)


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet join ~/.kube/config --name east\n"
    "  fleet join clouds.yaml --from-context prod-eu --name cloud-c\n"
    "  fleet join renewed.yaml --name east --replace"
)
@click.argument("file", metavar="KUBECONFIG", type=click.Path(path_type=Path))
@click.option("--name", help="The member's name: a DNS label (default: the context's name).")
@click.option(
    "--from-context", metavar="CONTEXT", help="Context in KUBECONFIG (default: its current one)."
)
@click.option("--replace", is_flag=True, help="Change how the member of this name is reached.")
@output.option()
@gateway
def join(
    client: Client,
    file: Path,
    name: str | None,
    from_context: str | None,
    replace: bool,
    form: str,
) -> None:
    """Take the cluster that KUBECONFIG leads to into the fleet.

    The cluster is checked first: nothing is changed, here or there, unless it can be reached, its
    credentials are good, and it is not in the fleet already. Certificates and keys that KUBECONFIG
    names as files are sent along; the gateway keeps them where only its owner can read them.
    """
    import yaml

    from adapters.kubernetes import flatten
    from fleet.errors import ConfigError

    if not file.exists():
        raise ConfigError(
            f"{file}: there is no such file\n  KUBECONFIG is the file that leads to the cluster to "
            "take in, an administrator's; nothing was changed"
        )
    kubeconfig = flatten(file, context=from_context).decode()
    told = yaml.safe_load(kubeconfig)
    _check_credentials(file, told)
    if name is None:
        name = str(told["current-context"])
    answer = client.post(
        "/fleet/join",
        {"name": name, "kubeconfig": kubeconfig, "replace": replace},
        timeout_s=JOIN_S,
    )
    if form != "table":
        output.document(answer, form)
        return
    how = "is reached by the new kubeconfig" if replace else "joined"
    click.echo(f"{answer['name']} {how} ({answer['version']}, kube-system UID {answer['uid']})")
    if not replace:
        click.echo(f"Try:  kubectl get pods -A -l fleet.dev/cluster={answer['name']}")


def _check_credentials(file: Path, kubeconfig: dict[str, Any]) -> None:
    """Raises ConfigError for a user that has nothing to be let in by.

    Behind plain HTTP there may be a proxy that adds what is missing; a cluster of its own would
    take the fleet for anonymous, and say what that may not do rather than what is wrong.
    """
    from fleet.errors import ConfigError

    server = str(kubeconfig["clusters"][0]["cluster"].get("server", ""))
    user = kubeconfig["users"][0]["user"] or {}
    if server.startswith("https") and not any(user.get(key) for key in _CREDENTIALS):
        context = kubeconfig["current-context"]
        raise ConfigError(
            f"{file}: the user of context {context!r} has no credentials: no client certificate, "
            "token, exec plugin or password\n  Join with the kubeconfig of an administrator; "
            "nothing was changed"
        )


@click.command(
    epilog="What joining and placing left in a cluster stays there, labelled "
    "app.kubernetes.io/managed-by=fleet; the command says how to remove it, and how to set again "
    "what was said of the cluster, should it come back.\n\n"
    "\b\nExamples:\n  fleet leave east\n  fleet leave east west\n  fleet leave east --dry-run"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would stay, and how to remove it.")
@gateway
def leave(client: Client, names: tuple[str, ...], dry_run: bool) -> None:
    """Let clusters go. The gateway forgets their credentials; nothing in them is touched.

    Parts of the fleet's Jobs run there until their lease is over, and are placed anew. Its Pods
    have no lease: they run on there, out of its sight. To see which, use --dry-run.
    """
    left: dict[str, dict[str, Any]] = {}
    parts: dict[str, _Parts | None] = {}
    try:
        for name in names:
            known = _known(client, name, must=dry_run)
            there = _parts(client, name)
            if not dry_run:
                client.post("/fleet/leave", {"name": name}, timeout_s=JOIN_S)
            click.echo(f"{name} would leave" if dry_run else f"{name} left")
            left[name] = known
            parts[name] = there
    finally:
        if left:
            click.echo(_left_behind(left, parts), err=not dry_run)


def _known(client: Client, name: str, *, must: bool) -> dict[str, Any]:
    """The Cluster object of a member: it goes with it. Empty where there is none, unless there
    `must` be one."""
    from fleet.errors import ApiError

    try:
        found = client.get(f"{CLUSTERS}/{name}")
    except ApiError:
        if must:
            raise
        return {}
    return found if isinstance(found, dict) else {}


class _Parts(NamedTuple):
    """What of the fleet's workloads runs in a member: what has a lease, and what has none."""

    leased: list[str]
    kept: list[str]


def _parts(client: Client, name: str) -> _Parts | None:
    from fleet.errors import ApiError

    try:
        placements = client.get(_PLACEMENTS)["items"]
    except ApiError:
        return None  # not everybody may see what others have
    found = _Parts([], [])
    for placement in placements:
        status, workload = placement.get("status") or {}, placement["spec"]["workload"]
        is_pod = workload.get("kind") == "Pod"
        there = [
            sum(role.get("count", 0) for role in shard.get("roles") or ())
            for shard in status.get("shards") or ()
            if shard.get("cluster") == name and shard.get("state") in (_BEGUN if is_pod else _THERE)
        ]
        if not there:
            continue
        called = f"{str(workload.get('kind', '')).lower()}/{workload.get('name', '')}"
        where = f"{called} in {placement['metadata']['namespace']}"
        if is_pod:
            found.kept.append(f"{where}: in {name}")
            continue
        pods = f"{sum(there)} pod{'' if sum(there) == 1 else 's'}"
        told = f"{where}: {pods} in {name}, lease {status.get('lease', '5m')}"
        fencing = status.get("fencing", "Controller")
        if fencing != "Controller":
            told += f"; fencing {fencing}: it waits until it was seen gone"
        found.leased.append(told)
    return found


def _ending(parts: Mapping[str, _Parts | None]) -> list[str]:
    """What is said of the fleet's workloads in clusters that leave."""
    known = [each for each in parts.values() if each is not None]
    leased = sorted(part for each in known for part in each.leased)
    kept = sorted(part for each in known for part in each.kept)
    lines = []
    if leased or len(known) < len(parts):
        end = ":" if leased else "."
        lines.append(f"Parts of the fleet's Jobs end with their lease, and are placed anew{end}")
        lines += _listed(leased)
    if kept:
        lines.append("Pods of the fleet run on, out of its sight until the cluster joins again:")
        lines += _listed(kept)
    return lines


def _listed(parts: Sequence[str]) -> list[str]:
    lines = [f"  {part}" for part in parts[:_LISTED]]
    return [*lines, f"  and {len(parts) - _LISTED} more"] if len(parts) > _LISTED else lines


def _left_behind(left: Mapping[str, Mapping[str, Any]], parts: Mapping[str, _Parts | None]) -> str:
    """What stays in clusters that left, how to remove it, and what the fleet forgets of them."""
    from fleet.dispatch.remains import commands

    where = next(iter(left)) if len(left) == 1 else "each of them"
    lines = [
        f"Nothing in {where} is touched; what is its own goes on.",
        *_ending(parts),
        "What the fleet made there stays. To remove it, put for FILE",
        f"the kubeconfig of {where}, never that of the gateway, which leads to all members:",
    ]
    for name, known in left.items():
        uid = (known.get("status") or {}).get("uid")
        if uid:
            lines += _pasteable(
                "kubectl --kubeconfig FILE get namespace kube-system -o jsonpath={.metadata.uid}"
                f"  # says {uid} if FILE leads to {name}"
            )
    for command in commands("FILE"):
        lines += _pasteable(command)
    told = [line for name, known in left.items() for line in _saying(name, known)]
    if told:
        lines.append("What was said of the cluster goes with it; to say it again after a new join:")
    lines += [f"  {line}" for line in told]
    return "\n".join(lines)


def _pasteable(command: str) -> list[str]:
    """A command without quotes in lines that are not too long, after what it is for."""
    words, _, why = command.partition("  # ")
    first, *more = textwrap.wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = [f"  {first}", *(f"    {line}" for line in more)]
    ended = [*(f"{line} \\" for line in lines[:-1]), lines[-1]]
    return [f"  # {why}", *ended] if why else ended


def _said(known: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody said in the spec of a Cluster object: what is not as it is by itself."""
    from policies import CLUSTER

    plain: dict[str, Any] = {"spec": {}}
    CLUSTER.rules.default(plain)
    spec = known.get("spec") or {}
    return {key: value for key, value in spec.items() if plain["spec"].get(key) != value}


def _saying(name: str, known: Mapping[str, Any]) -> Iterator[str]:
    """The commands that give a member's Cluster object what it had, at the gateway."""
    import json
    import shlex

    metadata = known.get("metadata") or {}
    labels = [f"{key}={value}" for key, value in (metadata.get("labels") or {}).items()]
    if labels:
        yield shlex.join(["kubectl", "label", "cluster", name, *labels])
    notes = [f"{key}={value}" for key, value in (metadata.get("annotations") or {}).items()]
    notes = [each for each in notes if not each.startswith("kubectl.kubernetes.io/last-applied")]
    if notes:
        yield shlex.join(["kubectl", "annotate", "cluster", name, *notes])
    if spec := _said(known):
        patch = json.dumps({"spec": spec}, separators=(",", ":"))
        yield shlex.join(["kubectl", "patch", "cluster", name, "--type", "merge", "-p", patch])


@click.command(
    epilog="\b\nExamples:\n  fleet members\n  fleet members -o json | jq .items[].status"
)
@output.option("wide")
@gateway
def members(client: Client, form: str) -> None:
    """List the clusters of the fleet and how each of them is."""
    from fleet.cli.objects import show

    show(
        client,
        CLUSTERS,
        form=form,
        empty=pasteable("The fleet has no members; `fleet join` takes one in."),
    )
