"""A patch does to the member's object what it says to the projected one.

The law: unproject(patch(project(x))) = patch'(x), where patch' is the patch on its way back.
"""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import ApiError, BadRequest, Conflict, Invalid, UnsupportedMediaType
from fleet.kube import builtin
from fleet.kube.patch import apply_json_patch, apply_merge_patch, apply_strategic_merge_patch
from fleet.kube.revision import Revision
from fleet.kube.schema import schema_for
from fleet.view.projection import Projector

KINDS = {(row.gvr.group, row.kind): row for row in builtin.resources()}
REVISION = Revision(5 << 40 | 77)
JSON, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json; charset=utf-8",
    "application/apply-patch+yaml",
)
POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web",
        "namespace": "payments",
        "resourceVersion": "17",
        "labels": {"app": "web"},
        "annotations": {"team": "a"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
}
BARE: dict[str, Any] = {
    **POD,
    "metadata": {"name": "web", "namespace": "payments", "resourceVersion": "17"},
}
EVENT: dict[str, Any] = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": {"name": "n1.17", "namespace": "default", "resourceVersion": "17"},
    "involvedObject": {"kind": "Node", "name": "n1", "uid": "n1"},
}
BINDING: dict[str, Any] = {
    "kind": "RoleBinding",
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "metadata": {"name": "b", "namespace": "payments", "resourceVersion": "17"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [
        {"kind": "ServiceAccount", "name": "a", "namespace": "payments"},
        {"kind": "ServiceAccount", "name": "b", "namespace": "infra"},
    ],
}
NODE: dict[str, Any] = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1", "resourceVersion": "17", "labels": {"zone": "a"}},
}
OBJECTS = [POD, BARE, EVENT, BINDING, NODE]


def projector_of(obj: dict[str, Any]) -> Projector:
    group = obj["apiVersion"].rpartition("/")[0]
    return Projector("east", KINDS[group, obj["kind"]])


def projected(obj: dict[str, Any]) -> dict[str, Any]:
    return projector_of(obj).project(copy.deepcopy(obj), revision=REVISION)


def revision_of(revision: Revision) -> str | None:
    return "17" if revision == REVISION else None


def carried(obj: dict[str, Any], content_type: str, patch: Any) -> Any:
    """The patch as it reaches the member."""
    seen = projected(obj)
    body = projector_of(obj).unproject_patch(
        content_type,
        patch if isinstance(patch, bytes) else orjson.dumps(patch),
        namespace=seen["metadata"].get("namespace", ""),
        name=seen["metadata"]["name"],
        revision_of=revision_of,
        current=seen,
    )
    return orjson.loads(body)


def commutes(obj: dict[str, Any], content_type: str, patch: Any) -> None:
    """Patched as the fleet shows it and taken back = taken back and patched in the member."""
    apply: Any = {JSON: apply_json_patch, MERGE: apply_merge_patch}.get(content_type)
    if apply is None:
        schema = schema_for(*_gvk(obj))
        assert schema is not None

        def apply(doc: Any, body: Any) -> Any:
            return apply_strategic_merge_patch(doc, body, schema)

    in_fleet = apply(projected(obj), copy.deepcopy(patch))
    in_member = apply(copy.deepcopy(obj), carried(obj, content_type, patch))
    back = projector_of(obj).unproject(in_fleet, revision_of=revision_of)
    for side in (back, in_member):
        for key in ("labels", "annotations"):
            # An empty map and none are one thing to an API server.
            if not side["metadata"].get(key):
                side["metadata"].pop(key, None)
    assert in_member == back


def _gvk(obj: dict[str, Any]) -> tuple[str, str, str]:
    group, _, version = obj["apiVersion"].rpartition("/")
    return group, version, obj["kind"]


# -- merge and strategic merge


MERGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (POD, {"metadata": {"labels": {"app": None, "x": "y"}}}),
    (POD, {"metadata": {"labels": None, "annotations": None}}),
    (POD, {"metadata": {"labels": {"fleet.dev/cluster": None}}}),
    (POD, {"metadata": {"labels": {"fleet.dev/cluster": "east", "x": "y"}}}),
    (POD, {"metadata": {"annotations": {"fleet.dev/member-resource-version": None, "x": "y"}}}),
    (POD, {"metadata": {"namespace": "payments.east", "name": "web"}, "spec": {"nodeName": None}}),
    (POD, {"metadata": {"resourceVersion": str(REVISION)}, "spec": {"nodeName": "n2.east"}}),
    (POD, {"metadata": {"resourceVersion": None}}),
    (POD, {"metadata": {"ownerReferences": None}}),
    (BARE, {"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}),
    (BINDING, {"subjects": [{"kind": "ServiceAccount", "name": "c", "namespace": "x.east"}]}),
    (BINDING, {"roleRef": {"apiGroup": "", "kind": "Role", "name": "edit"}}),
    (BINDING, {"roleRef": {"apiGroup": None, "kind": "ClusterRole", "name": "view.east"}}),
    (EVENT, {"count": 2, "involvedObject": {"namespace": "default.east"}}),
    (EVENT, {"involvedObject": None, "related": {"resourceVersion": "5"}}),
    (EVENT, {"involvedObject": {"kind": "Pod", "name": "p", "uid": "u", "apiVersion": "v1"}}),
    (EVENT, {"related": {"kind": "Node", "name": "a.east", "uid": "a.east", "apiVersion": "v1"}}),
    (NODE, {"metadata": {"name": "n1.east", "labels": {"zone": "b"}}, "spec": {"x": 1}}),
]


@pytest.mark.parametrize(("obj", "patch"), MERGES)
@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_merge_patches_commute_with_projection(
    obj: dict[str, Any], patch: dict[str, Any], content_type: str
) -> None:
    commutes(obj, content_type, patch)


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"ownerReferences": [{"uid": "u1", "$patch": "delete"}]}},
        {
            "metadata": {
                "$setElementOrder/ownerReferences": [{"uid": "u2"}, {"uid": "u1"}],
                "ownerReferences": [
                    {"uid": "u2", "apiVersion": "v1", "kind": "Node", "name": "n2.east"}
                ],
            }
        },
        {"metadata": {"ownerReferences": [{"uid": "u1", "blockOwnerDeletion": True}]}},
        {"metadata": {"labels": {"$patch": "replace", "x": "y"}}},
        {"spec": {"containers": [{"name": "c", "image": "j"}], "$retainKeys": ["containers"]}},
    ],
)
def test_strategic_directives_commute_with_projection(patch: dict[str, Any]) -> None:
    commutes(POD, STRATEGIC, patch)


values = st.sampled_from(["n1.east", "n2.east", "payments.east", "", None, 5])
kinds = st.sampled_from(["Node", "ClusterRole", "Pod", "Role", None])


@st.composite
def merge_patches(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    obj = draw(st.sampled_from(OBJECTS))
    text_map = st.none() | st.dictionaries(
        st.sampled_from(["app", "team", "x"]), st.none() | st.sampled_from(["a", "b"])
    )
    reference = st.fixed_dictionaries(
        {},
        optional={
            "kind": kinds,
            "name": st.sampled_from(["n1.east", "n2.east"]),
            "apiVersion": st.sampled_from(["v1", "longhorn.io/v1", None]),
            "apiGroup": st.sampled_from(["rbac.authorization.k8s.io", "", None]),
            "namespace": values,
            "uid": st.sampled_from(["u", "n1.east"]),
        },
    )
    subjects = st.lists(st.fixed_dictionaries({}, optional={"namespace": values}), max_size=2)
    patch = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.fixed_dictionaries(
                    {},
                    optional={
                        "labels": text_map,
                        "annotations": text_map,
                        "resourceVersion": st.sampled_from([str(REVISION), "", None]),
                        "ownerReferences": st.none()
                        | st.lists(reference.map(lambda r: {**r, "uid": "u9"}), max_size=1),
                    },
                ),
                "spec": st.fixed_dictionaries({}, optional={"nodeName": values}),
                "roleRef": reference,
                "involvedObject": reference,
                "subjects": st.none() | subjects,
            },
        )
    )
    return obj, patch


