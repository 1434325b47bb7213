"""What a pod refers to: variables, commands, volumes, names."""

from __future__ import annotations

import base64

import pytest

from virtualnode.kubelet import environment, volumes
from virtualnode.kubelet.hosts import hosts_file
from virtualnode.kubelet.references import Lacking, Ref, Refused, Subject, references

CONFIG = {
    "data": {"A": "1", "path": "x/y"},
    "binaryData": {"raw": base64.b64encode(b"\0").decode()},
}
SECRET = {"data": {"token": base64.b64encode(b"t0").decode()}}
OBJECTS = {Ref("configmap", "cm"): CONFIG, Ref("secret", "sec"): SECRET}


def pod(**spec):
    metadata = {
        "name": "p", "namespace": "ns", "uid": "u",
        "labels": {"b": '"q"', "a": "1"}, "annotations": {"fleet.dev/x": "7"},
    }  # fmt: skip
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [], **spec}}


def subject(**spec):
    return Subject(
        pod(**spec), address="127.64.0.1", host_address="127.0.0.1", allocatable={"cpu": "8"}
    )


def variables(*env, sources=(), resources=None):
    container = {"env": list(env), "envFrom": list(sources), "resources": resources or {}}
    return environment.variables(subject(), container, OBJECTS.get)


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['fleet.dev/x']", "7"),
        ("metadata.labels", 'a="1"\nb="\\"q\\""'),
        ("spec.nodeName", "n1"),
        ("status.podIP", "127.64.0.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod(path, value):
    assert variables(field("X", path)) == {"X": value}


def test_a_field_that_is_none_is_refused():
    with pytest.raises(Refused, match=r"spec\.hostname"):
        variables(field("X", "spec.hostname"))


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "1"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "500"),
        ({"resource": "requests.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "requests.cpu"}, "0"),
    ],
)
def test_resources_of_the_container_in_units_rounded_up(reference, value):
    resources = {"limits": {"cpu": "500m"}, "requests": {"memory": "64Mi"}}
    wanted = {"name": "X", "valueFrom": {"resourceFieldRef": reference}}
    assert variables(wanted, resources=resources) == {"X": value}


def test_a_limit_that_is_not_set_is_the_nodes():
    wanted = {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    assert variables(wanted) == {"X": "8"}


def key(kind, name, of, *, optional=False):
    reference = {"name": name, "key": of, "optional": optional}
    return {"name": "X", "valueFrom": {kind: reference}}


def test_keys_of_objects_and_whole_objects():
    assert variables(key("configMapKeyRef", "cm", "A")) == {"X": "1"}
    assert variables(key("secretKeyRef", "sec", "token")) == {"X": "t0"}
    whole = [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "sec"}}]
    found = variables({"name": "token", "value": "own"}, sources=whole)
    assert (found["P_A"], found["token"]) == ("1", "own")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (key("configMapKeyRef", "no", "A"), 'configmap "no" not found'),
        (key("configMapKeyRef", "cm", "B"), "couldn't find key B in ConfigMap ns/cm"),
        (key("secretKeyRef", "sec", "B"), "couldn't find key B in Secret ns/sec"),
    ],
)
def test_what_is_missing_is_said_unless_it_is_optional(wanted, message):
    with pytest.raises(Lacking, match=message):
        variables(wanted)
    next(iter(wanted["valueFrom"].values()))["optional"] = True
    assert variables(wanted) == {}


def test_a_whole_object_that_is_missing():
    with pytest.raises(Lacking, match='secret "no" not found'):
        variables(sources=[{"secretRef": {"name": "no"}}])
    assert variables(sources=[{"secretRef": {"name": "no", "optional": True}}]) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)/$(B)", "1/$(B)"),
        ("$$(A)", "$(A)"),
        ("$A $ $( $(", "$A $ $( $("),
        ("$$$(A)", "$1"),
        ("a$(A)b$(A)", "a1b1"),
    ],
)
def test_references_to_variables(text, value):
    assert environment.expand(text, {"A": "1"}) == value


def test_variables_see_those_before_and_the_command_sees_all():
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(C)"},
        {"name": "C", "value": "3"},
    ]
    found = variables(*env)
    assert found["B"] == "1$(C)"
    container = {"command": ["run", "$(C)"], "args": ["$(B)"]}
    assert environment.command(container, found) == ["run", "3", "1$(C)"]


# -- volumes


def resolved(*wanted):
    return volumes.resolve(subject(volumes=list(wanted)), OBJECTS.get)


