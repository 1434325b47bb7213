"""`fleet join`, `leave` and `members`: which clusters are in the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli import output
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from fleet.cli.client import Client

JOIN_S = 60.0
CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"


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

    kubeconfig = flatten(file, context=from_context).decode()
    if name is None:
        name = yaml.safe_load(kubeconfig)["current-context"]
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


@click.command(epilog="\b\nExamples:\n  fleet leave east\n  fleet leave east west")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@gateway
def leave(client: Client, names: tuple[str, ...]) -> None:
    """Let clusters go. The gateway forgets their credentials; what runs in them goes on."""
    for name in names:
        client.post("/fleet/leave", {"name": name}, timeout_s=JOIN_S)
        click.echo(f"{name} left")


@click.command(
    epilog="\b\nExamples:\n  fleet members\n  fleet members -o json | jq .items[].status"
)
@output.option("wide")
@gateway
def members(client: Client, form: str) -> None:
    """List the clusters of the fleet and how each of them is."""
    from fleet.cli.objects import show

    show(client, CLUSTERS, form=form, empty="The fleet has no members; fleet join takes one in.")