@given(merge_patches())
def test_any_merge_patch_commutes_or_is_refused(
    case: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    obj, patch = case
    try:
        carried(obj, MERGE, patch)
    except Invalid:
        return
    commutes(obj, MERGE, patch)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
@pytest.mark.parametrize(
    ("obj", "patch", "field"),
    [
        (POD, {"spec": {"nodeName": "n1.west"}}, "spec.nodeName"),
        (POD, {"spec": {"nodeName": "n1"}}, "spec.nodeName"),
        (POD, {"spec": {"nodeName": ".east"}}, "spec.nodeName"),
        (
            POD,
            {"metadata": {"labels": {"fleet.dev/cluster": "west"}}},
            "metadata.labels[fleet.dev/cluster]",
        ),
        (BINDING, {"roleRef": {"name": "view.east"}}, "roleRef"),
        (BINDING, {"roleRef": {"kind": "Role", "name": "x"}}, "roleRef"),
        (
            BINDING,
            {"subjects": [{"namespace": "x.east"}, {"namespace": "y"}]},
            "subjects[1].namespace",
        ),
    ],
)
def test_merge_patches_that_reach_out_are_refused_by_field(
    obj: dict[str, Any], patch: dict[str, Any], field: str, content_type: str
) -> None:
    with pytest.raises(Invalid) as refused:
        carried(obj, content_type, patch)
    assert refused.value.details is not None
    assert refused.value.details.causes[0].field.startswith(field)


def test_a_part_of_an_owner_in_a_strategic_patch_is_refused() -> None:
    patch = {"metadata": {"ownerReferences": [{"uid": "u1", "name": "n2.east"}]}}
    with pytest.raises(Invalid, match="kind, apiVersion and name together"):
        carried(POD, STRATEGIC, patch)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, APPLY])
def test_a_patch_of_another_object_is_refused(content_type: str) -> None:
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        carried(POD, content_type, {"metadata": {"namespace": "payments.west"}})
    with pytest.raises(BadRequest, match=r"the name of the object \(n2.east\) does not match"):
        carried(NODE, content_type, {"metadata": {"name": "n2.east"}})


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC, APPLY])
def test_a_patch_at_an_unknown_revision_is_a_conflict(content_type: str) -> None:
    with pytest.raises(Conflict, match="please apply your changes to the latest version"):
        carried(POD, content_type, {"metadata": {"resourceVersion": str(REVISION + 1)}})


def test_a_whole_object_sent_as_merge_patch_changes_nothing() -> None:
    """As python clients do: read, change a field, send all of it back."""
    assert apply_merge_patch(POD, carried(POD, MERGE, projected(POD))) == POD


# -- JSON patch


