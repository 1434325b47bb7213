"""`fleet logs job/NAME`: what all ranks of a Job wrote, in the order of its ranks or of time.

Each line names its rank and cluster. A rank without a pod, or whose log cannot be had, is named as
a gap and never left out; of several pods of a rank the newest is read. `objects` has the command.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fleet.cli.client import Client

Object = dict[str, Any]

_GLOBAL: Final = "fleet.dev/global-index"
_OFFSET: Final = "fleet.dev/index-offset"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_CLUSTER: Final = "fleet.dev/cluster"


class Gap(NamedTuple):
    """A rank of which there is nothing to show, and why."""

    rank: int
    why: str


class Line(NamedTuple):
    text: bytes
    at_s: float = 0.0
    """Seconds since the epoch, where lines have a time; else that of the line before."""


def written(
    client: Client, job: Mapping[str, Any], query: Sequence[tuple[str, str]], *, timed: bool
) -> Iterator[Line | Gap]:
    """What the ranks of `job` wrote: one rank after the other, or merged by time if `timed`."""
    from fleet.kube.paths import path_of
    from fleet.kube.resources import GroupVersionResource

    pods = GroupVersionResource("", "v1", "pods")
    metadata = job["metadata"]
    where = metadata["namespace"]
    selector = [("labelSelector", f"{_JOB_NAME}={metadata['name']}")]
    listed = client.get(path_of(pods, namespace=where), selector)["items"]
    found: list[Line] = []
    for rank, name, pod in _seats(job["spec"], listed):
        if pod is None:
            yield Gap(rank, "it has no pod")
            continue
        path = path_of(pods, namespace=where, name=pod["metadata"]["name"], subresource="log")
        lines = _lines(client, path, query, f"[{name}] ".encode(), rank)
        for each in lines:
            if timed and isinstance(each, Line):
                found.append(each)
            else:
                yield each
    yield from sorted(found, key=lambda each: each.at_s)


def _lines(
    client: Client, path: str, query: Sequence[tuple[str, str]], prefix: bytes, rank: int
) -> Iterator[Line | Gap]:
    from fleet.errors import ApiError

    at_s = 0.0
    try:
        log = b"".join(client.stream(path, query))
    except ApiError as error:
        yield Gap(rank, error.message)
        return
    # A line may hold carriage returns, as progress bars do: newlines alone end it.
    for line in log.removesuffix(b"\n").split(b"\n") if log else ():
        at_s = _time(line, at_s)
        yield Line(prefix + line + b"\n", at_s)


def _time(line: bytes, before_s: float) -> float:
    """The time that a line begins with, in whatever zone its node is."""
    try:
        return datetime.fromisoformat(line.split(b" ", 1)[0].decode()).timestamp()
    except ValueError:
        return before_s


def _seats(
    spec: Mapping[str, Any], pods: Iterable[Object]
) -> Iterator[tuple[int, str, Object | None]]:
    """By rank: its number, what lines of it begin with, and its newest pod. Pods without ranks are
    numbered as they are listed."""
    newest: dict[int, Object] = {}
    indexed = spec.get("completionMode") == "Indexed"
    for at, pod in enumerate(pods):
        rank = _rank(pod) if indexed else at
        before = newest.get(rank)
        if before is None or _made(before) <= _made(pod):
            newest[rank] = pod
    ranks = range(int(spec.get("completions") or 0)) if indexed else sorted(newest)
    for rank in ranks:
        pod_of = newest.get(rank)
        if pod_of is None:
            yield rank, "", None
            continue
        metadata = pod_of["metadata"]
        cluster = (metadata.get("labels") or {}).get(_CLUSTER, "")
        yield rank, f"{rank} {cluster}".rstrip() if indexed else metadata["name"], pod_of


def _rank(pod: Object) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    if _GLOBAL in annotations:
        return int(annotations[_GLOBAL])
    return int(annotations.get(_OFFSET, 0)) + int(annotations.get(_INDEX, 0))


def _made(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))
