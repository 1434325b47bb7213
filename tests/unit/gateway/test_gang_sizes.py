"""Whoever resizes a gang that has a place is told at once what it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet.dispatch.jobs import JOBS
from fleet.dispatch.kinds import row_of
from fleet.errors import Invalid
from fleet.gateway.sizes import GangSizes
from fleet.kube.wire import UserInfo

if TYPE_CHECKING:
    from fleet.store.entry import Entry

ROW = row_of(JOBS.gvr)
ME = UserInfo("jane")


def job(parallelism: int, completions: int | None, **spec: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "parallelism": parallelism,
        "completionMode": "Indexed",
        "template": {},
    }
    if completions is not None:
        given["completions"] = completions
    return {"metadata": {"namespace": "cv", "name": "train"}, "spec": {**given, **spec}}


def sizes(phase: str = "Running", *, least: int | None = 4) -> GangSizes:
    role: dict[str, Any] = {"name": "worker", "pods": 6, "unit": 2}
    if least is not None:
        role["min"] = least
    shard = {
        "cluster": "east", "generation": 1, "state": "Running",
        "roles": [{"name": "worker", "first": 0, "count": 6}],
    }  # fmt: skip
    status = {"phase": phase, "roles": [role], "shards": [shard]}

    class Placement:
        def parse(self) -> dict[str, Any]:
            return {"status": status}

    def placement(namespace: str, name: str) -> Entry | None:
        return Placement() if (namespace, name) == ("cv", "job-train") else None  # type: ignore[return-value]

    return GangSizes(placement)


async def refused(admission: GangSizes, new: dict[str, Any], old: dict[str, Any]) -> str:
    try:
        assert await admission.admit(ROW, new, old, ME) is new
    except Invalid as error:
        (cause,) = error.details.causes
        assert cause.field == "spec.parallelism"
        return cause.message
    return ""


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ((4, 4), ""),
        ((12, 12), ""),
        ((5, 5), "5 ranks are not in whole units of 2"),
        ((2, 2), "it runs with 4 ranks at least"),
        ((4, 6), "its ranks run together: set spec.completions to the same number"),
    ],
)
async def test_an_elastic_gang_is_of_no_size_that_it_cannot_have(
    size: tuple[int, int], why: str
) -> None:
    told = await refused(sizes(), job(*size), job(6, 6))
    assert told.endswith(why)
    assert bool(told) is bool(why)


async def test_ranks_of_any_gang_run_together() -> None:
    assert "together" in await refused(sizes(least=None), job(4, 6), job(6, 6))
    assert await refused(sizes(least=None), job(4, 4), job(6, 6)) == ""


@pytest.mark.parametrize(
    ("admission", "new", "old"),
    [
        (sizes("Queued"), job(5, 5), job(6, 6)),
        (sizes("Succeeded"), job(5, 5), job(6, 6)),
        (sizes(), job(5, 5, suspend=True), job(6, 6)),
        (sizes(), job(6, 6, backoffLimit=1), job(6, 6)),
        (sizes(least=None), job(1, 9), job(3, 9)),
        (GangSizes(lambda *key: None), job(5, 5), job(6, 6)),
    ],
    ids=["waits", "ended", "suspended", "same", "no-gang", "unknown"],
)
async def test_what_has_no_place_or_keeps_its_size_is_let_through(
    admission: GangSizes, new: dict[str, Any], old: dict[str, Any]
) -> None:
    assert await refused(admission, new, old) == ""
