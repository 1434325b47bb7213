"""A selector that goes on to a member selects there what it selects in the fleet."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest
from fleet.kube import builtin, fields
from fleet.kube.resources import GroupVersionResource
from fleet.kube.revision import Revision
from fleet.kube.selectors import EVERYTHING, NOTHING, FieldSelector, LabelSelector
from fleet.view.projection import Projector
from fleet.view.selectors import (
    for_member,
    split_members,
    unproject_field_selector,
    unproject_label_selector,
)

ROWS = {
    name: row
    for name in ("pods", "nodes", "events")
    if (row := builtin.resource(GroupVersionResource("", "v1", name))) is not None
}


# -- field selectors


@pytest.mark.parametrize(
    ("resource", "text", "forwarded"),
    [
        ("pods", "spec.nodeName=n1.east", "spec.nodeName=n1"),
        ("pods", "spec.host=n1.east", "spec.nodeName=n1"),
        ("pods", "spec.nodeName=", "spec.nodeName="),
        ("pods", "spec.nodeName!=n1.east", "spec.nodeName!=n1"),
        ("pods", "spec.nodeName!=n1.west,status.phase!=Failed", "status.phase!=Failed"),
        ("pods", "metadata.namespace=p.east", "metadata.namespace=p"),
        ("nodes", "metadata.name=n1.east", "metadata.name=n1"),
        ("nodes", "metadata.name!=n1.west", ""),
        ("pods", "spec.nodeName=n1.west", "metadata.name="),
        ("nodes", "metadata.name=n1", "metadata.name="),
        (
            "events",
            "involvedObject.kind=Pod,involvedObject.name=x,involvedObject.namespace=p.east",
            "involvedObject.kind=Pod,involvedObject.name=x,involvedObject.namespace=p",
        ),
        (
            "events",
            "involvedObject.apiVersion=v1,involvedObject.kind=Node,involvedObject.name=n1.east,"
            "involvedObject.uid=n1.east",
            "involvedObject.apiVersion=v1,involvedObject.kind=Node,involvedObject.name=n1,"
            "involvedObject.uid=n1",
        ),
    ],
)
def test_field_selectors_as_the_member_is_asked(resource: str, text: str, forwarded: str) -> None:
    assert unproject_field_selector(text, ROWS[resource], "east") == forwarded


def test_a_reference_whose_reading_is_open_is_asked_for_more_broadly() -> None:
    selector = FieldSelector.parse("involvedObject.name=x.east,type=Warning")
    translated = for_member(selector, resource=ROWS["events"], member="east")
    assert translated is not None
    assert (str(translated.selector), translated.exact) == ("type=Warning", False)
    with pytest.raises(BadRequest, match="say kind and apiVersion"):
        unproject_field_selector(str(selector), ROWS["events"], "east")


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("involvedObject.uid=0f4c", False),
        ("involvedObject.kind=Pod,involvedObject.uid=0f4c", True),
        ("involvedObject.name=x,involvedObject.kind=Pod,involvedObject.uid=x", True),
        ("involvedObject.kind=Node,involvedObject.apiVersion=v1,involvedObject.uid=n1", False),
        (
            "involvedObject.kind=Node,involvedObject.apiVersion=v1,involvedObject.name=n1.east,"
            "involvedObject.uid=0f4c",
            True,
        ),
    ],
)
def test_a_uid_may_be_a_nodes_name_until_the_selector_says_otherwise(
    text: str, exact: bool
) -> None:
    translated = for_member(FieldSelector.parse(text), resource=ROWS["events"], member="east")
    assert translated is not None
    assert translated.exact == exact


def test_a_field_that_is_none_is_refused_as_upstream_does() -> None:
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.nope"):
        unproject_field_selector("spec.nope=1", ROWS["pods"], "east")


names = st.sampled_from(["", "n1", "n1.east", "n1.east.east", "n2", "n1.west"])
references = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["Node", "Pod"]),
        "apiVersion": st.sampled_from(["v1", "longhorn.io/v1", ""]),
        "namespace": st.sampled_from(["", "p"]),
        "name": names,
        "uid": names,
    },
)
terms = st.tuples(
    st.sampled_from(
        [
            "metadata.namespace",
            "metadata.name",
            *(
                f"involvedObject.{key}"
                for key in ("kind", "apiVersion", "namespace", "name", "uid")
            ),
        ]
    ),
    st.sampled_from(["=", "=", "!="]),
    st.sampled_from(["", "n1", "n1.east", "n1.east.east", "p", "p.east", "p.west", "Node", "v1"]),
)


@given(references, st.lists(terms, max_size=4))
def test_translated_field_selectors_select_the_same_and_never_less(
    reference: dict[str, Any], requirements: list[Any]
) -> None:
    event = {"metadata": {"name": "n1", "namespace": "p"}, "involvedObject": reference}
    row = ROWS["events"]
    shown = Projector("east", row).project(copy.deepcopy(event), revision=Revision(1))
    selector = FieldSelector(requirements)
    in_fleet = selected(selector, shown)
    translated = for_member(selector, resource=row, member="east")
    if translated is None:
        assert not in_fleet
        return
    in_member = selected(translated.selector, event)
    if translated.exact:
        assert in_member == in_fleet
    else:
        assert in_member or not in_fleet


def selected(selector: FieldSelector, obj: dict[str, Any]) -> bool:
    row = ROWS["events"]
    metadata = obj["metadata"]
    matches = fields.matcher(row, selector)
    return matches(metadata["namespace"], metadata["name"], fields.extract(row, obj))


# -- the label that says the member


@pytest.mark.parametrize(
    ("text", "owners", "rest"),
    [
        ("", {"", "east", "west"}, ""),
        ("app=web", {"", "east", "west"}, "app=web"),
        ("fleet.dev/cluster=east,app=web", {"east"}, "app=web"),
        ("fleet.dev/cluster in (east,west)", {"east", "west"}, ""),
        ("fleet.dev/cluster!=east", {"", "west"}, ""),
        ("fleet.dev/cluster notin (east),fleet.dev/cluster", {"west"}, ""),
        ("!fleet.dev/cluster,app", {""}, "app"),
        ("fleet.dev/cluster=gone", set(), ""),
    ],
)
def test_the_cluster_label_says_whom_to_ask(text: str, owners: set[str], rest: str) -> None:
    found, left = split_members(LabelSelector.parse(text), ["", "east", "west"])
    assert (found, str(left)) == (owners, rest)


def test_a_selector_of_nothing_asks_nobody() -> None:
    assert split_members(NOTHING, ["east"])[0] == frozenset()
    assert split_members(EVERYTHING, ["east"])[0] == {"east"}


def test_a_label_selector_goes_on_without_the_mark() -> None:
    assert unproject_label_selector("fleet.dev/cluster=east,app=web", "east") == "app=web"
    nothing = LabelSelector.parse(unproject_label_selector("fleet.dev/cluster=west", "east"))
    assert not nothing.matches({}) and not nothing.matches({"fleet.dev/cluster": "west"})
