from __future__ import annotations

import pytest
import yaml

from fleet.testbed import kwok, layout
from fleet.testbed.gatekeeper import Ref, World, wanted

GATE = Ref("configmaps", "ns", "gate")
POD = Ref("pods", "ns", "p")


def pod(*volumes: dict, annotations: dict | None = None, name: str = "p") -> dict:
    metadata: dict = {"namespace": "ns", "name": name}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"volumes": list(volumes)} if volumes else {}}


def named(name: str) -> dict:
    return {"metadata": {"namespace": "ns", "name": name}}


GATED = pod({"configMap": {"name": "gate"}})


@pytest.mark.parametrize(
    ("volume", "refs"),
    [
        ({"emptyDir": {}}, []),
        ({"configMap": {"name": "a"}}, [("configmaps", "a")]),
        ({"configMap": {"name": "a", "optional": False}}, [("configmaps", "a")]),
        ({"configMap": {"name": "a", "optional": True}}, []),
        ({"secret": {"secretName": "a"}}, [("secrets", "a")]),
        ({"secret": {"secretName": "a", "optional": True}}, []),
        ({"projected": {}}, []),
        (
            {
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token"}},
                        {"configMap": {"name": "a"}},
                        {"secret": {"name": "b"}},
                        {"secret": {"name": "c", "optional": True}},
                    ]
                }
            },
            [("configmaps", "a"), ("secrets", "b")],
        ),
    ],
)
def test_what_a_pod_cannot_start_without(volume, refs):
    assert wanted(pod(volume)).keys() == {Ref(resource, "ns", name) for resource, name in refs}


def test_a_pod_without_volumes_wants_nothing():
    assert wanted(pod()) == {}


def test_a_pod_is_complete_when_all_of_it_is_there():
    world = World()
    world.put("pods", pod({"configMap": {"name": "gate"}}, {"secret": {"secretName": "key"}}))
    assert world.complete() == []

    world.put("configmaps", named("gate"))
    assert world.complete() == []
    world.put("secrets", named("key"))
    assert world.complete() == [POD]


def test_what_a_pod_waits_for_is_said_once_in_a_kubelets_words():
    world = World()
    volumes = [
        {"name": "fleet-gate", "configMap": {"name": "gate"}},
        {"name": "key", "secret": {"secretName": "k"}},
    ]
    waits = pod(*volumes)
    waits["metadata"]["uid"] = "u1"
    world.put("pods", waits)
    told = 'MountVolume.SetUp failed for volume "fleet-gate" : configmap "gate" not found'
    assert world.untold() == [(POD, "u1", told)]
    world.told.add("u1")
    assert world.untold() == []
    world.told.clear()
    world.put("configmaps", named("gate"))
    told = 'MountVolume.SetUp failed for volume "key" : secret "k" not found'
    assert world.untold() == [(POD, "u1", told)]
    world.put("secrets", named("k"))
    assert world.untold() == []


def test_the_order_of_arrival_does_not_matter():
    world = World()
    world.put("configmaps", named("gate"))
    world.put("pods", GATED)

    assert world.complete() == [POD]


def test_an_object_of_the_same_name_elsewhere_opens_nothing():
    world = World()
    world.put("pods", GATED)
    world.put("configmaps", {"metadata": {"namespace": "other", "name": "gate"}})
    world.put("secrets", named("gate"))

    assert world.complete() == []


def test_a_pod_that_is_open_or_gone_waits_no_more():
    world = World()
    world.put("configmaps", named("gate"))
    world.put("pods", GATED)
    opened = pod({"configMap": {"name": "gate"}}, annotations={kwok.MOUNTS_READY: "true"})
    world.put("pods", opened)
    assert world.waiting == {}

    world.put("pods", GATED)
    world.drop("pods", GATED)
    assert world.waiting == {}


def test_a_deleted_config_map_closes_the_gate_for_those_still_waiting():
    world = World()
    world.put("configmaps", named("gate"))
    world.drop("configmaps", named("gate"))
    world.put("pods", GATED)

    assert world.complete() == []


def test_a_list_replaces_what_was_known_of_its_resource_only():
    world = World()
    world.put("configmaps", named("gate"))
    world.put("secrets", named("key"))
    world.put("pods", GATED)

    world.replace("configmaps", [])
    assert world.complete() == []
    assert Ref("secrets", "ns", "key") in world.present
    world.replace("pods", [pod({"secret": {"secretName": "key"}}, name="q")])
    assert world.complete() == [Ref("pods", "ns", "q")]
    assert GATE not in world.present


def test_another_pod_of_the_name_waits_on_when_the_one_before_was_opened():
    world = World()
    for uid in ("before", "after"):
        world.put("pods", {**GATED, "metadata": {**GATED["metadata"], "uid": uid}})
    world.opened(POD, "before")
    assert world.waiting[POD].uid == "after"
    world.opened(POD, "after")
    assert world.waiting == {}


def test_the_stages_carry_the_annotations_of_the_code(tmp_path):
    made = layout.Layout("east", tmp_path, 0, layout.Ports(1, 2, 3, 4))
    text = kwok.configuration(made)
    documents = list(yaml.safe_load_all(text))

    assert "@" not in text.replace("@testbed", "")
    assert [d["metadata"]["name"] for d in documents if d["kind"] == "Stage"] == [
        "pod-wait",
        "pod-start",
        "pod-complete",
        "pod-debug",
        "pod-end",
        "pod-delete",
    ]
    keys = {
        e["key"]
        for d in documents
        if d["kind"] == "Stage"
        for e in d["spec"]["selector"]["matchExpressions"]
    }
    assert kwok.WAITS in keys
    assert any(kwok.RUN_FOR in key for key in keys)
    assert kwok.EXIT_CODE in text


def test_every_stream_is_configured_for_the_whole_member(tmp_path):
    made = layout.Layout("east", tmp_path, 0, layout.Ports(1, 2, 3, 4))
    kinds = {d["kind"] for d in yaml.safe_load_all(kwok.configuration(made))} - {"Stage"}

    assert kinds == {"ClusterLogs", "ClusterAttach", "ClusterExec", "ClusterPortForward"}


@pytest.mark.parametrize(("uid", "user"), [(0, 65534), (1000, None)])
def test_root_lends_itself_to_no_exec(tmp_path, monkeypatch, uid, user):
    monkeypatch.setattr(kwok.os, "geteuid", lambda: uid)
    made = layout.Layout("east", tmp_path, 0, layout.Ports(1, 2, 3, 4))
    (exec_,) = (
        d for d in yaml.safe_load_all(kwok.configuration(made)) if d["kind"] == "ClusterExec"
    )
    (target,) = exec_["spec"]["execs"]

    assert target["local"].get("securityContext", {}).get("runAsUser") == user
