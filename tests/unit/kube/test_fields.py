from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest
from fleet.kube import builtin
from fleet.kube.fields import SELECTABLE, check, extract, extractor, matcher
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.selectors import FieldSelector


def of(group: str, version: str, resource: str) -> Resource:
    found = builtin.resource(GroupVersionResource(group, version, resource))
    assert found is not None
    return found


def widgets(*selectable: str, namespaced: bool = True) -> Resource:
    return Resource(
        gvr=GroupVersionResource("example.com", "v1", "widgets"),
        kind="Widget",
        namespaced=namespaced,
        verbs=("list",),
        selectable_fields=selectable,
        custom=True,
    )


PODS = of("", "v1", "pods")
NODES = of("", "v1", "nodes")
EVENTS = of("", "v1", "events")
NEW_EVENTS = of("events.k8s.io", "v1", "events")
JOBS = of("batch", "v1", "jobs")
SLICES = of("resource.k8s.io", "v1", "resourceslices")
CONFIG_MAPS = of("", "v1", "configmaps")


def values(resource: Resource, obj: dict[str, Any]) -> dict[str, str]:
    return dict(zip(resource.selectable_fields, extract(resource, obj), strict=True))


@pytest.mark.parametrize(
    ("resource", "labels"),
    [
        (
            PODS,
            "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName "
            "spec.hostNetwork status.phase status.podIP status.podIPs status.nominatedNodeName",
        ),
        (NODES, "spec.unschedulable"),
        (of("", "v1", "namespaces"), "status.phase"),
        (of("", "v1", "secrets"), "type"),
        (of("", "v1", "services"), "spec.clusterIP spec.type"),
        (of("", "v1", "replicationcontrollers"), "status.replicas"),
        (JOBS, "status.successful"),
        (of("certificates.k8s.io", "v1", "certificatesigningrequests"), "spec.signerName"),
        (SLICES, "spec.nodeName spec.driver"),
        (
            EVENTS,
            "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
            "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath "
            "reason reportingComponent source type",
        ),
        (
            NEW_EVENTS,
            "regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion "
            "regarding.resourceVersion regarding.fieldPath reason reportingController type",
        ),
        (CONFIG_MAPS, ""),
        (widgets("spec.color"), "spec.color"),
    ],
)
def test_each_kind_has_its_fields(resource: Resource, labels: str) -> None:
    assert resource.selectable_fields == tuple(labels.split())
    for label in (*labels.split(), "metadata.name"):
        assert check(resource, FieldSelector([(label, "=", "x")])).exact(label) == "x"


