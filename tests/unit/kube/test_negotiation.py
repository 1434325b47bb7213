from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest, NotAcceptable, UnsupportedMediaType
from fleet.kube.negotiation import (
    Representation,
    body_form,
    discovery_form,
    representation,
)

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TABLE_BETA = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PLAIN = Representation()


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, PLAIN),
        ("", PLAIN),
        ("*/*", PLAIN),
        ("application/*", PLAIN),
        ("application/json", PLAIN),
        ("Application/JSON; charset=utf-8", PLAIN),
        ("text/html, */*;q=0.1", PLAIN),
        # kubectl's typed clients, protobuf first
        (f"{PROTOBUF},application/json", PLAIN),
        (f"{PROTOBUF}, */*", PLAIN),
        ("application/json;q=0.5, application/yaml", Representation(encoding="yaml")),
        ("application/yaml;q=0.5, application/json;q=0.4", Representation(encoding="yaml")),
        ("application/yaml", Representation(encoding="yaml")),
        ("application/json;pretty=1", Representation(pretty=True)),
        # kubectl get
        (f"{TABLE},{TABLE_BETA},application/json", Representation(form="table")),
        (f"{TABLE_BETA},application/json", Representation(form="table", version="v1beta1")),
        (f"application/json;q=0.9, {TABLE};q=0.8", PLAIN),
        (f"application/json;q=0.8, {TABLE};q=0.9", Representation(form="table")),
        # metadata informers
        (f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{PARTIAL},application/json",
         Representation(form="partial")),
        (PARTIAL_LIST, Representation(form="partiallist")),
        # conversions that do not exist are passed over
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", PLAIN),
        ("application/json;as=Table;v=v1;g=other,application/json", PLAIN),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io,application/json", PLAIN),
        ("application/json;v=v1,application/yaml", Representation(encoding="yaml")),
        ("application/json;sv=v2,application/yaml", Representation(encoding="yaml")),
        ("application/json;sv=v1", PLAIN),
        ("application/json;stream=watch", PLAIN),
    ],
)  # fmt: skip
def test_accept(accept: str | None, expected: Representation) -> None:
    assert representation(accept) == expected


@pytest.mark.parametrize(
    "accept",
    [
        PROTOBUF,
        "text/html",
        "application/cbor",
        "json",
        "application/json;as=Chart;v=v1;g=meta.k8s.io",
        "application/json;stream=other",
        f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io",
    ],
)
def test_what_cannot_be_served(accept: str) -> None:
    with pytest.raises(NotAcceptable) as caught:
        representation(accept)
    assert caught.value.message == (
        "only the following media types are accepted: application/json, application/yaml"
    )


def test_reviews_have_no_table() -> None:
    with pytest.raises(NotAcceptable):
        representation(TABLE, table_ok=False)
    # kubernetes#138582: a later clause that fits is taken
    assert representation(f"{TABLE},application/json", table_ok=False) == PLAIN


def test_metadata_forms_fit_the_shape_of_the_answer() -> None:
    assert representation(f"{PARTIAL},{PARTIAL_LIST}", listing=True).form == "partiallist"
    assert representation(f"{PARTIAL_LIST},{PARTIAL}", listing=False).form == "partial"
    with pytest.raises(NotAcceptable, match="but the requested object is a list"):
        representation(PARTIAL, listing=True)
    with pytest.raises(NotAcceptable, match="but the requested object is not a list"):
        representation(PARTIAL_LIST, listing=False)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, "object"),
        ("application/json;stream=watch", "object"),
        ("application/json, */*", "object"),
        (f"{PROTOBUF};stream=watch,application/json;stream=watch", "object"),
        (f"{TABLE},{TABLE_BETA},application/json", "table"),
        (PARTIAL, "partial"),
        ("application/yaml, application/json", "object"),
    ],
)
def test_watches_are_json_lines(accept: str | None, form: str) -> None:
    found = representation(accept, watch=True, pretty=True)
    assert (found.form, found.encoding, found.pretty) == (form, "json", False)


def test_a_watch_sends_single_objects() -> None:
    assert representation(PARTIAL, watch=True, listing=True).form == "partial"
    with pytest.raises(NotAcceptable, match="not a list"):
        representation(PARTIAL_LIST, watch=True)


def test_a_watch_in_yaml_cannot_be_served() -> None:
    with pytest.raises(NotAcceptable, match=r"accepted: application/json;stream=watch$"):
        representation("application/yaml", watch=True)


@pytest.mark.parametrize(
    ("value", "include"),
    [(None, "Metadata"), ("", "Metadata"), ("Metadata", "Metadata"), ("Object", "Object")],
)
def test_what_table_rows_carry(value: str | None, include: str) -> None:
    assert representation(TABLE, include=value).include == include


def test_an_unknown_include_is_refused_for_tables_only() -> None:
    with pytest.raises(BadRequest, match="must be 'Metadata', 'Object', 'None', or empty"):
        representation(TABLE, include="all")
    assert representation("application/json", include="all") == PLAIN


def test_content_types() -> None:
    assert PLAIN.content_type == "application/json"
    assert Representation(encoding="yaml").content_type == "application/yaml"


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "legacy"),
        ("*/*", "legacy"),
        ("application/json", "legacy"),
        (f"{AGGREGATED.format('v2')},{AGGREGATED.format('v2beta1')},application/json", "v2"),
        (f"{AGGREGATED.format('v2')};profile=nopeer,application/json", "v2"),
        (f"{AGGREGATED.format('v2beta1')},application/json", "v2beta1"),
        (f"{AGGREGATED.format('v3')},application/json", "legacy"),
        (f"{PROTOBUF}, application/json", "legacy"),
    ],
)
def test_discovery_forms(accept: str | None, expected: str) -> None:
    assert discovery_form(accept) == expected


def test_a_discovery_form_that_does_not_exist() -> None:
    with pytest.raises(NotAcceptable):
        discovery_form(AGGREGATED.format("v3"))


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        (None, "json"),
        ("", "json"),
        ("application/json", "json"),
        ("application/json; charset=utf-8", "json"),
        ("APPLICATION/YAML", "yaml"),
        (PROTOBUF, "protobuf"),
    ],
)
def test_bodies(content_type: str | None, form: str) -> None:
    assert body_form(content_type) == form


@pytest.mark.parametrize("content_type", ["text/plain", "application/cbor", "json", ";"])
def test_bodies_that_cannot_be_read(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        body_form(content_type)
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@given(st.text('apliction/jsony*,;=q"0.9 ', max_size=40))
def test_any_accept_is_served_or_refused(accept: str) -> None:
    try:
        representation(accept)
    except NotAcceptable:
        return


clauses = st.sampled_from(
    [PROTOBUF, TABLE, TABLE_BETA, PARTIAL, "application/json", "application/yaml", "text/html"]
)
qualities = st.integers(0, 10).map(lambda q: f";q={q / 10}")


@given(st.lists(st.tuples(clauses, qualities), min_size=1, max_size=5))
def test_the_best_servable_clause_wins(offers: list[tuple[str, str]]) -> None:
    servable = [(media, q) for media, q in offers if media not in (PROTOBUF, "text/html")]
    accept = ",".join(media + q for media, q in offers)
    if not servable:
        with pytest.raises(NotAcceptable):
            representation(accept)
        return
    best = max(servable, key=lambda offer: float(offer[1][3:]))
    assert representation(accept) == representation(best[0])
