"""`fleet join`, `leave` and `members`: which clusters are in the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli import output
from fleet.cli.program import pasteable
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from fleet.cli.client import Client

JOIN_S = 60.0
CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"
ADMINS = "fleet:admins"
MARK = "app.kubernetes.io/managed-by=fleet"
"""The label of what the fleet makes in members."""
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
    f"{MARK}; the command says how to remove it.\n\n"
    "\b\nExamples:\n  fleet leave east\n  fleet leave east west"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@gateway
def leave(client: Client, names: tuple[str, ...]) -> None:
    """Let clusters go. The gateway forgets their credentials; nothing in them is touched."""
    left = []
    try:
        for name in names:
            client.post("/fleet/leave", {"name": name}, timeout_s=JOIN_S)
            click.echo(f"{name} left")
            left.append(name)
    finally:
        if left:
            click.echo(_left_behind(left), err=True)


def _left_behind(names: list[str]) -> str:
    """What stays in clusters that left, and how to remove it."""
    where = names[0] if len(names) == 1 else "each of them"
    return (
        f"Nothing in {where} was touched: what runs there goes on, parts of the fleet's workloads\n"
        "until their lease is over. What the fleet made there stays; to remove it, with the\n"
        f"kubeconfig of {where}:\n"
        f"  kubectl delete jobs -A -l {MARK}         # parts of workloads, with their pods\n"
        f"  kubectl delete namespaces -l {MARK}      # that the fleet made, with all in them\n"
        f"  kubectl delete configmaps,secrets,services,serviceaccounts,rolebindings -A -l {MARK}\n"
        f"  kubectl delete clusterrolebindings,clusterroles -l {MARK}   # {ADMINS} and the like"
    )


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
