"""`kubectl get` in all its forms: the merged view reads like one cluster."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.controlplane

AGE = re.compile(r"(\d+[dhms])+|<invalid>")


def test_every_namespace_shows_every_member_and_whose_each_pod_is(
    kubectl: Any, payments: str
) -> None:
    found = kubectl.table("get", "pods", "-A", "-l", "app=web")
    mine = [row for row in found if row["NAMESPACE"].startswith(payments)]
    assert len(mine) == 4
    assert {(row["NAMESPACE"], row["CLUSTER"]) for row in mine} == {
        (f"{payments}.east", "east"),
        (f"{payments}.west", "west"),
    }
    assert {row["STATUS"] for row in mine} == {"Running"}


def test_a_members_namespace_prints_as_in_the_member(kubectl: Any, payments: str) -> None:
    forms = [
        (kinds, *form)
        for kinds in ("deploy,svc,rs,jobs,cm,secrets,sa,ep", "pods", "all", "events")
        for form in ((), ("-o", "wide"))
    ]
    there = kubectl.at("east")

    def merged() -> list[tuple[Any, ...]]:
        shown = kubectl.together(*(("get", *form, "-n", f"{payments}.east") for form in forms))
        assert all("CLUSTER" in text for text in shown)
        return [(form, _plain(text, "east")) for form, text in zip(forms, shown, strict=True)]

    def direct() -> list[tuple[Any, ...]]:
        shown = there.together(*(("get", *form, "-n", payments) for form in forms))
        return [(form, _plain(text)) for form, text in zip(forms, shown, strict=True)]

    kubectl.agree(merged, direct)


def test_cluster_scoped_kinds_carry_the_member_in_their_name(kubectl: Any) -> None:
    merged = kubectl("get", "nodes", "-o", "wide")
    expected = []
    for member in ("east", "west"):
        nodes = kubectl.at(member).table("get", "nodes", "-o", "wide")
        expected += [f"{row['NAME']}.{member}" for row in nodes]
    assert [line.split()[0] for line in merged.splitlines()[1:]] == sorted(expected)


def test_one_object_by_name(kubectl: Any, payments: str) -> None:
    found = kubectl.table("get", "deploy", "web", "-n", f"{payments}.west")
    assert [(row["NAME"], row["READY"], row["CLUSTER"]) for row in found] == [
        ("web", "2/2", "west")
    ]
    both = kubectl("get", "deploy/web", "svc/web", "-n", f"{payments}.west", "-o", "name")
    assert both.split() == ["deployment.apps/web", "service/web"]


def test_yaml_and_json_are_the_members_object_projected(kubectl: Any, payments: str) -> None:
    where = ("get", "deploy", "web", "-n")
    there = kubectl.at("east")

    def unprojected() -> Any:
        merged = kubectl.json(*where, f"{payments}.east")
        assert merged["metadata"]["namespace"] == f"{payments}.east"
        assert merged["metadata"]["labels"].pop("fleet.dev/cluster") == "east"
        told = merged["metadata"]["annotations"].pop("fleet.dev/member-resource-version")
        merged["metadata"] |= {"namespace": payments, "resourceVersion": told}
        return merged

    kubectl.agree(unprojected, lambda: there.json(*where, payments))
    kubectl.agree(
        lambda: yaml.safe_load(kubectl(*where, f"{payments}.east", "-o", "yaml")),
        lambda: kubectl.json(*where, f"{payments}.east"),
    )


def test_names_jsonpath_go_templates_and_columns(kubectl: Any, payments: str) -> None:
    where = ("-n", f"{payments}.east", "-l", "app=web")
    names, path, template, columns = kubectl.together(
        ("get", "pods", *where, "-o", "name"),
        ("get", "pods", *where, "-o", "jsonpath={.items[*].metadata.namespace}"),
        ("get", "pods", *where, "-o", "go-template={{range .items}}{{.spec.nodeName}} {{end}}"),
        ("get", "pods", *where, "-o", "custom-columns=WHO:.metadata.name,IN:.metadata.namespace"),
    )
    assert len(names.split()) == 2
    assert all(name.startswith("pod/web-") for name in names.split())
    assert path.split() == [f"{payments}.east"] * 2
    assert all(node.endswith(".east") for node in template.split())
    assert [line.split()[1] for line in columns.splitlines()] == ["IN", *[f"{payments}.east"] * 2]


def test_a_label_tells_the_cluster(kubectl: Any, payments: str) -> None:
    expected = {
        "fleet.dev/cluster=east": ["east"] * 2,
        "fleet.dev/cluster in (east,west)": ["east"] * 2 + ["west"] * 2,
        "fleet.dev/cluster!=east": ["west"] * 2,
        "fleet.dev/cluster=nowhere": [],
        "tier=front,fleet.dev/cluster notin (west)": ["east"] * 2,
        "!fleet.dev/cluster": [],
    }
    found = kubectl.together(
        *(("get", "pods", "-n", f"{payments}.*", "-l", f"app=web,{text}") for text in expected)
    )
    for (selector, clusters), text in zip(expected.items(), found, strict=True):
        assert [line.split()[1] for line in text.splitlines()[1:]] == clusters, selector


def test_field_selectors_speak_of_projected_names(kubectl: Any, payments: str) -> None:
    pods = kubectl.json("get", "pods", "-A", "-l", "app=web")["items"]
    pod = next(p for p in pods if p["metadata"]["namespace"] == f"{payments}.west")
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    assert node.endswith(".west")
    for selector in (
        f"spec.nodeName={node}",
        f"metadata.name={name}",
        f"metadata.namespace={payments}.west,metadata.name={name}",
        f"status.phase=Running,metadata.name={name}",
    ):
        found = kubectl.json("get", "pods", "-A", "--field-selector", selector)["items"]
        assert pod["metadata"]["uid"] in {p["metadata"]["uid"] for p in found}
        assert {p["spec"]["nodeName"].rpartition(".")[2] for p in found} == {"west"}
    plain = node.removesuffix(".west")
    assert (
        kubectl("get", "pods", "-A", "-o", "name", "--field-selector", f"spec.nodeName={plain}")
        == ""
    )
    assert "field label not supported: spec.colour" in kubectl.refused(
        "get", "pods", "-A", "--field-selector", "spec.colour=green"
    )


def test_sorted_by_a_field_with_labels_shown(kubectl: Any, payments: str) -> None:
    where = ("get", "pods", "-n", f"{payments}.east", "-l", "app=web")
    times = kubectl(
        *where, "--sort-by=.metadata.creationTimestamp", "-o",
        "jsonpath={range .items[*]}{.metadata.creationTimestamp}{'\\n'}{end}",
    ).split()  # fmt: skip
    assert times == sorted(times)
    assert len(times) == 2
    where = ("get", "pods", "-n", f"{payments}.*", "-l", "app=web")
    shown = kubectl.table(*where, "--show-labels", "--sort-by=.spec.nodeName")
    assert all("fleet.dev/cluster=" in row["LABELS"] for row in shown)
    labelled = kubectl.table(*where, "-L", "tier", "-L", "fleet.dev/cluster")
    assert {row["TIER"] for row in labelled} == {"front"}
    assert all(row["CLUSTER"] in ("east", "west") for row in labelled)


@pytest.mark.parametrize("size", [7, 500])
def test_chunks_make_the_same_list(kubectl: Any, payments: str, size: int) -> None:
    where = ("get", "pods", "-A", "-o", "custom-columns=:.metadata.namespace,:.metadata.name")
    whole = kubectl.agree(
        lambda: kubectl(*where, "--chunk-size=0", "--no-headers").split("\n"),
        lambda: kubectl(*where, f"--chunk-size={size}", "--no-headers").split("\n"),
    )
    keys = [tuple(line.split()) for line in whole if line]
    assert keys == sorted(keys)


def test_raw_paths(kubectl: Any, payments: str) -> None:
    listed = json.loads(
        kubectl("get", "--raw", f"/api/v1/namespaces/{payments}.east/pods?labelSelector=app%3Dweb")
    )
    assert listed["kind"] == "PodList"
    assert len(listed["items"]) == 2
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(kubectl("get", "--raw", "/version"))["major"] == "1"


def test_subresources(kubectl: Any, payments: str) -> None:
    where = ("-n", f"{payments}.east")
    scale = kubectl.json("get", "deploy", "web", *where, "--subresource=scale")
    assert scale["kind"] == "Scale"
    assert scale["metadata"]["namespace"] == f"{payments}.east"
    assert scale["spec"]["replicas"] == 2
    assert scale["status"]["selector"] == "app=web"
    status = kubectl.json("get", "deploy", "web", *where, "--subresource=status")
    assert status["status"]["readyReplicas"] == 2


def test_what_is_not_there(kubectl: Any, payments: str) -> None:
    err = kubectl.refused("get", "deploy", "nope", "-n", f"{payments}.east")
    assert err == 'Error from server (NotFound): deployments.apps "nope" not found\n'
    assert kubectl("get", "deploy", "nope", "-n", f"{payments}.east", "--ignore-not-found") == ""
    empty = kubectl.run("get", "pods", "-n", f"{payments}.east", "-l", "app=nothing")
    assert (empty.code, empty.out) == (0, "")
    assert f"No resources found in {payments}.east namespace" in empty.err
    assert "the server doesn't have a resource type" in kubectl.refused("get", "gizmos")


def test_watching_shows_what_happens_in_each_member(kubectl: Any, space: str) -> None:
    watch = ("get", "cm", "-n", f"{space}.*", "--watch", "--output-watch-events")
    with kubectl.running(*watch) as running:
        head = running.line("EVENT")
        assert head.split() == ["EVENT", "NAME", "CLUSTER", "DATA", "AGE"]
        running.line(r"ADDED +kube-root-ca.crt +west")
        for member in ("east", "west"):
            there = kubectl.at(member)
            there("create", "cm", "watched", "-n", space, "--from-literal=v=1")
            running.line(rf"ADDED +watched +{member} +1")
            there("patch", "cm", "watched", "-n", space, "-p", '{"data":{"w":"2"}}')
            running.line(rf"MODIFIED +watched +{member} +2")
            kubectl("delete", "cm", "watched", "-n", f"{space}.{member}")
            running.line(rf"DELETED +watched +{member} +2")
        assert not [line for line in running.seen[1:] if "EVENT" in line]


def test_a_union_of_namespaces_reads_like_one(kubectl: Any, payments: str) -> None:
    kubectl("create", "cm", "ours", "-n", payments, "--from-literal=a=b")
    found = kubectl.table("get", "cm", "-n", f"{payments}.*")
    assert [(row["NAME"], row["CLUSTER"]) for row in found if "kube-root" not in row["NAME"]] == [
        ("ours", "fleet"),
        ("settings", "east"),
        ("settings", "west"),
    ]
    # With -n a kubectl that prints objects insists on that very namespace; a context does not.
    within = kubectl.within(f"{payments}.*")
    names = within("get", "pods", "-l", "app=web", "-o", "name").split()
    assert len(names) == 4
    assert {item["metadata"]["namespace"] for item in within.json("get", "svc")["items"]} == {
        f"{payments}.east",
        f"{payments}.west",
    }


def _plain(text: str, cluster: str = "") -> list[list[str]]:
    """Cells of printed tables without what a moment changes and without what is projected."""
    tables: list[list[str]] = []
    extra: list[int] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        if "NAME" in cells or "LAST SEEN" in cells:
            extra = [n for n, cell in enumerate(cells) if cell == "CLUSTER"]
        elif cluster and cells:
            # an empty cell before it moves the column
            extra = [n for n, cell in enumerate(cells) if cell == cluster][:1]
        kept = [cell for n, cell in enumerate(cells) if n not in extra]
        tables.append([_unprojected(cell, cluster) for cell in kept if not AGE.fullmatch(cell)])
    return tables


def _unprojected(cell: str, cluster: str) -> str:
    return cell.replace(f".{cluster}", "") if cluster else cell
