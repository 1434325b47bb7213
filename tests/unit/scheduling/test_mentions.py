"""Names in policies that nothing in the fleet has."""

from __future__ import annotations

import pytest

from fleet.scheduling.mentions import Known, known_of, unknown_names

CLUSTERS = [
    {
        "metadata": {"name": "idc-a", "labels": {"fleet.dev/provider": "own"}},
        "spec": {"networks": {"parameterPlane": "roce-1", "dataPlane": "dc-east"}},
        "status": {
            "capacity": [
                {"accelerator": "h200", "nodes": 2, "shape": {"cpu": "64", "nvidia.com/gpu": "8"}},
                {"nodes": 1, "shape": {"cpu": "4"}},
            ]
        },
    },
    {"metadata": {"name": "cloud-c"}},
]
KNOWN = known_of(CLUSTERS)


def book(**offer):
    return {"offers": [{"cluster": "idc-a", "billing": "Owned", **offer}]}


SAID = [
    ("PriceBook", book(), None),
    ("PriceBook", book(accelerator="h200"), None),
    ("PriceBook", book(cluster="idc_a"),
     'spec.offers[0].cluster: "idc_a" is no member of the fleet; did you mean idc-a?'),
    ("PriceBook", book(cluster="west"),
     'spec.offers[0].cluster: "west" is no member of the fleet; there is cloud-c, idc-a'),
    ("PriceBook", book(accelerator="H200"),
     'spec.offers[0].accelerator: "H200" is a kind of accelerator that no node has; did you mean '
     "h200?"),
    ("PriceBook", {"egress": [{"from": "dc-est", "to": "cloud-c", "perGiB": "0.05"}]},
     'spec.egress[0].from: no cluster is on a data plane "dc-est"; did you mean dc-east?'),
    ("PlacementPolicy", {}, None),
    ("PlacementPolicy", {"mode": "Split", "gang": {"plane": "roce-1"}}, None),
    ("PlacementPolicy", {"mode": "Split", "gang": {"plane": "roce1"}},
     'spec.gang.plane: no cluster is on a plane "roce1"; did you mean roce-1?'),
    ("PlacementPolicy", {"data": [{"at": ["DC-East"], "size": "1Gi"}]},
     'spec.data[0].at[0]: no cluster is on a data plane "DC-East"; did you mean dc-east?'),
    ("PlacementPolicy", {"clusters": {"selector": {"matchLabels": {"fleet.dev/provider": "own"}}}},
     None),
    ("FleetQuota", {"resources": [{"name": "nvidia.com/gpu", "accelerator": "h20"}]},
     'spec.resources[0].accelerator: "h20" is a kind of accelerator that no node has; did you mean '
     "h200?"),
    ("FleetQuota", {"resources": [{"name": "nvidia.com/gpu"}, {"name": "memory"}]}, None),
    ("FleetQuota", {"resources": [{"name": "nvidia.com/gpuu"}]},
     'spec.resources[0].name: "nvidia.com/gpuu" is a resource that no node has; did you mean '
     "nvidia.com/gpu?"),
    ("Cluster", {"networks": {"parameterPlane": "roce9"}}, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "said"), SAID)
def test_what_is_said(kind, spec, said):
    assert unknown_names(kind, spec, KNOWN) == ([] if said is None else [said])


@pytest.mark.parametrize("where", ["selector", "tiers"])
def test_a_selector_that_selects_nothing_says_whose_labels_it_reads(where):
    selector = {"matchLabels": {"fleet.dev/cluster": "idc-a"}}
    clusters = (
        {"selector": selector} if where == "selector" else {"tiers": [{"selector": selector}]}
    )
    (said,) = unknown_names("PlacementPolicy", {"clusters": clusters}, KNOWN)
    assert said.startswith(f"spec.clusters.{where}")
    assert "selects none of the clusters cloud-c, idc-a" in said
    assert "kubectl label cluster cloud-c KEY=VALUE" in said


def test_nothing_is_said_of_what_is_not_known():
    assert unknown_names("PriceBook", book(cluster="west", accelerator="x"), Known()) == []
    bare = known_of([{"metadata": {"name": "idc-a"}}])
    assert unknown_names("PriceBook", book(accelerator="x"), bare) == []
