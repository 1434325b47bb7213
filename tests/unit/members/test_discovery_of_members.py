"""What a member serves: both forms, and what stays when something cannot be asked."""

from __future__ import annotations

import orjson
import pytest

from fleet.errors import MemberStatus, TransportError
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Response
from fleet.members.definitions import Definitions, Tap
from fleet.members.discovery import Discovery
from tests.unit.members.conftest import FakeCluster, failed, ok, resource_list

WIDGETS = GroupVersionResource("example.com", "v1", "widgets")


def aggregated(*groups: tuple[str, str, list[str], str], etag: str = "") -> Response:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "freshness": freshness,
                    "resources": [
                        {"resource": name, "responseKind": {"kind": name.title()},
                         "verbs": ["list"], "scope": "Namespaced", "singularResource": ""}
                        for name in names
                    ],
                }
            ],
        }
        for group, version, names, freshness in groups
    ]  # fmt: skip
    kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    headers = {"Content-Type": kind, **({"ETag": etag} if etag else {})}
    return Response(200, headers, orjson.dumps({"kind": "APIGroupDiscoveryList", "items": items}))


def crd(*versions: dict, name: str = "widgets.example.com", established: bool = True) -> dict:
    return {
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": list(versions),
        },
        "status": {"conditions": [{"type": "Established", "status": str(established)}]},
    }


@pytest.fixture
def definitions() -> Definitions:
    return Definitions()


@pytest.fixture
def found(east, definitions) -> Discovery:
    return Discovery(east, definitions)


async def test_the_aggregated_form_is_asked_for_and_not_fetched_twice(east: FakeCluster, found):
    east.routes["/api"] = aggregated(("", "v1", ["pods"], "Current"), etag='"a"')
    east.routes["/apis"] = aggregated(("apps", "v1", ["deployments"], "Current"), etag='"b"')
    assert await found.refresh()
    assert [group.name for group in found.catalogue] == ["", "apps"]
    assert GroupVersionResource("apps", "v1", "deployments") in found.resources
    assert found.version == "v1.36.3"
    assert east.asked("/api/v1") == 0
    accept = next(r for r in east.requests if r.path == "/api").headers["accept"]
    assert accept.startswith("application/json;g=apidiscovery.k8s.io;v=v2;as=")
    assert accept.endswith(",application/json")
    east.routes["/api"] = east.routes["/apis"] = Response(304)
    assert not await found.refresh()
    assert east.requests[-1].headers["if-none-match"] == '"b"'
    assert len(found.resources) == 2


async def test_the_legacy_form(east, found):
    east.routes["/apis"] = {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "example.com",
                "versions": [{"version": "v1"}, {"version": "v2"}],
                "preferredVersion": {"version": "v2"},
            }
        ],
    }
    east.routes["/apis/example.com/v1"] = resource_list("example.com/v1", ("widgets", "W", True))
    east.routes["/apis/example.com/v2"] = failed(503)
    await found.refresh()
    group = found.catalogue[1]
    assert [(v.name, v.stale, len(v.resources)) for v in group.versions] == [
        ("v2", True, 0),
        ("v1", False, 1),
    ]
    # Once known, a version that cannot be asked keeps its rows.
    east.routes["/apis/example.com/v2"] = resource_list("example.com/v2", ("widgets", "W", True))
    await found.refresh()
    east.routes["/apis/example.com/v2"] = failed(503)
    await found.refresh()
    newest = found.catalogue[1].versions[0]
    assert (newest.name, newest.stale, len(newest.resources)) == ("v2", True, 1)


async def test_a_server_without_groups(east, found):
    del east.routes["/apis"]
    await found.refresh()
    assert [group.name for group in found.catalogue] == [""]


async def test_a_group_whose_own_server_is_down_keeps_its_rows(east, found):
    east.routes["/apis"] = aggregated(("metrics.k8s.io", "v1beta1", ["pods"], "Current"))
    await found.refresh()
    east.routes["/apis"] = aggregated(("metrics.k8s.io", "v1beta1", [], "Stale"))
    assert await found.refresh()
    version = found.catalogue[1].versions[0]
    assert version.stale
    assert [row.gvr.resource for row in version.resources] == ["pods"]


