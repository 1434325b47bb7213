"""Names of what dispatch puts into members: labels, unique, and recognisable."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch.marks import SHARD_NAME_LIMIT, gate_name, is_pod_of, shard_name

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
workloads = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)
clusters = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?", fullmatch=True)
generations = st.integers(1, 10**6)


def test_a_short_name_is_plain():
    assert shard_name("train", generation=1, cluster="east") == "train-g1-east"
    assert gate_name("train-g1-east") == "train-g1-east-gate"


@given(workloads, generations, clusters)
def test_a_shard_name_is_a_label_that_leaves_room_for_indexes(workload, generation, cluster):
    name = shard_name(workload, generation=generation, cluster=cluster)
    assert len(name) <= SHARD_NAME_LIMIT
    assert LABEL.fullmatch(name)
    # A Job controller cuts names of pods off at 58 before it adds five letters.
    assert len(f"{name}-99999-") <= 58


@given(st.lists(st.tuples(workloads, generations), min_size=2, max_size=2, unique=True), clusters)
def test_no_two_shards_of_a_cluster_share_a_name(shards, cluster):
    first, second = (shard_name(w, generation=g, cluster=cluster) for w, g in shards)
    assert first != second


@given(workloads, generations, clusters, st.from_regex(r"[a-z0-9]{5}", fullmatch=True))
def test_pods_of_a_shard_are_known_by_their_names(workload, generation, cluster, suffix):
    name = shard_name(workload, generation=generation, cluster=cluster)
    assert is_pod_of(name, f"{name}-{suffix}")
    assert is_pod_of(name, f"{name}-17-{suffix}")
    assert not is_pod_of(name, name)
    assert not is_pod_of(name, f"x{name}-{suffix}")


def test_a_job_of_a_longer_name_has_pods_of_its_own():
    assert not is_pod_of("train-g1-east", "train-g1-east-west-12345-abcde")