@pytest.mark.parametrize(
    ("resource", "label", "message"),
    [
        (PODS, "spec.x", "field label not supported: spec.x"),
        (EVENTS, "regarding.name", "field label not supported: regarding.name"),
        (NEW_EVENTS, "involvedObject.name", "field label not supported: involvedObject.name"),
        (NEW_EVENTS, "source", "field label not supported: source"),
        (NODES, "metadata.namespace", "field label not supported: metadata.namespace"),
        (NODES, "spec.host", "field label not supported: spec.host"),
        (JOBS, "status.failed", 'field label "status.failed" not supported for Job'),
        (
            SLICES,
            "metadata.namespace",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: "
            "metadata.namespace",
        ),
        (
            CONFIG_MAPS,
            "data",
            '"data" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (widgets("spec.color"), "spec.size", "field label not supported: spec.size"),
        (
            widgets(namespaced=False),
            "metadata.namespace",
            "field label not supported: metadata.namespace",
        ),
    ],
)
def test_other_labels_are_refused_in_the_kinds_words(
    resource: Resource, label: str, message: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        check(resource, FieldSelector([("metadata.name", "=", "a"), (label, "=", "x")]))
    assert caught.value.message == message


def test_a_namespace_can_be_selected_by_even_where_there_is_none() -> None:
    # Kinds without a conversion of their own take it whatever their scope.
    selector = FieldSelector([("metadata.namespace", "=", "a")])
    for resource in (PODS, CONFIG_MAPS, of("", "v1", "persistentvolumes"), widgets()):
        assert check(resource, selector) == selector


def test_the_old_name_of_a_pods_node() -> None:
    selector = FieldSelector.parse("spec.host!=n1,status.phase=Running")
    assert str(check(PODS, selector)) == "spec.nodeName!=n1,status.phase=Running"


def test_pod_values() -> None:
    assert values(PODS, {}) == dict.fromkeys(PODS.selectable_fields, "") | {
        "spec.hostNetwork": "false"
    }
    pod = {
        "spec": {
            "nodeName": "n1.east",
            "restartPolicy": "Never",
            "schedulerName": "volcano",
            "serviceAccountName": "default",
            "hostNetwork": True,
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "nominatedNodeName": "n2.east",
        },
    }
    assert values(PODS, pod) == {
        "spec.nodeName": "n1.east",
        "spec.restartPolicy": "Never",
        "spec.schedulerName": "volcano",
        "spec.serviceAccountName": "default",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "10.0.0.1",
        "status.podIPs": "",
        "status.nominatedNodeName": "n2.east",
    }
    assert values(PODS, {"status": {"podIP": "10.0.0.1"}})["status.podIP"] == "10.0.0.1"


@pytest.mark.parametrize(
    ("resource", "obj", "expected"),
    [
        (NODES, {}, {"spec.unschedulable": "false"}),
        (NODES, {"spec": {"unschedulable": True}}, {"spec.unschedulable": "true"}),
        (JOBS, {"status": {}}, {"status.successful": "0"}),
        (JOBS, {"status": {"succeeded": 3}}, {"status.successful": "3"}),
        (of("", "v1", "replicationcontrollers"), {}, {"status.replicas": "0"}),
        (of("", "v1", "secrets"), {"type": "Opaque"}, {"type": "Opaque"}),
        (
            of("", "v1", "services"),
            {"spec": {"clusterIP": "None", "type": "ClusterIP"}},
            {"spec.clusterIP": "None", "spec.type": "ClusterIP"},
        ),
    ],
)
def test_values_and_what_stands_for_absent_ones(
    resource: Resource, obj: dict[str, Any], expected: dict[str, str]
) -> None:
    assert values(resource, obj) == expected


def test_an_events_source_falls_back_to_its_reporter() -> None:
    old = {"source": {"component": "kubelet"}, "reportingComponent": "x"}
    new = {"source": {}, "reportingComponent": "job-controller"}
    assert values(EVENTS, old)["source"] == "kubelet"
    assert values(EVENTS, new)["source"] == "job-controller"
    assert values(EVENTS, new)["reportingComponent"] == "job-controller"
    reference = {"kind": "Pod", "namespace": "a", "name": "p", "uid": "u"}
    assert values(EVENTS, {"involvedObject": reference})["involvedObject.uid"] == "u"
    assert values(NEW_EVENTS, {"regarding": reference})["regarding.uid"] == "u"


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"spec": {"color": "red", "size": 5, "hot": True}}, ("red", "5", "true")),
        ({"spec": {"color": None, "hot": False}}, ("", "", "false")),
        ({"spec": "text"}, ("", "", "")),
        ({}, ("", "", "")),
    ],
)
def test_custom_resources_by_path(obj: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert extract(widgets("spec.color", "spec.size", "spec.hot"), obj) == expected


def test_a_custom_kind_named_like_a_built_in_one_has_no_special_fields() -> None:
    pods = Resource(
        gvr=GroupVersionResource("example.com", "v1", "jobs"),
        kind="Job",
        namespaced=True,
        verbs=("list",),
        selectable_fields=("status.successful",),
        custom=True,
    )
    assert extract(pods, {"status": {"successful": "yes", "succeeded": 3}}) == ("yes",)


def test_extractors_are_made_once() -> None:
    assert extractor(PODS) is extractor(PODS)


labels = st.sampled_from(["metadata.name", "metadata.namespace", *NODES.selectable_fields])
some_values = st.sampled_from(["", "a", "b", "true", "false"])
terms = st.lists(st.tuples(labels, st.sampled_from(["=", "!="]), some_values), max_size=4)


@given(terms, some_values, some_values, some_values)
def test_a_matcher_equals_the_selector_over_the_same_values(
    requirements: list[tuple[str, str, str]], namespace: str, name: str, value: str
) -> None:
    selector = FieldSelector(requirements)  # type: ignore[arg-type]
    get = {
        "metadata.name": name,
        "metadata.namespace": namespace,
        "spec.unschedulable": value,
    }
    matches = matcher(NODES, selector)
    assert matches(namespace, name, (value,)) is selector.matches(get.__getitem__)


def test_every_table_entry_is_of_a_kind_that_exists() -> None:
    served = {(row.gvr.group, row.kind) for row in builtin.resources()}
    beta = {
        ("certificates.k8s.io", "ClusterTrustBundle"),
        ("certificates.k8s.io", "PodCertificateRequest"),
    }
    assert set(SELECTABLE) - beta <= served
