"""Projection kind by kind, what bodies may say, revisions, and a member's Status."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleet.errors import BadRequest, Conflict, Invalid
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource, Resource, Subresource
from fleet.kube.revision import Revision
from fleet.view.projection import Projector

KINDS = {row.kind: row for row in builtin.resources()} | {
    row.kind: row for row in builtin.resources() if row.gvr.group == ""
}
REVISION = Revision(5 << 40 | 77)
SHOP = Resource(
    GroupVersionResource("example.com", "v1", "shops"),
    "Shop",
    namespaced=False,
    verbs=("get",),
    custom=True,
    subresources=(
        Subresource("status", "Shop", ("get",)),
        Subresource("scale", "Scale", ("get",), "autoscaling", "v1"),
    ),
)


def projector(kind: str, member: str = "east") -> Projector:
    return Projector(member, KINDS[kind])


def projected(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return projector(kind).project(copy.deepcopy(obj), revision=REVISION)


def meta(**fields: Any) -> dict[str, Any]:
    return {"metadata": fields}


# -- there


def test_a_pod_as_the_fleet_shows_it() -> None:
    pod = {
        "metadata": {"name": "web", "namespace": "payments", "resourceVersion": "17"},
        "spec": {"nodeName": "n1", "priorityClassName": "high", "runtimeClassName": "gvisor"},
        "status": {"nominatedNodeName": "n2"},
    }
    assert projected("Pod", pod) == {
        "metadata": {
            "name": "web",
            "namespace": "payments.east",
            "resourceVersion": str(REVISION),
            "labels": {"fleet.dev/cluster": "east"},
            "annotations": {"fleet.dev/member-resource-version": "17"},
        },
        "spec": {"nodeName": "n1.east", "priorityClassName": "high", "runtimeClassName": "gvisor"},
        "status": {"nominatedNodeName": "n2.east"},
    }


TEMPLATE = {"template": {"spec": {"nodeName": "n1"}}}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "EndpointSlice",
        {"endpoints": [{"nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "p"}}, {}]},
        {
            "endpoints": [
                {"nodeName": "n1.east", "targetRef": {"kind": "Pod", "namespace": "p.east"}},
                {},
            ]
        },
    ),
    (
        "Endpoints",
        {
            "subsets": [
                {
                    "addresses": [{"nodeName": "n1", "targetRef": {"kind": "Node", "name": "n1"}}],
                    "notReadyAddresses": [{"nodeName": "n2"}],
                }
            ]
        },
        {
            "subsets": [
                {
                    "addresses": [
                        {"nodeName": "n1.east", "targetRef": {"kind": "Node", "name": "n1.east"}}
                    ],
                    "notReadyAddresses": [{"nodeName": "n2.east"}],
                }
            ]
        },
    ),
    (
        "PersistentVolumeClaim",
        {"spec": {"volumeName": "pv", "storageClassName": "gp3"}},
        {"spec": {"volumeName": "pv.east", "storageClassName": "gp3"}},
    ),
    (
        "PersistentVolume",
        {"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "p", "name": "c"}}},
        {
            "spec": {
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "p.east", "name": "c"}
            }
        },
    ),
    (
        "VolumeAttachment",
        {"spec": {"nodeName": "n1", "source": {"persistentVolumeName": "pv"}}},
        {"spec": {"nodeName": "n1.east", "source": {"persistentVolumeName": "pv.east"}}},
    ),
    (
        "Event",
        {
            "involvedObject": {"kind": "Pod", "namespace": "p", "name": "n1"},
            "source": {"host": "n1"},
        },
        {
            "involvedObject": {"kind": "Pod", "namespace": "p.east", "name": "n1"},
            "source": {"host": "n1"},
        },
    ),
    (
        "Event",
        {"involvedObject": {"kind": "Node", "name": "n1", "uid": "n1"}},
        {"involvedObject": {"kind": "Node", "name": "n1.east", "uid": "n1.east"}},
    ),
    (
        "Event",
        {"involvedObject": {"kind": "Node", "apiVersion": "v1", "name": "a", "uid": "a1b2c3"}},
        {"involvedObject": {"kind": "Node", "apiVersion": "v1", "name": "a.east", "uid": "a1b2c3"}},
    ),
    (
        "Event",
        {"involvedObject": {"kind": "Node", "apiVersion": "longhorn.io/v1", "name": "n1"}},
        {"involvedObject": {"kind": "Node", "apiVersion": "longhorn.io/v1", "name": "n1"}},
    ),
    (
        "RoleBinding",
        {
            "roleRef": {"kind": "ClusterRole", "name": "edit"},
            "subjects": [
                {"kind": "ServiceAccount", "namespace": "p"},
                {"kind": "User", "name": "u"},
            ],
        },
        {
            "roleRef": {"kind": "ClusterRole", "name": "edit.east"},
            "subjects": [
                {"kind": "ServiceAccount", "namespace": "p.east"},
                {"kind": "User", "name": "u"},
            ],
        },
    ),
    (
        "RoleBinding",
        {"roleRef": {"kind": "Role", "name": "edit"}},
        {"roleRef": {"kind": "Role", "name": "edit"}},
    ),
    (
        "ValidatingWebhookConfiguration",
        {"webhooks": [{"clientConfig": {"service": {"namespace": "p", "name": "s"}}}]},
        {"webhooks": [{"clientConfig": {"service": {"namespace": "p.east", "name": "s"}}}]},
    ),
    (
        "APIService",
        {"spec": {"service": {"namespace": "kube-system", "name": "metrics-server"}}},
        {"spec": {"service": {"namespace": "kube-system.east", "name": "metrics-server"}}},
    ),
    ("Deployment", {"spec": TEMPLATE}, {"spec": {"template": {"spec": {"nodeName": "n1.east"}}}}),
    (
        "CronJob",
        {"spec": {"jobTemplate": {"spec": TEMPLATE}}},
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"nodeName": "n1.east"}}}}}},
    ),
    (
        "ControllerRevision",
        {"data": {"spec": {"template": {"$patch": "replace", "spec": {"nodeName": "n1"}}}}},
        {"data": {"spec": {"template": {"$patch": "replace", "spec": {"nodeName": "n1.east"}}}}},
    ),
    (
        "SelfSubjectAccessReview",
        {"spec": {"resourceAttributes": {"resource": "pods", "namespace": "p", "name": "x"}}},
        {"spec": {"resourceAttributes": {"resource": "pods", "namespace": "p.east", "name": "x"}}},
    ),
    (
        "SelfSubjectAccessReview",
        {"spec": {"resourceAttributes": {"resource": "nodes", "name": "n1"}}},
        {"spec": {"resourceAttributes": {"resource": "nodes", "name": "n1.east"}}},
    ),
]


@pytest.mark.parametrize(("kind", "obj", "shown"), CASES)
def test_references_are_projected(kind: str, obj: dict[str, Any], shown: dict[str, Any]) -> None:
    assert projected(kind, obj) == shown
    assert projector(kind).unproject(copy.deepcopy(shown)) == obj


def test_owners_are_projected_where_they_are_cluster_scoped() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
        {"apiVersion": "example.com/v1", "kind": "Shop", "name": "s"},
    ]
    shown = projected("Pod", meta(name="x", namespace="p", ownerReferences=owners))
    names = [owner["name"] for owner in shown["metadata"]["ownerReferences"]]
    assert names == ["n1.east", "web", "s"]


def test_a_cluster_scoped_object_carries_the_member_in_its_name() -> None:
    node = projected("Node", meta(name="ip-10.compute.internal", generateName="ip-"))
    assert node["metadata"]["name"] == "ip-10.compute.internal.east"
    assert node["metadata"]["generateName"] == "ip-"
    assert "namespace" not in node["metadata"]


def test_a_custom_resource_has_no_references_that_are_known() -> None:
    obj = {"metadata": {"name": "s"}, "spec": {"nodeName": "n1"}, "roleRef": {"name": "x"}}
    shown = Projector("east", SHOP).project(copy.deepcopy(obj), revision=REVISION)
    assert shown["metadata"]["name"] == "s.east"
    assert shown["spec"] == obj["spec"]


def test_an_answer_without_a_revision_of_its_own_shows_none() -> None:
    shown = projector("Pod").project(meta(name="x", resourceVersion="17"), revision=Revision(0))
    assert "resourceVersion" not in shown["metadata"]
    assert "resourceVersion" not in projected("Pod", meta(name="x"))["metadata"]


def test_last_applied_configuration_is_the_users_text_both_ways() -> None:
    text = '{"kind":"Pod","metadata":{"namespace":"payments.east"},"spec":{"nodeName":"n1.east"}}'
    key = "kubectl.kubernetes.io/last-applied-configuration"
    shown = projected("Pod", meta(name="x", namespace="payments", annotations={key: text}))
    assert shown["metadata"]["annotations"][key] == text
    assert projector("Pod").unproject(shown)["metadata"]["annotations"] == {key: text}


def test_a_mark_of_the_members_own_is_kept_and_comes_back() -> None:
    obj = meta(
        name="x",
        resourceVersion="17",
        labels={"fleet.dev/cluster": "idc"},
        annotations={"fleet.dev/member-resource-version": "3"},
    )
    shown = projected("Pod", obj)
    assert shown["metadata"]["labels"] == {"fleet.dev/cluster": "east"}
    assert shown["metadata"]["annotations"]["fleet.dev/member-resource-version"] == "17"
    assert projector("Pod").unproject(shown) == obj


# -- and back


def test_a_body_of_another_namespace_is_refused_in_upstreams_words() -> None:
    said = "the namespace of the provided object does not match the namespace sent on the request"
    for namespace in ("payments", "payments.west", "other.east", ".east"):
        with pytest.raises(BadRequest) as error:
            projector("Pod").unproject(meta(namespace=namespace), namespace="payments.east")
        assert error.value.message == said


def test_a_body_without_a_namespace_takes_the_urls() -> None:
    body = projector("Pod").unproject(meta(name="x", namespace=""), namespace="payments.east")
    assert body == meta(name="x", namespace="")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "n1.east",
            "the name of the object (n2.east) does not match the name on the URL (n1.east)",
        ),
        ("", 'the name of the object (n2) is none of member east, whose names end in ".east"'),
    ],
)
def test_a_cluster_scoped_body_of_another_name_is_refused(name: str, said: str) -> None:
    body = meta(name="n2.east" if name else "n2")
    with pytest.raises(BadRequest) as error:
        projector("Node").unproject(body, name=name)
    assert error.value.message == said


def test_references_into_other_members_are_refused_each_by_its_field() -> None:
    body = {
        "metadata": {"name": "b", "namespace": "p.east", "labels": {"fleet.dev/cluster": "west"}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "p.west", "name": "a"}],
    }
    with pytest.raises(Invalid) as error:
        projector("RoleBinding").unproject(body, namespace="p.east", name="b")
    details = error.value.details
    assert details is not None
    assert {cause.field: cause.message for cause in details.causes} == {
        "metadata.labels[fleet.dev/cluster]": (
            'Invalid value: "west": says which member the object is in, and that is east; '
            "leave the label out"
        ),
        "roleRef.name": (
            'Invalid value: "edit": names no ClusterRole of member east, whose names end in '
            '".east"; did you mean "edit.east"?'
        ),
        "subjects[0].namespace": (
            'Invalid value: "p.west": names no namespace of member east, whose names end in '
            '".east"; did you mean "p.east"?'
        ),
    }
    assert error.value.message.startswith('RoleBinding.rbac.authorization.k8s.io "b" is invalid: [')


@pytest.mark.parametrize("text", ["{", "[]", '{"x":1}', "", "5"])
def test_a_forged_note_of_what_was_displaced_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="send it as it was read"):
        projector("Pod").unproject(meta(annotations={"fleet.dev/member-metadata": text}))


# -- revisions


def known(revision: Revision) -> str | None:
    return {REVISION: "17", Revision(REVISION + 1): "18"}.get(revision)


def body_at(revision: int | str, told: str | None = None) -> dict[str, Any]:
    annotations = {} if told is None else {"fleet.dev/member-resource-version": told}
    return meta(name="x", resourceVersion=str(revision), annotations=annotations)


def test_a_revision_goes_back_by_the_cache_or_by_the_annotation() -> None:
    for body in (body_at(REVISION), body_at(REVISION, "17"), body_at(REVISION + 9, "17")):
        back = projector("Pod").unproject(body, revision_of=known)
        assert back["metadata"]["resourceVersion"] == "17"


@pytest.mark.parametrize(
    "body", [body_at(REVISION, "16"), body_at(REVISION + 9)], ids=["mismatch", "unknown"]
)
def test_a_revision_that_does_not_fit_is_a_conflict(body: dict[str, Any]) -> None:
    with pytest.raises(Conflict) as error:
        projector("Pod").unproject(body, name="x", revision_of=known)
    assert error.value.message == (
        'Operation cannot be fulfilled on pods "x": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )


@pytest.mark.parametrize("text", ["", "0"])
def test_a_body_without_a_revision_stays_unconditional(text: str) -> None:
    back = projector("Pod").unproject(body_at(text, "17"), revision_of=known)
    assert back["metadata"]["resourceVersion"] == text
    assert "annotations" not in back["metadata"]


def test_a_revision_that_is_none_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="invalid resource version"):
        projector("Pod").unproject(body_at("1a"), revision_of=known)


def test_preconditions_of_a_deletion_go_back() -> None:
    options = {"preconditions": {"uid": "u", "resourceVersion": str(REVISION)}}
    back = projector("Pod").unproject_delete_options(options, name="x", revision_of=known)
    assert back == {"preconditions": {"uid": "u", "resourceVersion": "17"}}
    with pytest.raises(Conflict):
        projector("Pod").unproject_delete_options(
            {"preconditions": {"resourceVersion": "5"}}, revision_of=known
        )
    assert projector("Pod").unproject_delete_options({}) == {}


# -- subresources


def test_an_eviction_goes_to_the_pod_with_its_preconditions() -> None:
    eviction = projector("Pod").subresource("eviction")
    body = {
        "metadata": {"name": "x", "namespace": "p.east"},
        "deleteOptions": {"preconditions": {"resourceVersion": str(REVISION)}},
    }
    back = eviction.unproject(body, namespace="p.east", revision_of=known)
    assert back["metadata"] == {"name": "x", "namespace": "p"}
    assert back["deleteOptions"]["preconditions"]["resourceVersion"] == "17"
    body = {"deleteOptions": {"preconditions": {"resourceVersion": "5"}}}
    with pytest.raises(Conflict, match='fulfilled on pods "x"'):
        eviction.unproject(body, name="x", revision_of=known)


def test_a_binding_names_a_node_whether_or_not_it_says_so() -> None:
    binding = projector("Pod").subresource("binding")
    body = {"metadata": {"name": "x", "namespace": "p.east"}, "target": {"name": "n1.east"}}
    assert binding.unproject(body)["target"] == {"name": "n1"}
    with pytest.raises(Invalid, match=r"target\.name"):
        binding.unproject({"target": {"kind": "Node", "name": "n1"}})


def test_a_token_may_be_bound_to_a_node() -> None:
    token = projector("ServiceAccount").subresource("token")
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": "n1.east"}}
    assert token.unproject({"spec": bound})["spec"]["boundObjectRef"]["name"] == "n1"
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}
    assert token.unproject({"spec": bound})["spec"]["boundObjectRef"]["name"] == "p"


def test_a_scale_carries_the_names_and_the_revision_of_its_object() -> None:
    scale = Projector("east", SHOP).subresource("scale")
    shown = scale.project(meta(name="s", resourceVersion="17"), revision=REVISION)
    assert shown["metadata"]["name"] == "s.east"
    assert scale.unproject(shown, name="s.east", revision_of=known) == meta(
        name="s", resourceVersion="17"
    )


@pytest.mark.parametrize("name", ["status", "resize", "ephemeralcontainers", "no-such"])
def test_subresources_of_the_same_kind_are_the_object(name: str) -> None:
    pods = projector("Pod")
    assert pods.subresource(name) is pods


# -- Status


def status(message: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "message": message, "details": details}


STATUSES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "Pod",
        status('pods "x" not found', name="x", kind="pods"),
        status('pods "x" not found', name="x", kind="pods"),
    ),
    (
        "Node",
        status('nodes "n1" not found', name="n1", kind="nodes"),
        status('nodes "n1.east" not found', name="n1.east", kind="nodes"),
    ),
    (
        "Node",
        status('Node "n1" is invalid: spec.x: bad', name="n1", kind="Node"),
        status('Node "n1.east" is invalid: spec.x: bad', name="n1.east", kind="Node"),
    ),
    (
        "Pod",
        status('namespaces "p" not found', name="p", kind="namespaces"),
        status('namespaces "p.east" not found', name="p.east", kind="namespaces"),
    ),
    (
        "Pod",
        status(
            'pods is forbidden: User "fleet:joe" cannot list resource "pods" in API group "" in '
            'the namespace "p"',
            kind="pods",
        ),
        status(
            'pods is forbidden: User "fleet:joe" cannot list resource "pods" in API group "" in '
            'the namespace "p.east"',
            kind="pods",
        ),
    ),
    (
        "Pod",
        status(
            'pods "x" is forbidden: unable to create new content in namespace p because it is '
            "being terminated",
            name="x",
            kind="pods",
            causes=[{"message": "namespace p is being terminated"}],
        ),
        status(
            'pods "x" is forbidden: unable to create new content in namespace p.east because it is '
            "being terminated",
            name="x",
            kind="pods",
            causes=[{"message": "namespace p.east is being terminated"}],
        ),
    ),
    (
        "Pod",
        status(
            'pods "x" is forbidden: error looking up service account p/sa: serviceaccount "sa" not '
            "found",
            name="x",
            kind="pods",
        ),
        status(
            'pods "x" is forbidden: error looking up service account p.east/sa: serviceaccount '
            '"sa" not found',
            name="x",
            kind="pods",
        ),
    ),
    ("Pod", {"message": None, "details": None}, {"message": None, "details": None}),
    ("Node", {"details": {"name": 5, "kind": 7}}, {"details": {"name": 5, "kind": 7}}),
]


@pytest.mark.parametrize(("kind", "told", "shown"), STATUSES)
def test_a_status_names_what_the_fleet_shows(
    kind: str, told: dict[str, Any], shown: dict[str, Any]
) -> None:
    assert projector(kind).project_status(told) == shown


def test_a_status_of_a_deletion_names_it_too() -> None:
    told = {"kind": "Status", "status": "Success", "details": {"name": "n1", "kind": "nodes"}}
    assert projector("Node").project_status(told)["details"]["name"] == "n1.east"


def test_a_status_about_a_cluster_scoped_custom_resource_names_it_projected() -> None:
    told = status('shops.example.com "s" not found', name="s", kind="shops", group="example.com")
    for about in (Projector("east", SHOP), Projector("east", SHOP).subresource("scale")):
        shown = about.project_status(copy.deepcopy(told))
        assert shown["message"] == 'shops.example.com "s.east" not found'
        assert shown["details"]["name"] == "s.east"
