"""What a pod takes of a node: containers, sidecars, resizes, overhead."""

from __future__ import annotations

import pytest

from fleet.scheduling.requests import accelerators, amounts, pod_request, quantity_text, vector


def container(name="main", limits=None, restart=None, **requests):
    made = {"name": name, "resources": {"requests": requests}}
    if limits:
        made["resources"]["limits"] = limits
    if restart:
        made["restartPolicy"] = restart
    return made


def pod(*containers, init=(), **spec):
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(pod(container(cpu="500m"), container(cpu="1")), {"cpu": 1500}, id="sum"),
        pytest.param(
            pod(container(cpu="1", memory="1Gi"), init=[container("i", cpu="3")]),
            {"cpu": 3000, "memory": 1 << 30}, id="an init container raises what it needs more of",
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container("i", cpu="3"), container("j", cpu="2")]),
            {"cpu": 3000}, id="init containers run one after the other",
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container("s", cpu="1", restart="Always")]),
            {"cpu": 2000}, id="a sidecar runs beside",
        ),
        pytest.param(
            pod(
                container(cpu="1"),
                init=[container("s", cpu="1", restart="Always"), container("i", cpu="3")],
            ),
            {"cpu": 4000}, id="an init container after a sidecar has it beside it",
        ),
        pytest.param(
            pod(
                container(cpu="1"),
                init=[container("i", cpu="3"), container("s", cpu="1", restart="Always")],
            ),
            {"cpu": 3000}, id="one before it has not",
        ),
        pytest.param(
            pod(container(cpu="1"), overhead={"cpu": "250m"}), {"cpu": 1250}, id="overhead"
        ),
        pytest.param(
            pod(container(cpu="1"), resources={"requests": {"cpu": "4", "nvidia.com/gpu": "9"}},
                overhead={"cpu": "1"}),
            {"cpu": 5000}, id="requests of the whole pod, for what these may be made of",
        ),
        pytest.param(
            pod(container(limits={"nvidia.com/gpu": "2", "cpu": "2"}, cpu="1")),
            {"cpu": 1000, "nvidia.com/gpu": 2}, id="a limit alone is a request",
        ),
        pytest.param(pod(container(cpu="1m", memory="1")), {"cpu": 1, "memory": 1}, id="small"),
        pytest.param(pod(container(cpu="100u")), {"cpu": 1}, id="rounded up"),
    ],
)  # fmt: skip
def test_requests(given, expected):
    assert pod_request(given) == {**expected, "pods": 1}


@pytest.mark.parametrize(
    ("status", "conditions", "cpu"),
    [
        pytest.param({"resources": {"requests": {"cpu": "1"}}}, [], 1000, id="as asked for"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, [], 3000, id="shrinks later"),
        pytest.param(
            {"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "2"}},
            [], 2000, id="allocated more",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}},
            [{"type": "PodResizePending", "reason": "Infeasible"}], 500, id="cannot grow",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "500m"}}},
            [{"type": "PodResizePending", "reason": "Deferred"}], 1000, id="will grow",
        ),
        pytest.param({}, [], 1000, id="says nothing"),
    ],
)  # fmt: skip
def test_a_resize_counts_as_the_most_it_may_take(status, conditions, cpu):
    given = pod(container(cpu="1"))
    given["status"] = {
        "containerStatuses": [{"name": "main", **status}], "conditions": conditions,
    }  # fmt: skip
    assert pod_request(given)["cpu"] == cpu


def test_a_vector_is_sorted_and_without_zeros():
    assert vector({"memory": 1, "cpu": 0, "a": 2}) == (("a", 2), ("memory", 1))


@pytest.mark.parametrize(
    ("resource", "count"),
    [
        ("nvidia.com/gpu", 3), ("amd.com/gpu", 3), ("example.com/npu", 3),
        ("nvidia.com/mig-1g.5gb", 3),
        ("google.com/tpu", 3), ("habana.ai/gaudi", 3), ("aws.amazon.com/neuron", 3),
        ("rdma/hca_shared", 0), ("cpu", 0), ("smarter-devices.kubernetes.io/gpu", 0),
    ],
)  # fmt: skip
def test_what_counts_as_an_accelerator(resource, count):
    assert accelerators({resource: 3, "memory": 5}) == count
    assert accelerators(((resource, 3),)) == count


@pytest.mark.parametrize(
    ("name", "text"),
    [("cpu", "1500m"), ("cpu", "4"), ("memory", "16Gi"), ("memory", "1k"), ("nvidia.com/gpu", "8"),
     ("hugepages-2Mi", "2Mi")],
)  # fmt: skip
def test_amounts_are_written_back_as_quantities(name, text):
    assert quantity_text(name, amounts({name: text})[name]) == text
