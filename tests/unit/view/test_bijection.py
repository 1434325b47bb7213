"""`unproject(project(x)) = x`, for every object there can be, and injectivity with it."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.revision import Revision
from fleet.view.naming import (
    CLUSTER_LABEL,
    MEMBER_METADATA_ANNOTATION,
    MEMBER_REVISION_ANNOTATION,
)
from fleet.view.projection import Projector
from fleet.view.references import ITEMS, REFERENCES, Field, Typed

REVISION = Revision(5 << 40 | 77)
SCOPES = {(row.gvr.group, row.kind): row.namespaced for row in builtin.resources()}


def resource_of(group: str, kind: str) -> Resource:
    gvr = GroupVersionResource(group, "v1", kind.lower() + "s")
    return Resource(gvr, kind, namespaced=SCOPES.get((group, kind), True), verbs=("get",))


POD = resource_of("", "Pod")
NODE = resource_of("", "Node")
KINDS = [resource_of(*key) for key in REFERENCES] + [NODE, resource_of("apps.example.com", "Shop")]

names = st.sampled_from(
    ["", "n1", "east", "n1.east", "n1.east.east", "n1.west", ".east", "a.b.c", "n1.eastern", "é"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | names
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner)
    ),
    max_leaves=8,
)
mark_keys = st.sampled_from(
    [CLUSTER_LABEL, MEMBER_REVISION_ANNOTATION, MEMBER_METADATA_ANNOTATION, "app"]
)
texts = st.dictionaries(mark_keys, names | st.sampled_from(["17", '{"label":"x"}']) | anything)


def sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly the shape that the API has, now and then anything."""
    return st.one_of(strategy, strategy, strategy, anything)


kinds = st.sampled_from(
    ["Node", "Pod", "ClusterRole", "Role", "PersistentVolume", "Namespace", "nodes", "pods", ""]
)
groups = st.sampled_from(
    ["", "v1", "longhorn.io/v1", "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"]
)


@st.composite
def metadata(draw: st.DrawFn) -> dict[str, Any]:
    owner = st.fixed_dictionaries(
        {}, optional={"kind": sometimes(kinds), "apiVersion": sometimes(groups), "name": names}
    )
    return draw(
        st.fixed_dictionaries(
            {},
            optional={
                "name": sometimes(names),
                "namespace": sometimes(names),
                "resourceVersion": sometimes(st.sampled_from(["", "0", "17"])),
                "labels": sometimes(texts),
                "annotations": sometimes(texts),
                "ownerReferences": sometimes(st.lists(sometimes(owner), max_size=2)),
                "uid": st.just("u"),
            },
        )
    )


def put(root: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set `value` at a table path, making what lies on the way; lists get one item."""
    place: Any = root
    for step, following in zip(path, (*path[1:], None), strict=True):
        fresh: Any = value if following is None else [] if following == ITEMS else {}
        if step == ITEMS:
            if following is None or not place:
                place.append(fresh)
            place = place[-1]
        elif isinstance(place, dict):
            if following is None and isinstance(value, dict) and isinstance(place.get(step), dict):
                place[step].update(value)
            elif following is None or step not in place:
                place[step] = fresh
            place = place[step]


@st.composite
def shaped(draw: st.DrawFn) -> tuple[Resource, dict[str, Any]]:
    """An object of some kind with values at the places its row of the table tells."""
    resource = draw(st.sampled_from(KINDS))
    obj: dict[str, Any] = {"kind": resource.kind, "apiVersion": resource.api_version}
    for reference in REFERENCES.get((resource.gvr.group, resource.kind), ()):
        if draw(st.booleans()):
            continue
        match reference:
            case Field():
                put(obj, reference.path, draw(sometimes(names)))
            case Typed():
                optional = {
                    reference.kind: sometimes(kinds),
                    reference.group: sometimes(groups),
                    "name": sometimes(names),
                    "uid": sometimes(names),
                }
                put(obj, reference.path, draw(st.fixed_dictionaries({}, optional=optional)))
    obj["metadata"] = draw(sometimes(metadata()))
    return resource, obj


def there_and_back(resource: Resource, obj: dict[str, Any]) -> None:
    projector = Projector("east", resource)
    projected = orjson.dumps(projector.project(copy.deepcopy(obj), revision=REVISION))
    assert projector.unproject(orjson.loads(projected)) == orjson.loads(orjson.dumps(obj))


@pytest.mark.parametrize("uid", ["n1", "n1.east", "n1.east.east", "n1.eastern", "n1x"])
def test_a_uid_that_is_a_name_comes_back(uid: str) -> None:
    about = {"kind": "Node", "name": "n1", "uid": uid}
    there_and_back(resource_of("", "Event"), {"metadata": {}, "involvedObject": about})


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), anything))
@example({"metadata": {}})
@example({"metadata": {"labels": {}, "annotations": {}, "resourceVersion": "1"}})
@example({"metadata": {"labels": None, "annotations": None, "resourceVersion": "1"}})
@example({"metadata": {"annotations": {MEMBER_REVISION_ANNOTATION: "5"}}})
@example({"metadata": {"annotations": {MEMBER_METADATA_ANNOTATION: None}, "labels": []}})
@example({"metadata": {"labels": {CLUSTER_LABEL: "idc"}, "resourceVersion": "1"}})
def test_any_json_object_comes_back(obj: dict[str, Any]) -> None:
    there_and_back(POD, obj)
    there_and_back(NODE, obj)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(shaped())
def test_objects_of_every_kind_in_the_table_come_back(
    case: tuple[Resource, dict[str, Any]],
) -> None:
    there_and_back(*case)


@given(shaped())
def test_projecting_an_already_projected_object_comes_back_too(
    case: tuple[Resource, dict[str, Any]],
) -> None:
    """A member may itself be a fleet: what it shows is projected once more."""
    resource, obj = case
    inner = Projector("south", resource).project(copy.deepcopy(obj), revision=Revision(1 << 40))
    there_and_back(resource, inner)


@given(metadata(), st.sampled_from(["east", "west"]), st.sampled_from(["east", "west"]))
def test_two_members_never_show_the_same_key(meta: dict[str, Any], one: str, other: str) -> None:
    if not isinstance(meta.get("name"), str) or not isinstance(meta.get("namespace"), str):
        return
    obj = {"metadata": meta}
    for resource in (POD, NODE):
        if resource.namespaced and not meta["namespace"]:
            continue
        keys = Projector(one, resource).key(obj), Projector(other, resource).key(obj)
        assert (keys[0] == keys[1]) == (one == other)


@pytest.mark.parametrize("resource", [POD, NODE], ids=lambda r: r.kind)
def test_key_is_the_name_that_project_gives(resource: Resource) -> None:
    obj = {"metadata": {"name": "a", **({"namespace": "p"} if resource.namespaced else {})}}
    projector = Projector("east", resource)
    key = projector.key(obj)
    shown = projector.project(obj, revision=REVISION)["metadata"]
    assert key == (shown.get("namespace", ""), shown["name"])
