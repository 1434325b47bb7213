"""Manifests of several objects, folders and kustomizations; a proxy; a dump of what is there."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.controlplane

SEVERAL = """
apiVersion: v1
kind: ConfigMap
metadata: {name: several, labels: {part-of: several}}
data: {a: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: several, labels: {part-of: several}}
stringData: {a: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: several, labels: {part-of: several}}
spec: {ports: [{port: 80}], selector: {app: several}}
"""


@pytest.mark.parametrize("suffix", ["", ".west"])
def test_a_folder_is_applied_read_and_deleted(
    kubectl: Any, space: str, suffix: str, tmp_path: Path
) -> None:
    where = ("-n", space + suffix)
    (tmp_path / "several.yaml").write_text(SEVERAL)
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [several.yaml]\nnamePrefix: pre-\n"
        "configMapGenerator: [{name: generated, literals: [x=y]}]\n"
    )
    files = str(tmp_path / "several.yaml")
    made = kubectl("apply", "-f", files, *where)
    assert made.split("\n")[:3] == [
        "configmap/several created",
        "secret/several created",
        "service/several created",
    ]
    read = json.loads(kubectl("get", "-f", files, *where, "-o", "json"))
    assert [item["metadata"]["namespace"] for item in read["items"]] == [space + suffix] * 3
    listed = kubectl("get", "cm,secrets,svc", *where, "-l", "part-of=several", "-o", "name")
    assert len(listed.split()) == 3
    assert "several" in kubectl("describe", "-f", files, *where)
    assert kubectl("delete", "-f", files, *where).count("deleted") == 3
    customized = kubectl("apply", "-k", str(tmp_path), *where)
    assert "configmap/pre-several created" in customized
    generated = re.search(r"configmap/(pre-generated-\S+) created", customized)
    assert generated is not None
    assert kubectl.json("get", "cm", generated[1], *where)["data"] == {"x": "y"}
    assert kubectl("delete", "-k", str(tmp_path), *where).count("deleted") == 4


def test_a_generated_name_is_the_members_or_the_fleets(kubectl: Any, space: str) -> None:
    manifest = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}
    )
    for suffix in ("", ".east"):
        made = kubectl("create", "-f", "-", "-n", space + suffix, "-o", "name", stdin=manifest)
        name = made.strip().removeprefix("configmap/")
        assert re.fullmatch(r"gen-[a-z0-9]{5}", name)
        kubectl("delete", "cm", name, "-n", space + suffix)


def test_a_manifest_that_names_another_namespace_is_not_applied(kubectl: Any, space: str) -> None:
    manifest = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "placed", "namespace": f"{space}.east"},
        }
    )
    err = kubectl.refused("apply", "-f", "-", "-n", f"{space}.west", stdin=manifest)
    assert "does not match the namespace" in err
    assert kubectl("apply", "-f", "-", stdin=manifest) == "configmap/placed created\n"
    assert kubectl.at("east")("get", "cm", "placed", "-n", space, "-o", "name")
    # as the member's own manifest would be: it names no member, and means the fleet
    plain = manifest.replace(f"{space}.east", space)
    assert kubectl("apply", "-f", "-", stdin=plain) == "configmap/placed created\n"
    assert kubectl.json("get", "cm", "placed", "-n", space)["metadata"]["namespace"] == space
    kubectl("delete", "cm", "placed", "-n", space)
    kubectl("delete", "cm", "placed", "-n", f"{space}.east")


def test_through_kubectl_proxy(kubectl: Any, payments: str) -> None:
    with kubectl.running("proxy", "--port=0") as running:
        line = running.line(r"Starting to serve on 127\.0\.0\.1:\d+")
        base = f"http://{line.rsplit(' ', 1)[1]}"
        path = f"/api/v1/namespaces/{payments}.east/configmaps/settings"
        with urllib.request.urlopen(base + path, timeout=60) as answer:
            assert json.load(answer)["metadata"]["namespace"] == f"{payments}.east"
        services = f"/api/v1/namespaces/{payments}.east/services/web/proxy/"
        direct = kubectl.at("east").run("get", "--raw", services.replace(".east", ""))
        merged = kubectl.run("get", "--raw", services)
        assert (merged.code, merged.out) == (direct.code, direct.out)


def test_api_objects_of_members_are_dumped(kubectl: Any, payments: str, tmp_path: Path) -> None:
    kubectl(
        "cluster-info", "dump", "--namespaces", f"{payments}.west",
        "--output-directory", str(tmp_path),
    )  # fmt: skip
    folder = tmp_path / f"{payments}.west"
    pods = json.loads((folder / "pods.json").read_text())["items"]
    names = {pod["metadata"]["name"] for pod in pods}
    assert len(names) == 3
    for name in names:
        assert "member west" in (folder / name / "logs.txt").read_text()
    nodes = json.loads((tmp_path / "nodes.json").read_text())["items"]
    assert {node["metadata"]["name"] for node in nodes} >= {"n1.east", "n1.west"}