OPERATIONS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (POD, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    (BARE, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
    (
        BARE,
        [
            {"op": "add", "path": "/metadata/annotations/x", "value": "1"},
            {"op": "add", "path": "/metadata/annotations/z", "value": "2"},
            {"op": "move", "from": "/metadata/annotations/x", "path": "/metadata/labels/x"},
        ],
    ),
    (BARE, [{"op": "replace", "path": "/metadata/labels", "value": {"x": "y"}}]),
    (
        BARE,
        [{"op": "test", "path": "/metadata/labels", "value": {"fleet.dev/cluster": "east"}}],
    ),
    (POD, [{"op": "replace", "path": "/metadata/labels", "value": {"fleet.dev/cluster": "east"}}]),
    (BARE, [{"op": "remove", "path": "/metadata/annotations"}]),
    (POD, [{"op": "remove", "path": "/metadata/labels"}]),
    (POD, [{"op": "test", "path": "/metadata/labels/fleet.dev~1cluster", "value": "east"}]),
    (POD, [{"op": "remove", "path": "/metadata/labels/fleet.dev~1cluster"}]),
    (POD, [{"op": "add", "path": "/metadata/labels/fleet.dev~1cluster", "value": "east"}]),
    (
        POD,
        [
            {
                "op": "test",
                "path": "/metadata/annotations/fleet.dev~1member-resource-version",
                "value": "17",
            }
        ],
    ),
    (POD, [{"op": "test", "path": "/metadata/resourceVersion", "value": str(REVISION)}]),
    (POD, [{"op": "replace", "path": "/metadata/resourceVersion", "value": str(REVISION)}]),
    (POD, [{"op": "test", "path": "/metadata/namespace", "value": "payments.east"}]),
    (NODE, [{"op": "test", "path": "/metadata/name", "value": "n1.east"}]),
    (POD, [{"op": "replace", "path": "/spec/nodeName", "value": "n2.east"}]),
    (POD, [{"op": "test", "path": "/spec/nodeName", "value": "n1.east"}]),
    (POD, [{"op": "remove", "path": "/spec/nodeName"}]),
    (POD, [{"op": "replace", "path": "/spec", "value": {"nodeName": "n2.east"}}]),
    (POD, [{"op": "add", "path": "/metadata/ownerReferences/-", "value": {"kind": "Pod"}}]),
    (
        POD,
        [
            {
                "op": "add",
                "path": "/metadata/ownerReferences/-",
                "value": {"kind": "Node", "apiVersion": "v1", "name": "n2.east"},
            }
        ],
    ),
    (POD, [{"op": "test", "path": "/metadata/ownerReferences/0/kind", "value": "Node"}]),
    (POD, [{"op": "remove", "path": "/metadata/ownerReferences/0"}]),
    (POD, [{"op": "replace", "path": "", "value": projected(POD)}]),
    (POD, [{"op": "test", "path": "", "value": projected(POD)}]),
    (
        POD,
        [
            {"op": "replace", "path": "/metadata", "value": projected(BARE)["metadata"]},
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        ],
    ),
    (BINDING, [{"op": "replace", "path": "/subjects/0/namespace", "value": "x.east"}]),
    (BINDING, [{"op": "move", "from": "/subjects/1", "path": "/subjects/0"}]),
    (BINDING, [{"op": "copy", "from": "/subjects/1", "path": "/subjects/-"}]),
    (
        BINDING,
        [{"op": "replace", "path": "/roleRef", "value": {"kind": "ClusterRole", "name": "x.east"}}],
    ),
    (EVENT, [{"op": "replace", "path": "/involvedObject/namespace", "value": "x.east"}]),
]


@pytest.mark.parametrize(("obj", "operations"), OPERATIONS)
def test_json_patches_commute_with_projection(
    obj: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    commutes(obj, JSON, operations)


pointers = st.sampled_from(
    [
        "",
        "/metadata",
        "/metadata/labels",
        "/metadata/labels/app",
        "/metadata/labels/fleet.dev~1cluster",
        "/metadata/annotations/x",
        "/metadata/annotations",
        "/metadata/annotations/fleet.dev~1member-resource-version",
        "/metadata/namespace",
        "/metadata/name",
        "/metadata/resourceVersion",
        "/metadata/ownerReferences",
        "/metadata/ownerReferences/0",
        "/metadata/ownerReferences/0/name",
        "/metadata/ownerReferences/0/uid",
        "/spec/nodeName",
        "/spec",
        "/spec/containers/0/image",
        "/subjects/0",
        "/subjects/0/namespace",
        "/subjects/-",
        "/roleRef/name",
        "/roleRef",
        "/involvedObject/uid",
        "/involvedObject/kind",
    ]
)
operation_values = st.sampled_from(
    ["n1.east", "payments.east", "east", "17", str(REVISION), "x", "", None, {}, []]
)
operations_of_all_sorts = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "test", "remove"]), "path": pointers},
        optional={"value": operation_values},
    )
    | st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "path": pointers, "from": pointers}
    ),
    min_size=1,
    max_size=3,
)


