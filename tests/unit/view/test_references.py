"""The table is closed: each field of the release that names something is decided on.

A new release brings new fields. This test finds them in the published schemas and fails until
somebody has put them into the table or, with a reason in docs/projection.md, among what stays.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fleet.kube import builtin
from fleet.kube.schema import Schema, schema_for
from fleet.view.references import (
    CLUSTER_SCOPED,
    ITEMS,
    REFERENCES,
    Field,
    Typed,
    cluster_scoped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a text is called that names a namespace, a node or a volume.
TEXTS = re.compile(
    r"namespaces?|.*[a-z]Namespace|.*[nN]odeName|(persistentV|v)olumeName|policyName"
)

# Local names and terms; docs/projection.md says why they stay.
STAYS = re.compile(
    "|".join(
        (
            # an object of the same namespace
            r".*\.fileKeyRef(\.volumeName)?",
            r"spec\.scaleTargetRef|.*\.describedObject|.*\.(defaultB|b)ackend\.resource",
            r"(.*\.)?(spec|volumeClaimTemplates\[\]\.spec)\.dataSource(Ref)?",
            # a storage system's own names
            r".*\.(scaleIO|storageos)\.volume(Name|Namespace)",
            # of templates, whose objects get their own
            r"(.+\.)?metadata\.(namespace|ownerReferences\[\])",
            # terms that the member's own machinery evaluates
            r".*\.pod(Anti)?Affinity\..*\.namespaces\[\]",
            r".*\.resourceRules\[\]\.namespaces\[\]",
            r".*\.shareProcessNamespace",
            r"spec\.(paramKind|names)",
            # of kinds that are custom resources, whose scope the table does not know
            r"spec\.(parameters|paramRef)",
            # dead since the kubelet's dynamic configuration was removed
            r"(spec\.configSource|status\.config\.\w+)\.configMap(\.namespace)?",
        )
    )
)


def decided() -> dict[tuple[str, str], set[str]]:
    """The paths of the table, as the walk below writes them."""
    found: dict[tuple[str, str], set[str]] = {}
    for key, references in REFERENCES.items():
        for reference in references:
            path = ".".join(reference.path).replace("." + ITEMS, ITEMS)
            found.setdefault(key, set()).add(path)
    return found


def leaves(
    schema: Schema, path: str = "", seen: tuple[str, ...] = ()
) -> Iterator[tuple[str, Schema]]:
    for name in schema.properties:
        if not path and name == "metadata":
            continue
        below = schema.field(name)
        here = f"{path}.{name}" if path else name
        while below is not None and below.items is not None:
            below, here = below.items, here + ITEMS
        if below is None:
            continue
        yield here, below
        if below.definition not in seen:
            yield from leaves(below, here, (*seen, below.definition))


@pytest.mark.parametrize(
    "gvk",
    sorted({(row.gvr.group, row.gvr.version, row.kind) for row in builtin.resources()}),
    ids=lambda gvk: ".".join(filter(None, gvk)),
)
def test_every_field_that_may_name_something_is_decided_on(gvk: tuple[str, str, str]) -> None:
    schema = schema_for(*gvk)
    assert schema is not None
    known = decided().get((gvk[0], gvk[2]), set())
    open_questions = {
        path
        for path, field in leaves(schema)
        if may_name_something(path, field)
        and not any(place == path or place.startswith(path + ".") for place in known)
        and not STAYS.fullmatch(path)
    }
    assert open_questions == set()


def may_name_something(path: str, field: Schema) -> bool:
    """A text called so; or a kind and a name, which may be cluster-scoped together."""
    if field.type == "string":
        return TEXTS.fullmatch(path.removesuffix(ITEMS).rpartition(".")[2]) is not None
    return {"kind", "name"} <= set(field.properties) or (
        field.definition.endswith("PriorityLevelConfigurationReference")
    )


# Not in the shipped documents: off by default, or in the document of another group.
ABSENT = {
    ("authentication.k8s.io", "TokenRequest"),
    ("certificates.k8s.io", "PodCertificateRequest"),
    ("resource.k8s.io", "ResourcePoolStatusRequest"),
}


@pytest.mark.parametrize("key", sorted(set(REFERENCES) - ABSENT), ids=lambda key: key[1])
def test_every_path_of_the_table_exists_in_the_release(key: tuple[str, str]) -> None:
    versions = {row.gvr.version for row in builtin.resources() if row.gvr.group == key[0]} or {"v1"}
    schemas = [s for v in versions if (s := schema_for(key[0], v, key[1])) is not None]
    assert schemas
    for reference in REFERENCES[key]:
        if key == ("apps", "ControllerRevision") or "basic" in reference.path:
            continue  # raw data; a field of older members
        found = [s.at(*reference.path) for s in schemas]
        assert any(found), reference
        match reference:
            case Field():
                assert {s.type for s in found if s} == {"string"}
            case Typed():
                deciding = {reference.kind, reference.group, "name"}
                assert all(deciding <= set(s.properties) for s in found if s)


def test_cluster_scoped_kinds_are_those_of_the_release_and_no_others() -> None:
    served = {
        row.kind: row.gvr.group
        for row in builtin.resources()
        if not row.namespaced and "get" in row.verbs
    }
    assert served.items() <= CLUSTER_SCOPED.items()
    namespaced = {(row.gvr.group, row.kind) for row in builtin.resources() if row.namespaced}
    assert not namespaced & {(group, kind) for kind, group in CLUSTER_SCOPED.items()}


def test_plurals_of_cluster_scoped_kinds_are_known_as_well() -> None:
    for row in builtin.resources():
        if "get" in row.verbs:
            for word in (row.kind, row.gvr.resource):
                assert cluster_scoped(group=row.gvr.group, kind=word) == (not row.namespaced)


def test_the_page_on_projection_lists_the_whole_table() -> None:
    page = Path(__file__).parents[3].joinpath("docs/projection.md").read_text("utf-8")
    table = page.split("## The table")[1].split("What stays")[0]
    for (_, kind), references in REFERENCES.items():
        assert f"`{kind}`" in table
        for reference in references:
            path = ".".join(reference.path).replace("." + ITEMS, ITEMS)
            shown = re.sub(r"^.*(template|PodTemplate)\.spec\.(?=nodeName|volumes)", "", path)
            shown = re.sub(
                r"^spec\.(source\.inlineVolumeSpec\.)?(?=.*[sS]ecret|claimRef|gluster)", "", shown
            )
            shown = shown.replace("spec.volumeClaimTemplates[].", "")
            shown = shown.replace("notReadyAddresses", "addresses").removeprefix("spec.volumes")
            if shown.endswith("secretRef.namespace") or shown.endswith("SecretRef.namespace"):
                shown = shown.removesuffix(".namespace")
            assert f"{shown}`" in table, (kind, path)