def test_files_of_every_kind_of_volume():
    item = {"key": "A", "path": "d/a", "mode": 0o400}
    own = {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}
    found = resolved(
        {"name": "cm", "configMap": {"name": "cm", "defaultMode": 0o600}},
        {"name": "some", "configMap": {"name": "cm", "items": [item]}},
        {"name": "sec", "secret": {"secretName": "sec"}},
        {"name": "down", "downwardAPI": {"items": [own]}},
        {
            "name": "all",
            "projected": {
                "defaultMode": 0o640,
                "sources": [
                    {"configMap": {"name": "cm", "items": [{"key": "A", "path": "a"}]}},
                    {"secret": {"name": "sec"}},
                ],
            },
        },
        {"name": "scratch", "emptyDir": {}},
        {"name": "maybe", "configMap": {"name": "no", "optional": True}},
    )  # fmt: skip
    assert found.empty == ("scratch",)
    assert found.files == {
        "cm": {"A": (b"1", 0o600), "path": (b"x/y", 0o600), "raw": (b"\0", 0o600)},
        "some": {"d/a": (b"1", 0o400)},
        "sec": {"token": (b"t0", 0o644)},
        "down": {"n": (b"p", 0o644)},
        "all": {"a": (b"1", 0o640), "token": (b"t0", 0o640)},
        "maybe": {},
    }


def test_a_missing_object_is_waited_for_in_a_kubelets_words():
    with pytest.raises(Lacking) as lacking:
        resolved({"name": "gate", "configMap": {"name": "train-gate"}})
    assert str(lacking.value) == (
        'MountVolume.SetUp failed for volume "gate" : configmap "train-gate" not found'
    )


@pytest.mark.parametrize(
    "kind", ["hostPath", "persistentVolumeClaim", "nfs", "csi", "ephemeral", "image"]
)
def test_any_other_volume_is_refused_by_name(kind):
    with pytest.raises(Refused, match=f'"v" cannot be had on this node: it is {kind}'):
        resolved({"name": "v", kind: {}})


def test_a_token_is_refused_too():
    source = {"serviceAccountToken": {"path": "token"}}
    with pytest.raises(Refused, match="serviceAccountToken"):
        resolved({"name": "v", "projected": {"sources": [source]}})


def test_mounts():
    files = volumes.Volumes(files={"cm": {}}, empty=("scratch",))
    container = {
        "volumeMounts": [
            {"name": "cm", "mountPath": "/etc/x"},
            {"name": "scratch", "mountPath": "/s", "subPathExpr": "$(A)"},
            {"name": "scratch", "mountPath": "/r", "readOnly": True},
        ]
    }
    assert volumes.mounts(container, files, {"A": "sub"}) == [
        ("cm", "/etc/x", "", True), ("scratch", "/s", "sub", False), ("scratch", "/r", "", True),
    ]  # fmt: skip


def test_everything_a_pod_names_is_found():
    spec = {
        "volumes": [
            {"configMap": {"name": "a"}},
            {"projected": {"sources": [{"secret": {"name": "b"}}]}},
            {"secret": {"secretName": "c"}},
        ],
        "containers": [
            {"env": [{"valueFrom": {"secretKeyRef": {"name": "d"}}}]},
            {"envFrom": [{"configMapRef": {"name": "e"}}]},
        ],
        "initContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "f"}}}]}],
    }
    assert references(pod(**spec)) == {
        Ref("configmap", "a"), Ref("secret", "b"), Ref("secret", "c"),
        Ref("secret", "d"), Ref("configmap", "e"), Ref("configmap", "f"),
    }  # fmt: skip


# -- names


def test_the_hosts_file_has_the_names_that_dns_would_have():
    def service(name, cluster_ip):
        return {"metadata": {"name": name}, "spec": {"clusterIP": cluster_ip}}

    def piece(of, *endpoints):
        return {
            "metadata": {"labels": {"kubernetes.io/service-name": of}},
            "endpoints": list(endpoints),
        }

    text = hosts_file(
        pod(subdomain="train"),
        address="127.64.0.1",
        hostname="train-1",
        services={"train": service("train", "None"), "web": service("web", "127.128.0.5")},
        slices=[
            piece(
                "train",
                {"addresses": ["127.64.0.1"], "hostname": "train-1", "conditions": {"ready": True}},
                {"addresses": ["127.65.0.2"], "hostname": "train-0"},
                {"addresses": ["127.65.0.3"], "hostname": "x", "conditions": {"ready": False}},
            ),
            piece("web", {"addresses": ["127.64.9.9"]}),
            piece("gone", {"addresses": ["127.64.9.9"]}),
        ],
    )
    names = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            address, *found = line.split("\t")
            for name in found:
                names.setdefault(name, []).append(address)
    assert names["localhost"] == ["127.0.0.1"]
    assert names["train-1"] == ["127.64.0.1"]
    assert names["train-0.train"] == names["train-0.train.ns.svc.cluster.local"] == ["127.65.0.2"]
    assert names["train"] == ["127.64.0.1", "127.65.0.2"]
    assert names["web"] == names["web.ns.svc"] == ["127.128.0.5"]
    assert not any("gone" in name or name.startswith("x.") for name in names)
