"""What a workload says of itself is read at the write."""

from __future__ import annotations

import pytest

from fleet.errors import Invalid
from fleet.gateway.declared import Declared
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import UserInfo

PODS = builtin.resource(GroupVersionResource("", "v1", "pods"))
JOBS = builtin.resource(GroupVersionResource("batch", "v1", "jobs"))
MAPS = builtin.resource(GroupVersionResource("", "v1", "configmaps"))
ME = UserInfo("me")


def said(run_time):
    annotations = {} if run_time is None else {"fleet.dev/run-time": run_time}
    return {"metadata": {"name": "x", "annotations": annotations}}


@pytest.mark.parametrize("resource", [PODS, JOBS], ids=lambda each: each.kind)
@pytest.mark.parametrize("run_time", ["6parsecs", "6", "", "-1h", "1.5h"])
@pytest.mark.parametrize("old", [None, said(None), said("6h")], ids=["new", "unsaid", "said"])
async def test_a_run_time_that_is_none_is_refused(resource, run_time, old):
    with pytest.raises(Invalid) as caught:
        await Declared().admit(resource, said(run_time), old, ME)
    assert 'is no duration, write e.g. "30s"' in caught.value.message
    (cause,) = caught.value.details.causes
    assert cause.field == "metadata.annotations[fleet.dev/run-time]"


@pytest.mark.parametrize("run_time", [None, "6h", "1h30m", "0s"])
async def test_one_that_is_a_duration_is_let_through(run_time):
    obj = said(run_time)
    assert await Declared().admit(JOBS, obj, None, ME) is obj


async def test_what_was_there_before_may_stay_and_what_is_not_placed_may_say_anything():
    await Declared().admit(JOBS, said("6parsecs"), said("6parsecs"), ME)
    await Declared().admit(JOBS, {"metadata": {"name": "x"}}, said("6parsecs"), ME)
    await Declared().admit(MAPS, said("6parsecs"), None, ME)


@pytest.mark.parametrize("resource", [PODS, JOBS], ids=lambda each: each.kind)
@pytest.mark.parametrize("at", ["", "now", "2026-11-29", "2026-11-29T06:00:00", "1764396000", "6h"])
async def test_a_last_checkpoint_at_no_time_is_refused(resource, at):
    obj = {"metadata": {"name": "x", "annotations": {"fleet.dev/checkpointed-at": at}}}
    with pytest.raises(Invalid) as caught:
        await Declared().admit(resource, obj, said("6h"), ME)
    assert "is no time, write e.g. 2026-11-29T06:00:00Z" in caught.value.message
    (cause,) = caught.value.details.causes
    assert cause.field == "metadata.annotations[fleet.dev/checkpointed-at]"
    assert await Declared().admit(resource, obj, obj, ME) is obj, "it was there before"
    assert await Declared().admit(MAPS, obj, None, ME) is obj


@pytest.mark.parametrize("at", ["2026-11-29T06:00:00Z", "2026-11-29T07:00:00.25+01:00"])
async def test_a_last_checkpoint_at_a_time_is_let_through(at):
    obj = {"metadata": {"name": "x", "annotations": {"fleet.dev/checkpointed-at": at}}}
    assert await Declared().admit(JOBS, obj, None, ME) is obj
