from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube import builtin
from fleet.kube.discovery import (
    Catalogue,
    aggregated,
    api_versions,
    as_stale,
    catalogue,
    content_type,
    etag,
    find_group,
    group_document,
    group_list,
    not_modified,
    parse_aggregated,
    parse_api_versions,
    parse_group_list,
    parse_resource_list,
    resource_list,
    rows,
    union,
    version_rank,
)
from fleet.kube.resources import GroupVersionResource, Resource, Subresource

OWN = catalogue(builtin.resources())


def row(
    coordinates: str, kind: str = "Widget", *, verbs: str = "get list watch", **more: object
) -> Resource:
    """`example.com/v1/widgets`, or `v1/pods`."""
    *group, version, resource = coordinates.split("/")
    made = Resource(
        gvr=GroupVersionResource("".join(group), version, resource),
        kind=kind,
        namespaced=True,
        verbs=tuple(verbs.split()),
        custom=True,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def served(*coordinates: str) -> Catalogue:
    return catalogue(row(c) for c in coordinates)


def listed(groups: Catalogue) -> list[str]:
    return ["/".join(part for part in r.gvr if part) for r in rows(groups)]


def test_both_forms_say_what_the_catalogue_says() -> None:
    core, rest = aggregated(OWN, core=True), aggregated(OWN, core=False)
    assert parse_aggregated(core) + parse_aggregated(rest) == OWN
    for group in OWN:
        for version in group.versions:
            assert parse_resource_list(resource_list(group, version)) == version.resources
    named = tuple((g.name, tuple(v.name for v in g.versions)) for g in OWN if g.name)
    assert parse_group_list(group_list(OWN)) == named
    assert parse_api_versions(api_versions(OWN, server_address="127.0.0.1:7443")) == ("v1",)


def test_an_aggregated_document() -> None:
    custom = catalogue(
        [
            row(
                "example.com/v1/widgets",
                singular="widget",
                short_names=("wd",),
                categories=("all",),
                subresources=(
                    Subresource("scale", "Scale", ("get",), "autoscaling", "v1"),
                    Subresource("status", "Widget", ("get",)),
                ),
            )
        ]
    )
    assert aggregated(custom, core=False, version="v2beta1") == {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2beta1",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": "example.com"},
                "versions": [
                    {
                        "version": "v1",
                        "freshness": "Current",
                        "resources": [
                            {
                                "resource": "widgets",
                                "responseKind": {"group": "", "version": "", "kind": "Widget"},
                                "scope": "Namespaced",
                                "singularResource": "widget",
                                "verbs": ["get", "list", "watch"],
                                "shortNames": ["wd"],
                                "categories": ["all"],
                                "subresources": [
                                    {
                                        "subresource": "scale",
                                        "responseKind": {
                                            "group": "autoscaling",
                                            "version": "v1",
                                            "kind": "Scale",
                                        },
                                        "verbs": ["get"],
                                    },
                                    {
                                        "subresource": "status",
                                        "responseKind": {
                                            "group": "",
                                            "version": "",
                                            "kind": "Widget",
                                        },
                                        "verbs": ["get"],
                                    },
                                ],
                            }
                        ],
                    }
                ],
            }
        ],
    }
    assert aggregated(custom, core=True)["items"] == []


