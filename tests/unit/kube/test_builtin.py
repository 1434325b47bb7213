from __future__ import annotations

import re

import pytest

from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource, Subresource


def test_the_release() -> None:
    assert re.fullmatch(r"v1\.36\.\d+", builtin.release())


def test_a_resource_in_full() -> None:
    deployments = builtin.resource(GroupVersionResource("apps", "v1", "deployments"))
    assert deployments is not None
    assert deployments.kind == "Deployment"
    assert deployments.namespaced
    assert deployments.singular == "deployment"
    assert deployments.short_names == ("deploy",)
    assert deployments.categories == ("all",)
    assert set(deployments.verbs) == {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    }
    assert deployments.subresource("scale") == Subresource(
        "scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1"
    )
    assert deployments.subresource("status") == Subresource(
        "status", "Deployment", ("get", "patch", "update")
    )
    assert not deployments.custom


def test_pods_have_the_subresources_that_clients_use() -> None:
    pods = builtin.by_kind("v1", "Pod")
    assert pods is not None
    assert {sub.name for sub in pods.subresources} >= set(
        "attach binding ephemeralcontainers eviction exec log portforward proxy resize status"
        .split()
    )  # fmt: skip
    assert "spec.nodeName" in pods.selectable_fields


@pytest.mark.parametrize(
    ("api_version", "kind", "resource"),
    [
        ("v1", "Endpoints", "endpoints"),
        ("networking.k8s.io/v1", "Ingress", "ingresses"),
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    ],
)
def test_lookup_by_kind(api_version: str, kind: str, resource: str) -> None:
    found = builtin.by_kind(api_version, kind)
    assert found is not None
    assert found.gvr.resource == resource
    assert builtin.resource(found.gvr) is found


def test_what_is_not_built_in() -> None:
    assert builtin.resource(GroupVersionResource("apps", "v1beta1", "deployments")) is None
    assert builtin.by_kind("v1", "Widget") is None


def test_only_stable_versions_are_served_by_default() -> None:
    versions = {row.gvr.version for row in builtin.resources()}
    assert versions == {"v1", "v2"}
    served = {row.gvr.group for row in builtin.resources()}
    assert set(builtin.group_order()) - served == {
        "internal.apiserver.k8s.io",
        "storagemigration.k8s.io",
    }


def test_upstreams_order() -> None:
    order = list(builtin.group_order())
    assert order[:4] == ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]
    autoscaling = [r.gvr.version for r in builtin.resources() if r.gvr.group == "autoscaling"]
    assert autoscaling == ["v2", "v1"]


def test_each_coordinate_and_each_kind_of_a_version_occurs_once() -> None:
    rows = builtin.resources()
    assert len({row.gvr for row in rows}) == len(rows)
    assert len({(row.api_version, row.kind) for row in rows}) == len(rows)
