"""`fleet get` and `logs`: what kubectl does, where there is no kubectl."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fleet.cli import output
from fleet.cli.target import gateway
from fleet.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.cli.client import Client
    from fleet.cli.discovery import Served

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_LIMIT = 500

namespace_option = click.option(
    "-n",
    "--namespace",
    help="Namespace: payments is the fleet's, payments.east the member east's, "
    "'payments.*' both and every member's.",
)


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet get pods -A\n"
    "  fleet get po -n 'payments.*' -l app=web\n"
    "  fleet get deploy web -n payments.east -o yaml\n"
    "  fleet get job/train node/n1.east"
)
@click.argument("what", metavar="TYPE[/NAME] [NAME]...", nargs=-1, required=True)
@namespace_option
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, of all members.")
@click.option("-l", "--selector", default="", help="Labels, e.g. fleet.dev/cluster=east.")
@click.option("--field-selector", default="", help="Fields, e.g. status.phase=Running.")
@output.option("wide", "name")
@gateway
def get(
    client: Client,
    what: tuple[str, ...],
    namespace: str | None,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    form: str,
) -> None:
    """Show objects of the fleet and of its members."""
    from fleet.cli.discovery import find

    query = [
        (key, value)
        for key, value in (("labelSelector", selector), ("fieldSelector", field_selector))
        if value
    ]
    if all_namespaces and namespace:
        raise click.UsageError("-A and -n exclude each other.")
    wanted = _wanted(what)
    if query and any(name for _, name in wanted):
        raise click.UsageError("A name and a selector exclude each other.")
    found = {kind: find(client, kind) for kind in dict.fromkeys(kind for kind, _ in wanted)}
    scope = "" if all_namespaces else namespace or client.access.namespace
    paths: dict[str, list[str]] = {}
    for kind, name in wanted:
        resource = found[kind]
        if name and resource.namespaced and all_namespaces:
            raise click.UsageError("A name and -A exclude each other.")
        paths.setdefault(kind, []).append(resource.path(namespace=scope, name=name))
    missing = Missing()
    if form in output.FORMATS[1:]:
        every = [path for each in paths.values() for path in each]
        output.document(_documents(client, every, query, missing=missing), form)
        missing.leave()
        return
    for kind, each in paths.items():
        resource = found[kind]
        nothing = f"No resources found in {scope} namespace." if scope else "No resources found."
        with_namespace = all_namespaces and resource.namespaced
        show(
            client,
            *each,
            form=form,
            query=query,
            prefix=f"{_one_of(resource)}/" if len(found) > 1 or form == "name" else "",
            namespaces=with_namespace or scope.endswith(".*"),
            empty=nothing if resource.namespaced else "No resources found.",
            missing=missing if len(wanted) > 1 else None,
        )
    missing.leave()


class Missing:
    """Of several that are named, those that there are not: each is told, and the rest is shown, as
    kubectl does."""

    def __init__(self) -> None:
        self._told = False

    def tell(self, error: NotFound) -> None:
        click.echo(f"fleet: {error}", err=True)
        self._told = True

    def __bool__(self) -> bool:
        return self._told

    def leave(self) -> None:
        """End as one does who did not find everything."""
        if self._told:
            raise click.exceptions.Exit(1)


def _one_of(resource: Served) -> str:
    """`pod`, `job.batch`."""
    return ".".join(filter(None, (resource.kind.lower(), resource.gvr.group)))


def _wanted(what: Sequence[str]) -> list[tuple[str, str]]:
    """`pods a b` and `pod/a node/b` as kinds and names; `pods,nodes` as two kinds."""
    if any("/" in word for word in what):
        pairs = [word.partition("/") for word in what]
        if not all(kind and name for kind, _, name in pairs):
            raise click.UsageError("Give either TYPE/NAME for each object, or one TYPE first.")
        return [(kind, name) for kind, _, name in pairs]
    kinds = [kind for kind in what[0].split(",") if kind]
    if not kinds or not all(what):
        raise click.UsageError("Name a type, e.g. pods.")
    return [(kind, name) for kind in kinds for name in what[1:] or ("",)]


def _documents(
    client: Client, paths: Sequence[str], query: Sequence[tuple[str, str]], *, missing: Missing
) -> Any:
    """The object at one path as it is; several in a List."""
    if len(paths) == 1:
        return client.get(paths[0], query)
    items: list[Any] = []
    for path in paths:
        document = _got(client, path, query, missing=missing)
        if document is not None:
            items += document["items"] if "items" in document else [document]
    return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}


def _got(
    client: Client,
    path: str,
    query: Sequence[tuple[str, str]],
    *,
    missing: Missing | None,
    accept: str = "application/json",
) -> Any:
    """What is there; None for what is `missing`, where that is kept."""
    try:
        return client.get(path, query, accept=accept)
    except NotFound as error:
        if missing is None:
            raise
        missing.tell(error)
        return None


def show(
    client: Client,
    *paths: str,
    form: str,
    query: Sequence[tuple[str, str]] = (),
    prefix: str = "",
    namespaces: bool = False,
    empty: str = "No resources found.",
    missing: Missing | None = None,
) -> None:
    """Print what is at `paths`: one table (`table`, `wide`), names, or the document. What is not
    there is an error, or kept in `missing`."""
    if form in output.FORMATS[1:]:
        output.document(client.get(paths[0], query), form)
        return
    columns: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for path in paths:
        page, more = list(query), "more"
        while more:
            asked = [*page, ("limit", str(_LIMIT))]
            document = _got(client, path, asked, missing=missing, accept=_TABLE)
            if document is None:
                break
            columns = document.get("columnDefinitions") or columns
            rows += document.get("rows") or ()
            more = (document.get("metadata") or {}).get("continue") or ""
            page = [*query, ("continue", more)]
    if not rows:
        if missing is None or not missing:
            click.echo(empty, err=True)
        return
    if form == "name":
        for row in rows:
            click.echo(prefix + row["object"]["metadata"]["name"])
        return
    shown = [at for at, column in enumerate(columns) if form == "wide" or not column["priority"]]
    head = [columns[at]["name"].upper() for at in shown]
    lines = [[_cell(row["cells"][at]) for at in shown] for row in rows]
    if prefix and shown and columns[shown[0]]["name"] == "Name":
        lines = [[prefix + line[0], *line[1:]] for line in lines]
    if namespaces:
        head.insert(0, "NAMESPACE")
        for line, row in zip(lines, rows, strict=True):
            line.insert(0, row["object"]["metadata"].get("namespace", ""))
    output.table([head, *lines])


def _cell(value: Any) -> str:
    """One line of it, more would break the table; as kubectl, blank where there is nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).split("\n", 1)[0]


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet logs train-5-x2x7k.idc-b\n"
    "  fleet logs job/train --timestamps\n"
    "  fleet logs -f -n payments.east web-6d5f-abcde -c proxy --tail 20"
)
@click.argument("pod", metavar="POD|job/NAME")
@namespace_option
@click.option("-c", "--container", default="", help="Container (default: the pod's own choice).")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from here on.")
@click.option("--tail", type=output.Integer(min=0), help="Only the last so many lines.")
@click.option(
    "--since", "since_s", type=output.Integer(min=1), help="Only the last so many seconds."
)
@click.option("-p", "--previous", is_flag=True, help="Of the container before its last restart.")
@click.option("--timestamps", is_flag=True, help="Each line with its time.")
@gateway
def logs(
    client: Client,
    pod: str,
    namespace: str | None,
    container: str,
    follow: bool,
    tail: int | None,
    since_s: int | None,
    previous: bool,
    timestamps: bool,
) -> None:
    """Show what a container of POD wrote, or all ranks of a Job.

    Lines of a Job's ranks begin with the rank and its cluster, one rank after the other, with
    --timestamps all in the order of time. A rank whose log cannot be had is named.
    """
    from fleet.cli.discovery import find, read
    from fleet.kube.paths import path_of
    from fleet.kube.resources import GroupVersionResource

    given = {
        "container": container,
        "follow": "true" if follow else "",
        "tailLines": "" if tail is None else str(tail),
        "sinceSeconds": "" if since_s is None else str(since_s),
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
    }
    kind, slash, name = pod.partition("/")
    if slash and kind in ("job", "jobs", "jobs.batch"):
        query = [(key, value) for key, value in given.items() if value]
        _logs_of_ranks(client, name, namespace, query, timed=timestamps, follow=follow)
        return
    if slash and kind not in ("pod", "pods", "po"):
        raise click.UsageError(f"Logs are a pod's: {kind} has none of its own.")
    where = namespace or client.access.namespace
    path = path_of(
        GroupVersionResource("", "v1", "pods"),
        namespace=where,
        name=name or pod,
        subresource="log",
    )
    try:
        for data in client.stream(path, [(key, value) for key, value in given.items() if value]):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    except NotFound:
        # whether it is the pod that is missing, and where there is one
        read(client, find(client, "pods"), name=name or pod, namespace=where)
        raise


def _logs_of_ranks(
    client: Client,
    name: str,
    namespace: str | None,
    query: list[tuple[str, str]],
    *,
    timed: bool,
    follow: bool,
) -> None:
    from fleet.cli.discovery import find, read
    from fleet.cli.ranks import Gap, NoPods, written

    if follow:
        raise click.UsageError("All ranks of a Job cannot be followed at once: name one pod.")
    where = namespace or client.access.namespace
    job = read(client, find(client, "jobs.batch"), name=name, namespace=where)
    gaps = 0
    for each in written(client, job, query, timed=timed):
        if isinstance(each, NoPods):
            raise NotFound(
                f"job/{name} in {where} has no pods\n  Why:  fleet explain job/{name} -n {where}"
            )
        if isinstance(each, Gap):
            gaps += 1
            click.echo(f"rank {each.rank}: no log: {each.why}", err=True)
            continue
        sys.stdout.buffer.write(each.text)
        sys.stdout.buffer.flush()
    if gaps:
        raise click.exceptions.Exit(1)