def test_the_core_group_is_only_in_its_own_document() -> None:
    core = aggregated(OWN, core=True)
    assert [item["metadata"] for item in core["items"]] == [{}]
    names = [item["metadata"]["name"] for item in aggregated(OWN, core=False)["items"]]
    assert "" not in names
    assert names[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    assert "" not in [group["name"] for group in group_list(OWN)["groups"]]


def test_legacy_documents() -> None:
    group = find_group(OWN, "autoscaling")
    assert group is not None
    assert group_document(group) == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "versions": [
            {"groupVersion": "autoscaling/v2", "version": "v2"},
            {"groupVersion": "autoscaling/v1", "version": "v1"},
        ],
        "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
    }
    core = find_group(OWN, "")
    assert core is not None
    document = resource_list(core, core.versions[0])
    assert document["groupVersion"] == "v1"
    found = {entry["name"]: entry for entry in document["resources"]}
    assert found["pods/log"] == {
        "name": "pods/log",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get"],
    }
    assert found["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert found["nodes"]["shortNames"] == ["no"]
    assert "shortNames" not in found["bindings"]


def test_a_subresource_without_its_resource() -> None:
    # custom.metrics.k8s.io lists nothing but such rows
    document = {
        "groupVersion": "custom.metrics.k8s.io/v1beta1",
        "resources": [
            {
                "name": "pods/requests",
                "singularName": "",
                "namespaced": True,
                "kind": "MetricValueList",
                "verbs": ["get"],
            }
        ],
    }
    (pods,) = parse_resource_list(document)
    assert (pods.kind, pods.verbs) == ("", ())
    assert [sub.name for sub in pods.subresources] == ["requests"]
    (group,) = catalogue([pods])
    again = resource_list(group, group.versions[0])
    assert [entry["name"] for entry in again["resources"]] == ["pods/requests"]
    assert parse_aggregated(aggregated((group,), core=False)) == (group,)


def test_a_resource_may_be_listed_behind_its_subresource() -> None:
    entry = {"namespaced": True, "kind": "Widget", "verbs": ["get"], "singularName": "widget"}
    document = {
        "groupVersion": "example.com/v1",
        "resources": [{"name": "widgets/status", **entry}, {"name": "widgets", **entry}],
    }
    (widgets,) = parse_resource_list(document)
    assert widgets.kind == "Widget"
    assert [sub.name for sub in widgets.subresources] == ["status"]


def test_custom_resources_are_told_by_their_group() -> None:
    parsed = parse_aggregated(aggregated(served("gateway.k8s.io/v1/gateways"), core=False))
    assert next(rows(parsed)).custom
    secrets = next(r for r in rows(OWN) if r.gvr.resource == "secrets")
    assert not secrets.custom
    assert secrets.selectable_fields == ("type",)


def test_sparse_documents_parse() -> None:
    assert parse_aggregated({}) == ()
    assert parse_aggregated({"items": [{"metadata": None, "versions": None}]})[0].versions == ()
    assert parse_resource_list({"groupVersion": "v1", "resources": None}) == ()
    assert parse_group_list({"groups": None}) == ()
    assert parse_api_versions({"versions": None}) == ()
    assert group_list(parse_aggregated({"items": [{"metadata": {"name": "x"}}]}))["groups"] == []


def test_the_union_has_what_any_source_has() -> None:
    # kcp#183: a CRD in one member only
    merged = union([OWN, served("example.com/v1/widgets"), served("example.com/v1/gadgets")])
    found = listed(merged)
    assert found[-2:] == ["example.com/v1/gadgets", "example.com/v1/widgets"]
    assert set(listed(OWN)) <= set(found)


def test_versions_are_those_that_every_source_of_a_resource_serves() -> None:
    merged = union(
        [served("x.io/v1/a", "x.io/v1beta1/a", "x.io/v1beta1/b"), served("x.io/v1/a", "x.io/v2/a")]
    )
    assert listed(merged) == ["x.io/v1/a", "x.io/v1beta1/b"]


def test_without_a_common_version_all_are_served() -> None:
    merged = union([served("x.io/v1/a"), served("x.io/v1beta1/a")])
    assert listed(merged) == ["x.io/v1/a", "x.io/v1beta1/a"]


def test_a_stale_source_keeps_its_say_about_versions() -> None:
    new, old = served("x.io/v1/a", "x.io/v2/a"), as_stale(served("x.io/v1/a"))
    assert listed(union([new, old])) == ["x.io/v1/a"]


def test_the_preferred_version_is_the_first_sources() -> None:
    both = ("x.io/v1beta1/a", "x.io/v1/a")
    merged = union([served(*both), served(*reversed(both))])
    assert [v.name for v in merged[0].versions] == ["v1beta1", "v1"]


def test_a_preferred_version_that_is_not_common_gives_way_to_the_best() -> None:
    merged = union(
        [
            served("x.io/v3/a", "x.io/v1beta1/a", "x.io/v1/a", "x.io/v2alpha1/a"),
            served("x.io/v2alpha1/a", "x.io/v1beta1/a", "x.io/v1/a"),
        ]
    )
    assert [v.name for v in merged[0].versions] == ["v1", "v1beta1", "v2alpha1"]


def test_only_what_no_current_source_serves_is_stale() -> None:
    merged = union(
        [served("x.io/v1/a"), as_stale(served("x.io/v1/a", "y.io/v1/b")), served("z.io/v1/c")]
    )
    assert {group.name: group.versions[0].stale for group in merged} == {
        "x.io": False,
        "y.io": True,
        "z.io": False,
    }
    document = aggregated(merged, core=False)
    fresh = {i["metadata"]["name"]: i["versions"][0]["freshness"] for i in document["items"]}
    assert fresh == {"x.io": "Current", "y.io": "Stale", "z.io": "Current"}
    assert parse_aggregated(document) == merged


def test_groups_are_in_upstreams_order() -> None:
    shuffled = union([served("z.io/v1/a", "a.io/v1/a"), tuple(reversed(OWN))])
    names = [group.name for group in shuffled]
    assert names == [*[g.name for g in OWN], "a.io", "z.io"]


def test_rows_that_differ_are_joined() -> None:
    one = row(
        "x.io/v1/a",
        verbs="get list watch",
        short_names=("a",),
        subresources=(Subresource("status", "Widget", ("get",)),),
        selectable_fields=("spec.color",),
    )
    two = row(
        "x.io/v1/a",
        "Gadget",
        verbs="get list delete",
        short_names=("b", "a"),
        subresources=(
            Subresource("scale", "Scale", ("get",), "autoscaling", "v1"),
            Subresource("status", "Gadget", ("get", "patch")),
        ),
        selectable_fields=("spec.size",),
    )
    (merged,) = rows(union([catalogue([one]), catalogue([two])]))
    assert merged.kind == "Widget"
    # watch does not work for the second source's objects
    assert merged.verbs == ("get", "list", "delete")
    assert merged.short_names == ("a", "b")
    assert merged.subresource("status") == one.subresource("status")
    assert merged.subresource("scale") == two.subresource("scale")
    assert merged.selectable_fields == ("spec.color", "spec.size")


coordinates = st.builds(
    "{}/{}/{}".format,
    st.sampled_from(["x.io", "y.io"]),
    st.sampled_from(["v1", "v2", "v1beta1"]),
    st.sampled_from(["a", "b"]),
)
sources = st.lists(st.lists(coordinates, unique=True, max_size=6), min_size=1, max_size=4)


@given(sources)
def test_union_keeps_every_resource_and_invents_no_version(parts: list[list[str]]) -> None:
    catalogues = [served(*part) for part in parts]
    merged = union(catalogues)
    found = set(listed(merged))
    everything = {c for part in parts for c in part}
    assert found <= everything
    drop_version = {tuple(c.split("/")[::2]) for c in everything}
    assert {tuple(c.split("/")[::2]) for c in found} == drop_version
    assert union([merged]) == merged
    assert union([merged, merged]) == merged


@given(sources)
def test_what_a_stale_source_says_does_not_vanish(parts: list[list[str]]) -> None:
    catalogues = [served(*part) for part in parts]
    down = [as_stale(catalogues[0]), *catalogues[1:]]
    assert listed(union(down)) == listed(union(catalogues))


def test_versions_rank_as_in_upstream() -> None:
    # apimachinery version.CompareKubeAwareVersionStrings
    ranked = "v10 v2 v1 v11beta2 v10beta3 v3beta1 v12alpha1 v11alpha2 foo1 foo10".split()
    assert sorted(set(ranked), key=version_rank) == ranked


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("", False),
        ("*", True),
        ('"A"', True),
        ('W/"A"', True),
        ('"B", "A"', True),
        ('"B"', False),
        ("A", False),
    ],
)
def test_if_none_match(header: str | None, expected: bool) -> None:
    assert not_modified(header, '"A"') is expected


def test_entity_tags_and_content_type() -> None:
    assert etag(b"x") == etag(b"x") != etag(b"y")
    assert etag(b"").startswith('"CF83E1357EEFB8BD')
    assert content_type("v2") == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
