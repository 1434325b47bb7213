"""Global indexes of a shard's pods."""

from __future__ import annotations

import pytest

from fleet.dispatch import ranks as dispatched
from fleet.errors import Invalid
from virtualnode.ranks import GLOBAL_INDEX, INDEX, OFFSET, number_over_shards


def pod(offset: str | None = "4", index: str | None = "1", *, env=(), **more):
    annotations = {OFFSET: offset, INDEX: index, **more.pop("annotations", {})}
    annotations = {key: value for key, value in annotations.items() if value is not None}
    containers = [{"name": "main", "env": list(env)}]
    spec = {"hostname": f"shard-{index}", "containers": containers, **more}
    return {"metadata": {"generateName": "shard-", "annotations": annotations}, "spec": spec}


def numbered(*args, **more):
    made = pod(*args, **more)
    number_over_shards(made)
    return made


def variables(made):
    return {each["name"]: each for each in made["spec"]["containers"][0]["env"]}


def field(path):
    return {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


LOCAL = {"name": "JOB_COMPLETION_INDEX", **field(f"metadata.labels['{INDEX}']")}
GLOBAL = field(f"metadata.annotations['{GLOBAL_INDEX}']")


def test_a_pod_calls_itself_by_its_number_over_all_shards_and_the_job_by_its_own():
    made = numbered(env=[LOCAL, {"name": "A", "value": "1"}])
    assert made["metadata"]["annotations"] == {OFFSET: "4", INDEX: "1", GLOBAL_INDEX: "5"}
    assert made["spec"]["hostname"] == "shard-5"
    assert variables(made) == {
        "FLEET_GLOBAL_INDEX": {"name": "FLEET_GLOBAL_INDEX", **GLOBAL},
        "FLEET_INDEX_OFFSET": {"name": "FLEET_INDEX_OFFSET", "value": "0"},
        "JOB_COMPLETION_INDEX": {"name": "JOB_COMPLETION_INDEX", **GLOBAL},
        "A": {"name": "A", "value": "1"},
    }
    assert list(variables(made))[-1] == "A", "others may refer to the numbers"


def test_host_names_of_all_shards_begin_alike_when_told_so():
    made = numbered(annotations={"fleet.dev/host-name": "train"})
    assert made["spec"]["hostname"] == "train-5"


def test_an_offset_that_the_program_would_add_is_nothing_any_more():
    made = numbered(env=[{"name": "FLEET_INDEX_OFFSET", "value": "4"}])
    assert variables(made)["FLEET_INDEX_OFFSET"]["value"] == "0"


def test_an_index_of_the_templates_own_stays():
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    assert variables(numbered(env=[own]))["JOB_COMPLETION_INDEX"] == own


def test_init_containers_are_told_as_well():
    made = numbered(initContainers=[{"name": "i"}])
    assert made["spec"]["initContainers"][0]["env"]


@pytest.mark.parametrize("subject", [pod(None), pod(index=None)])
def test_any_other_pod_is_left_alone(subject):
    before = repr(subject)
    number_over_shards(subject)
    assert repr(subject) == before


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.5", "٣"])
def test_an_offset_that_is_no_number_is_refused(offset):
    with pytest.raises(Invalid, match="index-offset"):
        numbered(offset)


def test_it_is_what_the_fleet_asks_a_member_for():
    probe = dispatched.probe()
    assert not dispatched.numbers_globally(probe)
    number_over_shards(probe)
    assert dispatched.numbers_globally(probe)
