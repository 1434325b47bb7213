"""`fleet explain`: where a workload was placed, and why; or why there is nothing to say of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli import output
from fleet.cli.objects import namespace_option
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.cli.client import Client
    from fleet.cli.discovery import Served

PLACED: Final = ("jobs.batch", "pods")
"""What the fleet places, as `fleet.dispatch.kinds` has it; a test compares."""
_PLACEMENTS: Final = "placements.fleet.dev"
_CLUSTERS: Final = "clusters.fleet.dev"
_ALL_PLACEMENTS: Final = "/apis/fleet.dev/v1alpha1/placements"
_ALL_POLICIES: Final = "/apis/fleet.dev/v1alpha1/placementpolicies"
_POLICY_GROUP: Final = "/apis/fleet.dev/v1alpha1"
_ALL_QUOTAS: Final = f"{_POLICY_GROUP}/fleetquotas"
_RETURNS: Final = "/fleet/returns"
_PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"

_OVER: Final = ("Succeeded", "Failed")

Object = dict[str, Any]


@click.command(
    epilog="\b\nExamples:\n  fleet explain job/train\n  fleet explain pod web2\n"
    "  fleet explain job/train -n research -o json"
)
@click.argument("workload", metavar="TYPE/NAME")
@click.argument("name", default="")
@namespace_option
@output.option()
@gateway
def explain(client: Client, workload: str, name: str, namespace: str | None, form: str) -> None:
    """Say where a workload of the fleet was placed, and why. TYPE NAME will do as well.

    What is said of a cluster that was not used is what was so when the workload was placed; what
    has changed since is said too.
    """
    from fleet.cli.discovery import find, read
    from fleet.errors import ConfigError, NotFound
    from fleet.scheduling.explain import explained, held_up

    kind, slash, named = workload.partition("/")
    if (slash and name) or not kind or not (name := named or name):
        raise click.UsageError("Name a workload as TYPE/NAME, e.g. job/train.")
    try:
        placements = find(client, _PLACEMENTS)
    except NotFound as error:
        client.check_gateway()
        raise ConfigError(f"the gateway serves no {_PLACEMENTS}: is it an older one?") from error
    resource = find(client, kind)
    where = namespace or client.access.namespace
    if not resource.namespaced:
        raise NotFound(f"the fleet does not place {resource.gvr.group_resource}; {_which()}")
    found = read(client, resource, name=name, namespace=where)
    placed = client.get(
        placements.path(namespace=where),
        [("fieldSelector", f"spec.workload.uid={found['metadata']['uid']}")],
    )
    if not placed["items"]:
        if form == "table" and (earlier := _earlier(client, placements, resource, name, where)):
            clusters = client.get(find(client, _CLUSTERS).path())["items"]
            named_kind = {"kind": resource.kind, **found}
            click.echo("\n".join(held_up(named_kind, earlier, clusters)))
            return
        raise NotFound(_why_none(resource, found, where))
    placement = placed["items"][0]
    if form == "table":
        clusters = client.get(find(client, _CLUSTERS).path())["items"]
        told = explained(placement, clusters, ahead=_ahead(client, placement))
        told += _moves_back(client, placement, found["metadata"]["uid"])
        click.echo("\n".join([*told, *_not_as_written(client, placement, where)]))
    else:
        output.document(placement, form)


def _earlier(
    client: Client, placements: Served, resource: Served, name: str, where: str
) -> Object | None:
    """The placement of a workload of this name that is gone from the fleet and not yet from all
    members."""
    for placement in client.get(placements.path(namespace=where))["items"]:
        said = placement["spec"]["workload"]
        if (said.get("kind"), said.get("name")) == (resource.kind, name):
            found: Object = placement
            return found
    return None


def _ahead(client: Client, placement: Object) -> int | None:
    """How many of its quota come before one that waits; None where that cannot be told."""
    from fleet.errors import ApiError
    from fleet.scheduling.explain import ahead_of

    status = placement.get("status") or {}
    if status.get("phase") != "Queued" or not status.get("quota"):
        return None
    try:
        others = client.get(_ALL_PLACEMENTS)["items"]
        classes = client.get(_PRIORITY_CLASSES)["items"]
        policies = client.get(_ALL_POLICIES)["items"]
    except ApiError:
        return None  # not everybody may see what others ask for
    values = {each["metadata"]["name"]: int(each.get("value", 0)) for each in classes}
    return ahead_of(placement, others, values, policies, now=datetime.now(UTC))


def _moves_back(client: Client, placement: Object, uid: str) -> Iterator[str]:
    """That an earlier tier has room for what runs in a later one, and when it goes there."""
    from fleet.errors import ApiError
    from fleet.scheduling.explain import moves_back
    from fleet.scheduling.returning import tier_of

    if tier_of(placement.get("status") or {}) == 1:
        return
    try:
        spells = client.get(_RETURNS)["items"]
    except ApiError:
        return  # an older gateway does not tell
    yield from (f"  {moves_back(each)}" for each in spells if each["uid"] == uid)


def _not_as_written(client: Client, placement: Object, namespace: str) -> Iterator[str]:
    """What is said of its quota and its policy, where one is not acted on as it is stored, or it is
    another quota that counts it now."""
    from fleet.errors import ApiError
    from fleet.scheduling.explain import gone, not_as_written
    from fleet.scheduling.selection import builtin_default

    status = placement.get("status") or {}
    if status.get("phase") in _OVER:
        return
    if told := _counted_elsewhere(client, status, namespace):
        yield f"  {told}"
    asked = []
    if (quota := status.get("quota")) and not told:
        asked.append((f"{_ALL_QUOTAS}/{quota}", gone(quota=quota)))
    policy = (placement.get("spec") or {}).get("policy")
    default = builtin_default()
    if policy and (policy["namespace"], policy["name"]) != (default.namespace, default.name):
        inside = f"{_POLICY_GROUP}/namespaces/{policy['namespace']}/placementpolicies"
        asked.append((f"{inside}/{policy['name']}", gone(policy=policy["name"])))
    for path, missing in asked:
        try:
            told = not_as_written(client.get(path))
        except ApiError as error:
            # Else it is not for everybody to see.
            told = missing if error.http_code == 404 else ""
        if told:
            yield f"  {told}"


def _counted_elsewhere(client: Client, status: Object, namespace: str) -> str:
    """Nothing as well where that cannot be told: of what not everybody may see, and of quotas that
    are not acted on as they are stored."""
    from fleet.errors import ApiError
    from fleet.scheduling.explain import counted_elsewhere, gone, not_as_written
    from policies.quota_tree import claims_of

    try:
        quotas = client.get(_ALL_QUOTAS)["items"]
        inside = client.get(f"/api/v1/namespaces/{namespace}")
    except ApiError:
        return ""
    if any(not_as_written({"kind": "FleetQuota", **each}) for each in quotas):
        return ""
    was, now = status.get("quota"), claims_of(quotas, [inside]).quota.get(namespace, "")
    if was and was not in {each["metadata"]["name"] for each in quotas}:
        return gone(quota=was, instead=now)
    return counted_elsewhere(status, now)


def _why_none(resource: Served, obj: Object, where: str) -> str:
    """Why an object that is there has no placement."""
    what, name = resource.gvr.group_resource, obj["metadata"]["name"]
    said = f"{resource.kind.lower()}/{name} in {where}"
    member = where.partition(".")[2]
    if member:
        return f"{said} is {member}'s own: the fleet did not place it, {member} runs it as it is"
    if "fleet.dev/cluster" in (obj["metadata"].get("labels") or {}):
        for owner in obj["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                above = f"{str(owner.get('kind', '')).lower()}/{owner.get('name')}"
                return f"{said} is a part of {above}\n  Try:  fleet explain {above} -n {where}"
    if what in PLACED:
        return (
            f"{said} has no placement yet: nothing has been decided\n"
            f"  Its events say more:  kubectl describe {what} {name} -n {where}"
        )
    return f"{said} is stored and not placed; {_which()}"


def _which() -> str:
    return f"what the fleet places: {', '.join(PLACED)}"
