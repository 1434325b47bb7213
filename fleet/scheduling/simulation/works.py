"""The work of a simulation: objects of workloads with when they arrive and how long they run.

A workload arrives at `simulation.fleet.dev/arrives` – a time, or a duration after the start –, else
when it was created, else at the start. It runs as long as `simulation.fleet.dev/runs` says, else as
it ran (a Job that has ended says when it started and completed), else as long as is expected of it;
of work of which nobody says anything it is assumed that it runs on. `…/count` makes several of one,
`…/every` apart. So `kubectl get jobs -A -o yaml` of a week is a trace of that week.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.errors import ApiError
from fleet.kube.defaults.lifecycle import prepare_create
from fleet.kube.defaults.registry import fill_defaults
from fleet.kube.defaults.validation import validate_create
from fleet.kube.schema import FieldValidation, decode, schema_for
from fleet.scheduling.demand import template_of
from fleet.scheduling.simulation.table import ARRIVES, CLASS, COUNT, EVERY, RUNS
from fleet.scheduling.workloads import read
from policies.scalars import parse_duration, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.scheduling.simulation.documents import Document, Problems

Object = dict[str, Any]

_MOST: Final = 1_000_000
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_GRACE_S: Final = 30


@dataclass(frozen=True, slots=True)
class Work:
    """One workload. Its `uid` is made of its name, so that equal files have equal ones."""

    uid: str
    obj: Object
    where: str
    class_name: str
    arrives: datetime | int
    """A time, or milliseconds after the start."""
    runs_ms: int | None
    """None: as long as is expected of it."""
    grace_ms: int
    real_uid: str = ""
    """The one that its pods in members carry."""

    @property
    def name(self) -> str:
        metadata = self.obj["metadata"]
        return f"{self.obj['kind'].lower()} {metadata['namespace']}/{metadata['name']}"

    @property
    def queues(self) -> bool:
        """A service does not wait for quota."""
        return self.obj["kind"] not in ("Deployment", "LeaderWorkerSet")


def is_workload(obj: Object) -> bool:
    """Whether anybody can count its pods."""
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return (group, obj["kind"]) in _WORKLOADS


_WORKLOADS: Final = frozenset(
    {
        ("batch", "Job"), ("", "Pod"), ("apps", "Deployment"), ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    }
)  # fmt: skip


def works_of(documents: Iterable[Document], problems: Problems) -> list[Work]:
    """What is wrong goes into `problems`."""
    found: dict[str, Work] = {}
    for document in documents:
        try:
            for each in _works(document):
                if each.uid in found:
                    problems.add(document, f"{each.name} stands in {found[each.uid].where} as well")
                found[each.uid] = each
        except ApiError as error:
            problems.add(document, error)
        except ValueError as error:
            problems.add(document, str(error))
    return list(found.values())


def sound(document: Document) -> Object:
    """An object of the release as an API server would hold it. Raises ApiError."""

    obj = document.obj
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    schema = schema_for(group, version, obj["kind"])
    if schema is None or document.made:
        return fill_defaults(group, version, obj["kind"], obj)
    let_in = bool(obj["metadata"].get("uid"))  # what some server has let in is sound
    strict = FieldValidation.IGNORE if let_in else FieldValidation.STRICT
    kind = (group, version, str(obj["kind"]))
    held = decode(orjson.dumps(obj), schema=schema, kind=kind, validation=strict).object
    held = fill_defaults(group, version, obj["kind"], held)
    if not let_in:
        made = prepare_create(*kind, held, now=_ANY_TIME, uid="simulated")
        validate_create(*kind, made, namespaced="namespace" in obj["metadata"])
    return held


def _works(document: Document) -> Iterator[Work]:
    obj = sound(document)
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    _counted(obj)
    arrives = _arrives(annotations, metadata)
    runs_ms = _runs(annotations, obj)
    count = _number(annotations.get(COUNT))
    every_ms = _ms(annotations[EVERY], EVERY) if EVERY in annotations else 0
    template = template_of(obj).get("spec") or {}
    for at in range(count or 1):
        name = metadata["name"] if count is None else f"{metadata['name']}-{at}"
        uid = f"{metadata['namespace']}/{obj['kind'].lower()}/{name}"
        yield Work(
            uid=uid,
            obj={**obj, "metadata": {**metadata, "name": name, "uid": uid}},
            where=document.where,
            class_name=_class(obj, template, repeated=count is not None),
            arrives=_later(arrives, at * every_ms),
            runs_ms=runs_ms,
            grace_ms=1000 * int(template.get("terminationGracePeriodSeconds", _GRACE_S)),
            real_uid=str(metadata.get("uid", "")),
        )


def _counted(obj: Object) -> None:
    """Raises ValueError for what has not the form of its kind: of kinds that are not of the
    release no schema says so before."""
    try:
        if read(obj) is not None:
            return
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"spec: has not the form of a {obj['kind']}: {error}") from None
    raise ValueError("nobody can count its pods")


def _class(obj: Object, template: Object, *, repeated: bool) -> str:
    metadata = obj["metadata"]
    said = (metadata.get("annotations") or {}).get(CLASS)
    if said:
        return str(said)
    if repeated:
        return str(metadata["name"])
    if template.get("priorityClassName"):
        return str(template["priorityClassName"])
    return f"priority {template.get('priority') or 0}"


def _arrives(annotations: Object, metadata: Object) -> datetime | int:
    said = annotations.get(ARRIVES)
    if said is None:
        created = metadata.get("creationTimestamp")
        return parse_time(created) if created else 0
    try:
        return parse_time(said)
    except ValueError:
        pass
    try:
        return _ms(said, ARRIVES)
    except ValueError:
        raise ValueError(
            f'metadata.annotations[{ARRIVES}]: "{said}" is neither a time such as '
            '2026-11-29T06:00:00Z nor a duration after the start such as "90m"'
        ) from None


def _later(arrives: datetime | int, ms: int) -> datetime | int:
    return arrives + ms if isinstance(arrives, int) else arrives + timedelta(milliseconds=ms)


def _runs(annotations: Object, obj: Object) -> int | None:
    if RUNS in annotations:
        return _ms(annotations[RUNS], RUNS)
    status: Object = obj.get("status") or {}
    started, ended = status.get("startTime"), status.get("completionTime")
    if ended is None:
        ended = next(
            (
                each.get("lastTransitionTime")
                for each in status.get("conditions") or ()
                if each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
            ),
            None,
        )
    if not started or not ended:
        return None
    ran = parse_time(ended) - parse_time(started)
    return max(0, round(ran.total_seconds() * 1000))


def _ms(text: str, annotation: str) -> int:
    try:
        return round(parse_duration(text).total_seconds() * 1000)
    except ValueError as error:
        raise ValueError(f"metadata.annotations[{annotation}]: {error}") from None


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise ValueError(f'metadata.annotations[{COUNT}]: "{text}" is no number from 1 to {_MOST}')
    return int(text)


def at_ms(arrives: datetime | int, start: datetime) -> int:
    """Milliseconds after the start; what was there before arrives with it."""
    if isinstance(arrives, int):
        return arrives
    return max(0, round((arrives.astimezone(UTC) - start).total_seconds() * 1000))