@given(st.sampled_from(OBJECTS), operations_of_all_sorts)
def test_any_json_patch_that_applies_commutes_or_is_refused(
    obj: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    try:
        translated = carried(obj, JSON, operations)
        in_fleet = apply_json_patch(projected(obj), operations)
        back = projector_of(obj).unproject(in_fleet, revision_of=revision_of)
    except (ApiError, AttributeError):
        return  # refused on the way, or no object any more in the fleet either
    in_member = apply_json_patch(copy.deepcopy(obj), translated)
    for side in (back, in_member):
        if not isinstance(side.get("metadata"), dict):
            return
        for key in ("labels", "annotations"):
            if not side["metadata"].get(key):
                side["metadata"].pop(key, None)
    assert in_member == back


@given(st.sampled_from([POD, NODE, BINDING]), operations_of_all_sorts)
def test_a_json_patch_that_fails_in_the_fleet_is_never_carried_out(
    obj: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    try:
        apply_json_patch(projected(obj), operations)
    except (ApiError, AttributeError):
        pass
    else:
        return
    if any(op["op"] != "test" for op in operations):
        return
    with pytest.raises((ApiError, AttributeError)):
        apply_json_patch(obj, carried(obj, JSON, operations))


@pytest.mark.parametrize(
    ("obj", "operation", "error"),
    [
        (POD, {"op": "replace", "path": "/spec/nodeName", "value": "n1.west"}, Invalid),
        (
            POD,
            {"op": "add", "path": "/metadata/labels/fleet.dev~1cluster", "value": "west"},
            Invalid,
        ),
        (POD, {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}, Conflict),
        (POD, {"op": "replace", "path": "/metadata/namespace", "value": "x.east"}, BadRequest),
        (BINDING, {"op": "replace", "path": "/roleRef/name", "value": "x.east"}, Invalid),
        (EVENT, {"op": "remove", "path": "/involvedObject/kind"}, Invalid),
        (
            EVENT,
            {"op": "move", "from": "/related/name", "path": "/involvedObject/name"},
            BadRequest,
        ),
        (POD, {"op": "copy", "from": "/spec/nodeName", "path": "/metadata/labels/n"}, BadRequest),
        (POD, {"op": "move", "from": "/metadata/labels", "path": "/metadata/x"}, BadRequest),
    ],
)
def test_operations_that_cannot_be_carried_over_are_refused(
    obj: dict[str, Any], operation: dict[str, Any], error: type[ApiError]
) -> None:
    with pytest.raises(error):
        carried(obj, JSON, [operation])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/nodeName", "value": "n1"},
        {"op": "test", "path": "/spec/nodeName", "value": "n1.west"},
        {"op": "test", "path": "/metadata/labels/fleet.dev~1cluster", "value": "west"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "17"},
        {"op": "test", "path": "/metadata/namespace", "value": "payments"},
    ],
)
def test_a_test_of_what_the_fleet_does_not_show_fails_as_upstream(
    operation: dict[str, Any],
) -> None:
    with pytest.raises(Invalid, match="the server rejected our request due to an error"):
        carried(POD, JSON, [operation])


def test_the_first_label_is_added_under_a_guard() -> None:
    """The member's object has no labels: making them must not wipe out a racing writer's."""
    translated = carried(BARE, JSON, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}])
    assert [op["op"] for op in translated] == ["test", "add", "add"]
    raced = copy.deepcopy(BARE)
    raced["metadata"]["labels"] = {"theirs": "1"}
    with pytest.raises(Invalid):
        apply_json_patch(raced, translated)


def test_labels_that_the_member_may_lack_are_added_rather_than_replaced() -> None:
    """RFC 6902: what is replaced has to be there, and in the fleet the map always is."""
    replaced = {"op": "replace", "path": "/metadata/labels", "value": {"x": "y"}}
    assert carried(BARE, JSON, [replaced]) == [replaced | {"op": "add"}]


# -- server-side apply, and what is no patch


def test_apply_takes_yaml_as_go_reads_it() -> None:
    body = b"""
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: payments.east, annotations: {since: 2024-01-01, at: 1:30}}
spec: {nodeName: n1.east, hostNetwork: yes, x: 1.50}
"""
    applied = carried(POD, APPLY, body)
    assert applied["metadata"]["namespace"] == "payments"
    assert applied["metadata"]["annotations"] == {"since": "2024-01-01", "at": "1:30"}
    assert applied["spec"] == {"nodeName": "n1", "hostNetwork": True, "x": 1.5}


@pytest.mark.parametrize("content_type", [JSON, MERGE, STRATEGIC, APPLY])
def test_a_body_that_does_not_parse_is_a_bad_request(content_type: str) -> None:
    with pytest.raises(BadRequest, match="error decoding"):
        carried(POD, content_type, b'{"a": [')


@pytest.mark.parametrize("content_type", [JSON, MERGE, STRATEGIC, APPLY])
@pytest.mark.parametrize("patch", [5, None, "x"])
def test_what_means_nothing_goes_on_for_the_member_to_refuse(content_type: str, patch: Any) -> None:
    assert carried(POD, content_type, patch) == patch


def test_other_patch_types_are_refused_with_the_list() -> None:
    with pytest.raises(UnsupportedMediaType, match="application/apply-patch"):
        carried(POD, "application/apply-patch+cbor", b"x")
