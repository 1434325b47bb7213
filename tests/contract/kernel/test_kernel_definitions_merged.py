"""A kind that the fleet defines for itself appears in the merged view, also where members have
had it before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.apiserver import definitions
from fleet.view.merged import Merged
from fleet.view.world import World

if TYPE_CHECKING:
    from types import ModuleType

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITION = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}  # fmt: skip


def world_of(api: Any) -> World:
    world = World(
        sequencer=api.store.sequencer,
        store=api.store,
        own=lambda: api.kernel.catalogue,
        clock=lambda: 0.0,
    )
    api.kernel.on_change(world.own_changed)
    return world


def widget(name: str) -> dict[str, Any]:
    return {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": name}}


async def test_the_merged_view_serves_what_the_fleet_defines(harness: ModuleType) -> None:
    async with harness.serving() as api, harness.controlled(api):
        world = world_of(api)
        gvr = definitions.resource_of(DEFINITION)
        assert world.resource(gvr) is None
        await api.must("POST", CRDS, DEFINITION)
        await harness.at_rest(api)
        assert world.resource(gvr) is not None
        merged = world.merged(gvr)
        assert merged is not None
        await api.must("POST", WIDGETS, widget("w"))
        assert merged.collection.get("default", "w") is not None
        await api.must("DELETE", CRDS + "/widgets.example.com")
        await harness.at_rest(api)
        assert world.resource(gvr) is None
        assert len(merged.collection) == 0
        # defined again, while the merged resource still runs
        await api.must("POST", CRDS, DEFINITION)
        await harness.at_rest(api)
        await api.must("POST", WIDGETS, widget("again"))
        assert merged.collection.get("default", "again") is not None
        await world.close()


async def test_a_merged_resource_of_members_takes_the_fleets_own_in(harness: ModuleType) -> None:
    async with harness.serving() as api, harness.controlled(api):
        world = world_of(api)
        row = definitions.row_of(DEFINITION)
        merged = Merged(row, api.store.sequencer, clock=lambda: 0.0)
        world._merged[row.gvr] = merged  # as a member's kind runs before the fleet has it
        await api.must("POST", CRDS, DEFINITION)
        await harness.at_rest(api)
        await api.must("POST", WIDGETS, widget("w"))
        assert merged.collection.get("default", "w") is not None
        await world.close()
