"""What a pod's containers need at once, against its definition read literally (KEP-753)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.amounts import add, of_containers, raise_to
from fleet.kube.quantity import Quantity

CPU = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 4), max_size=2)
CONTAINERS = st.lists(CPU.map(lambda asked: {"asked": asked}), max_size=3)
INITIAL = st.lists(
    st.tuples(CPU, st.sampled_from(["", "Always"])).map(
        lambda pair: {"asked": pair[0], "restartPolicy": pair[1]}
    ),
    max_size=4,
)


def literally(containers, initial, name):
    """The most there is at any one time: beside each init container, and once all run."""
    moments, sidecars = [], 0
    for container in initial:
        mine = container["asked"].get(name, 0)
        moments.append(sidecars + mine)
        if container["restartPolicy"] == "Always":
            sidecars += mine
    moments.append(sidecars + sum(each["asked"].get(name, 0) for each in containers))
    return max(moments)


@given(containers=CONTAINERS, initial=INITIAL)
def test_a_pod_needs_what_runs_at_once_at_the_most(containers, initial):
    spec = {"containers": containers, "initContainers": initial}
    before = repr(spec)
    found = of_containers(spec, lambda each: each["asked"])
    for name in ("cpu", "memory"):
        assert found.get(name, 0) == literally(containers, initial, name)
    assert repr(spec) == before
    quantities = of_containers(
        spec, lambda each: {name: Quantity.of(value) for name, value in each["asked"].items()}
    )
    assert {name: each.value for name, each in quantities.items()} == found


def test_sums_and_least_amounts_change_the_total_in_place():
    total = {"cpu": 1}
    add(total, {"cpu": 1, "memory": 3})
    raise_to(total, {"cpu": 1, "memory": 5, "pods": 0})
    assert total == {"cpu": 2, "memory": 5, "pods": 0}
    assert of_containers({}, lambda _: total) == {}
