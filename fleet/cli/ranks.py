"""`fleet logs job/NAME`: what all ranks of a Job wrote, in the order of its ranks or of time.

Each line names its rank and cluster. A rank without a pod, or whose log cannot be had, is named as
a gap and never left out; of several pods of a rank the newest is read. `objects` has the command.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import datetime
from heapq import merge
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from fleet.cli.client import Client

Object = dict[str, Any]

_GLOBAL: Final = "fleet.dev/global-index"
_OFFSET: Final = "fleet.dev/index-offset"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_CLUSTER: Final = "fleet.dev/cluster"
_PIECE: Final = 16 << 10
_LONGEST: Final = 1 << 20
"""Bytes of a line that are held in memory."""


class Gap(NamedTuple):
    """A rank of which there is nothing to show, and why."""

    rank: int
    why: str


class NoPods(NamedTuple):
    """There is no pod to show anything of, nor a number of ranks."""


class Line(NamedTuple):
    text: bytes
    at_s: float = 0.0
    """Seconds since the epoch, where lines have a time; else that of the line before."""


def written(
    client: Client, job: Mapping[str, Any], query: Sequence[tuple[str, str]], *, timed: bool
) -> Iterator[Line | Gap | NoPods]:
    """What the ranks of `job` wrote: one rank after the other, or merged by time if `timed`."""
    from fleet.kube.paths import path_of
    from fleet.kube.resources import GroupVersionResource

    pods = GroupVersionResource("", "v1", "pods")
    metadata = job["metadata"]
    where = metadata["namespace"]
    selector = [("labelSelector", f"{_JOB_NAME}={metadata['name']}")]
    listed = client.get(path_of(pods, namespace=where), selector)["items"]
    if not listed and not _ranks(job["spec"]):
        yield NoPods()
    with _Spool() if timed else nullcontext() as spool:
        for rank, name, pod in _seats(job["spec"], listed):
            if pod is None:
                yield Gap(rank, "it has no pod")
                continue
            path = path_of(pods, namespace=where, name=pod["metadata"]["name"], subresource="log")
            prefix = f"[{name}] ".encode()
            lines = _lines(client, path, query, rank)
            if spool is not None:
                yield from spool.take(prefix, lines)
                continue
            for each in lines:
                yield each if isinstance(each, Gap) else Line(prefix + each)
        if spool is not None:
            yield from spool.merged()


def _lines(
    client: Client, path: str, query: Sequence[tuple[str, str]], rank: int
) -> Iterator[bytes | Gap]:
    """Each with its end, as they come; what came before a log broke off is not lost."""
    from fleet.errors import ApiError

    try:
        yield from _split(client.stream(path, query))
    except ApiError as error:
        yield Gap(rank, error.message)


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, each with a newline at its end. Carriage returns are parts of a line, as in progress
    bars. A line that goes on for ever is several."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > _LONGEST:
            yield rest + b"\n"
            rest = b""
    if rest:
        yield rest + b"\n"


class _Spool:
    """Logs one after the other in a file without a name, of which only a piece of each is held in
    memory to merge them; one log at a time is asked for, however many there are."""

    def __init__(self) -> None:
        self._parts: list[tuple[bytes, int, int]] = []
        """What lines of each begin with, and where it begins and ends in the file."""

    def __enter__(self) -> Self:
        self._file = TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, prefix: bytes, lines: Iterable[bytes | Gap]) -> Iterator[Gap]:
        begins = self._file.tell()
        for each in lines:
            if isinstance(each, Gap):
                yield each
            else:
                self._file.write(each)
        self._parts.append((prefix, begins, self._file.tell()))

    def merged(self) -> Iterator[Line]:
        self._file.flush()
        yield from merge(*(self._part(*each) for each in self._parts), key=lambda line: line.at_s)

    def _part(self, prefix: bytes, begins: int, ends: int) -> Iterator[Line]:
        at_s = 0.0
        for line in _split(self._chunks(begins, ends)):
            at_s = _time(line, at_s)
            yield Line(prefix + line, at_s)

    def _chunks(self, at: int, end: int) -> Iterator[bytes]:
        while at < end:
            chunk = os.pread(self._file.fileno(), min(_PIECE, end - at), at)
            if not chunk:
                return
            at += len(chunk)
            yield chunk


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
    for rank in _ranks(spec) if indexed else sorted(newest):
        pod_of = newest.get(rank)
        if pod_of is None:
            yield rank, "", None
            continue
        metadata = pod_of["metadata"]
        cluster = (metadata.get("labels") or {}).get(_CLUSTER, "")
        yield rank, f"{rank} {cluster}".rstrip() if indexed else metadata["name"], pod_of


def _ranks(spec: Mapping[str, Any]) -> range:
    """Those of an Indexed Job; none of others."""
    indexed = spec.get("completionMode") == "Indexed"
    return range(int(spec.get("completions") or 0) if indexed else 0)


def _rank(pod: Object) -> int:
    annotations = pod["metadata"].get("annotations") or {}
    if _GLOBAL in annotations:
        return int(annotations[_GLOBAL])
    return int(annotations.get(_OFFSET, 0)) + int(annotations.get(_INDEX, 0))


def _made(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))