async def test_what_was_known_stays_when_the_member_cannot_be_asked(east, found):
    await found.refresh()
    before = found.catalogue
    east.failure = TransportError("down")
    with pytest.raises(TransportError):
        await found.refresh()
    assert found.catalogue == before
    assert found.mark_stale()
    assert not found.mark_stale()
    assert all(v.stale for group in found.catalogue for v in group.versions)
    assert list(found.resources) == [row.gvr for row in before[0].versions[0].resources]
    east.failure = None
    assert await found.refresh()
    assert found.catalogue == before


async def test_rights_that_are_missing_are_not_an_empty_catalogue(east, found):
    east.routes["/apis"] = failed(403)
    with pytest.raises(MemberStatus):
        await found.refresh()
    assert found.catalogue == ()


@pytest.mark.parametrize("answer", [b"<html>", {"kind": "Status", "groups": [{}]}, b"[]"])
async def test_answers_that_are_no_discovery(east, found, answer):
    east.routes["/apis"] = ok(answer)
    with pytest.raises(TransportError):
        await found.refresh()


async def test_selectable_fields_come_from_the_definition(east, found, definitions):
    east.routes["/apis"] = aggregated(("example.com", "v1", ["widgets"], "Current"))
    await found.refresh()
    assert found.resources[WIDGETS].selectable_fields == ()
    definitions.put(
        crd({"name": "v1", "served": True, "selectableFields": [{"jsonPath": ".spec.color"}]})
    )
    assert await found.refresh()
    assert found.resources[WIDGETS].selectable_fields == ("spec.color",)


def test_definitions_tell_of_what_discovery_or_tables_will_show(definitions):
    told: list[int] = []
    definitions.changed = lambda: told.append(1)
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    v1 = {"name": "v1", "served": True, "additionalPrinterColumns": columns}
    definitions.put(crd(v1, established=False))
    definitions.put(crd(v1))
    assert len(told) == 2
    found = definitions.get(WIDGETS)
    assert found is not None
    assert found.columns == tuple(columns)
    noise = crd(v1)
    noise["metadata"]["resourceVersion"] = "2"
    noise["status"]["storedVersions"] = ["v1"]
    definitions.put(noise)
    assert len(told) == 2
    definitions.put(crd(v1, {"name": "v2", "served": False}))
    assert len(told) == 2
    definitions.put(crd(v1, {"name": "v2", "served": True}))
    assert len(told) == 3
    definitions.drop("widgets.example.com")
    definitions.drop("widgets.example.com")
    assert definitions.get(WIDGETS) is None
    assert len(told) == 4


def test_a_tap_reads_along_and_passes_everything_on(definitions, sink):
    tap = Tap(sink, definitions)
    v1 = {"name": "v1", "served": True}
    for _ in tap.replace(iter([crd(v1), crd(v1, name="others.example.com")]), 7):
        pass
    assert sink.calls == [("replace", (["others.example.com", "widgets.example.com"], 7))]
    assert definitions.get(WIDGETS) is not None
    tap.upsert(crd(v1))
    tap.progress(8)
    for _ in tap.replace(iter([]), 9):
        pass
    assert definitions.get(WIDGETS) is None
    tap.upsert(crd(v1))
    tap.remove(crd(v1))
    assert definitions.get(WIDGETS) is None
    assert [call for call, _ in sink.calls] == [
        "replace", "upsert", "progress", "replace", "upsert", "remove",
    ]  # fmt: skip


async def test_a_custom_resource_stays_for_as_long_as_it_is_defined(
    east: FakeCluster, found, definitions
):
    """An API server that has just started serves the built-in kinds alone for a moment."""
    version = {"name": "v1", "served": True}
    definitions.put(crd(version))
    built_in = ("apps", "v1", ["deployments"], "Current")
    east.routes["/api"] = aggregated(("", "v1", ["pods"], "Current"))
    east.routes["/apis"] = aggregated(
        built_in, ("example.com", "v1", ["widgets", "gadgets"], "Current")
    )
    await found.refresh()
    assert WIDGETS in found.resources

    # the group comes back without it, or not at all
    for again in ([built_in], [built_in, ("example.com", "v1", ["gadgets"], "Current")]):
        east.routes["/apis"] = aggregated(*again)
        await found.refresh()
        assert WIDGETS in found.resources, again

    east.routes["/apis"] = aggregated(built_in)
    definitions.drop("widgets.example.com")
    assert await found.refresh()
    assert WIDGETS not in found.resources
    assert [group.name for group in found.catalogue] == ["", "apps"]
