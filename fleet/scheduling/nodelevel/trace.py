"""Tables of machines and of pods, with the columns of Alibaba's GPU trace of 2023.

    sn,cpu_milli,memory_mib,gpu,model
    node-0,64000,262144,2,P100

    name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time
    pod-0,12000,16384,1,1000,,0,12537496
    pod-1,6000,12288,1,460,V100M16|V100M32,427061,12902960

`gpu_milli` is how much of its one GPU a pod takes, in thousandths; pods with several take them
whole. `gpu_spec` names the models that will do. A pod arrives at `creation_time` and runs from
`scheduled_time`, where that is told, to `deletion_time`, in seconds; without the columns all come
at once, in their order, and stay. Other columns are not read. Next step: `filling`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Final

from fleet.errors import ConfigError
from fleet.scheduling.nodelevel.machines import WHOLE, Machine, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NODE: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TOLD: Final = 20
_Row = tuple[str, "Mapping[str, str]"]
"""Where it stands, and its fields by column."""


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    request: Request
    arrives_s: float = 0
    runs_s: float | None = None
    """None: it stays."""


@dataclass(frozen=True, slots=True)
class Trace:
    machines: tuple[Machine, ...]
    pods: tuple[Pod, ...]
    """In the order of the tables."""

    @property
    def thousandths(self) -> int:
        """Of GPUs, all together."""
        return sum(sum(each.left) for each in self.machines)


def is_table(data: bytes) -> bool:
    """Whether a CSV file is one of these, by its first line."""
    head = _head(data.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace"))
    return "cpu_milli" in head


def trace_of(tables: Iterable[tuple[str, bytes]]) -> Trace:
    """What stands in tables, each with its name. A row of a later table overrides one of the same
    name in an earlier one. Raises ConfigError that says all that is wrong.
    """
    machines: dict[str, Machine] = {}
    pods: dict[str, Pod] = {}
    problems: list[str] = []
    for name, data in tables:
        here: set[str] = set()
        for where, row in _rows(name, data):
            try:
                made: Machine | Pod = _machine(row) if "sn" in row else _pod(row)
                if made.name in here:
                    raise ValueError(f"{made.name} is there twice")
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            here.add(made.name)
            if isinstance(made, Machine):
                machines[made.name] = made
            else:
                pods[made.name] = made
    if not problems and not machines:
        problems.append(f"no machines: a table of them has the columns {', '.join(_NODE)}")
    if not problems and not pods:
        problems.append(f"no pods: a table of them has the columns {', '.join(_POD)}")
    if problems:
        more = len(problems) - _TOLD
        told = problems[:_TOLD] + ([f"… and {more} more"] if more > 0 else [])
        raise ConfigError("\n  ".join(told))
    return Trace(tuple(machines.values()), tuple(pods.values()))


def _head(line: str) -> list[str]:
    return [each.strip() for each in line.strip().split(",")]


def _rows(name: str, data: bytes) -> Iterator[_Row]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is no text in UTF-8") from error
    reader = csv.DictReader(StringIO(text), restkey="", skipinitialspace=True)
    head = reader.fieldnames = [each.strip() for each in reader.fieldnames or ()]
    wanted = _NODE if "sn" in head else _POD
    lacking = [each for each in wanted if each not in head]
    if lacking:
        what = "machines" if wanted is _NODE else "pods"
        raise ConfigError(f"{name}, line 1: a table of {what} has a column {lacking[0]} as well")
    for row in reader:
        where = f"{name}, line {reader.line_num}"
        if row.get(""):
            raise ConfigError(f"{where}: has more fields than columns")
        found = {key: (value or "").strip() for key, value in row.items()}
        if any(found.values()):
            yield where, found


def _machine(row: Mapping[str, str]) -> Machine:
    return Machine.empty(
        _name(row, "sn"),
        cpu=_number(row, "cpu_milli"),
        memory=_number(row, "memory_mib"),
        devices=_number(row, "gpu"),
        model=row["model"],
    )


def _pod(row: Mapping[str, str]) -> Pod:
    devices = _number(row, "num_gpu")
    share = _number(row, "gpu_milli") if devices == 1 else WHOLE
    if devices == 1 and not 0 < share <= WHOLE:
        raise ValueError(f"column gpu_milli: {share} is not from 1 to {WHOLE}")
    models = frozenset(filter(None, row.get("gpu_spec", "").split("|"))) if devices else frozenset()
    request = Request(
        _number(row, "cpu_milli"), _number(row, "memory_mib"), devices, share, frozenset(models)
    )
    arrives_s = _seconds(row, "creation_time") or 0
    ends_s = _seconds(row, "deletion_time")
    begins_s = _seconds(row, "scheduled_time")
    begins_s = arrives_s if begins_s is None else begins_s
    if ends_s is not None and ends_s < max(arrives_s, begins_s):
        raise ValueError("column deletion_time: is before it was there")
    return Pod(
        _name(row, "name"), request, arrives_s, None if ends_s is None else ends_s - begins_s
    )


def _name(row: Mapping[str, str], column: str) -> str:
    if not row[column]:
        raise ValueError(f"column {column}: must be given")
    return row[column]


def _number(row: Mapping[str, str], column: str) -> int:
    try:
        value = int(row[column])
    except ValueError:
        value = -1
    if not 0 <= value < 2**53:
        raise ValueError(f'column {column}: "{row[column]}" is no whole number from 0 on')
    return value


def _seconds(row: Mapping[str, str], column: str) -> float | None:
    text = row.get(column, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1e12:
        raise ValueError(f'column {column}: "{text}" is no time in seconds')
    return value
