"""A table of work: one line, one Job.

    name,arrives,runs,pods,nvidia.com/gpu,namespace
    train-1,0s,6h,8,8,nlp
    train-2,10m,90m,16,8,nlp

`name`, and `runs` or `declared`, have to be there; every column with another name than those below
is a resource that each pod asks for. Times are durations (`10m`) or plain seconds. Next step: the
Jobs are read like any that stand in a file.
"""

from __future__ import annotations

import csv
from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import ConfigError
from fleet.kube.quantity import InvalidQuantity, Quantity
from fleet.scheduling.nodes import ACCELERATOR_LABELS
from fleet.scheduling.selection import POLICY_LABEL
from policies.placement import RUN_TIME_ANNOTATION
from policies.scalars import duration_text, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Object = dict[str, Any]

PREFIX: Final = "simulation.fleet.dev/"
ARRIVES: Final = f"{PREFIX}arrives"
RUNS: Final = f"{PREFIX}runs"
CLASS: Final = f"{PREFIX}class"
COUNT: Final = f"{PREFIX}count"
EVERY: Final = f"{PREFIX}every"
COLUMNS: Final = (
    "name", "namespace", "arrives", "runs", "declared", "pods", "accelerator", "policy",
    "priority", "priorityClass", "class", "count", "every",
)  # fmt: skip
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def rows(name: str, data: bytes) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Each line that is not empty, by number. Raises ConfigError for a table without sense."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is no text in UTF-8") from error
    reader = csv.DictReader(StringIO(text), restkey="", skipinitialspace=True)
    head = [each.strip() for each in reader.fieldnames or ()]
    reader.fieldnames = head
    if "name" not in head:
        raise ConfigError(f"{name}, line 1: a table of work has a column name")
    for column in head:
        if column not in COLUMNS and column not in _RESOURCES and "/" not in column:
            raise ConfigError(
                f'{name}, line 1: column "{column}" is none of {", ".join(COLUMNS)}, and no '
                "resource such as cpu or nvidia.com/gpu"
            )
    if len(set(head)) != len(head):
        raise ConfigError(f"{name}, line 1: a column is there twice")
    for row in reader:
        found = {
            key: value.strip()
            for key, value in row.items()
            if key and isinstance(value, str) and value.strip()
        }
        if row.get(""):
            raise ConfigError(f"{name}, line {reader.line_num}: has more fields than columns")
        if found:
            yield reader.line_num, found


def job(row: Mapping[str, str], *, namespace: str) -> Object:
    """The Job of a line. Raises ValueError saying the column."""
    if not row.get("name"):
        raise ValueError("column name: must be given")
    annotations, labels = {}, {}
    for column, annotation in (("arrives", ARRIVES), ("runs", RUNS), ("every", EVERY)):
        if column in row:
            annotations[annotation] = _duration(column, row[column])
    if "declared" in row:
        annotations[RUN_TIME_ANNOTATION] = _duration("declared", row["declared"])
    elif "runs" in row:
        annotations[RUN_TIME_ANNOTATION] = annotations[RUNS]
    if "class" in row:
        annotations[CLASS] = row["class"]
    if "count" in row:
        annotations[COUNT] = str(_number("count", row["count"]))
    if "policy" in row:
        labels[POLICY_LABEL] = row["policy"]
    pods = _number("pods", row.get("pods", "1"))
    spec: Object = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "resources": {"requests": _requests(row)}}],
    }
    if "accelerator" in row:
        spec["nodeSelector"] = {ACCELERATOR_LABELS[0]: row["accelerator"]}
    if "priority" in row:
        spec["priority"] = _number("priority", row["priority"], least=-(2**31))
    if "priorityClass" in row:
        spec["priorityClassName"] = row["priorityClass"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": row["name"],
            "namespace": row.get("namespace", namespace),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "template": {"spec": spec},
        },
    }


def _requests(row: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for column, text in row.items():
        if column in COLUMNS:
            continue
        try:
            quantity = Quantity.parse(text)
        except InvalidQuantity:
            raise ValueError(f'column {column}: "{text}" is no quantity') from None
        if quantity.nano < 0:
            raise ValueError(f'column {column}: "{text}" may not be negative')
        if quantity.nano:
            found[column] = text
    return found


def _duration(column: str, text: str) -> str:
    """As policies write it; plain numbers are seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    else:
        if not 0 <= seconds < 1e10:
            raise ValueError(f'column {column}: "{text}" is no time that work could take')
    try:
        length = timedelta(milliseconds=round(seconds * 1000)) if seconds >= 0 else None
        return duration_text(length if length is not None else parse_duration(text))
    except ValueError as error:
        raise ValueError(f"column {column}: {error}, or plain seconds") from None


def _number(column: str, text: str, *, least: int = 1) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value < 2**31:
        raise ValueError(f'column {column}: "{text}" is no whole number from {least} on')
    return value
