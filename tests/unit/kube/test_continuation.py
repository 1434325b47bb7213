from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest
from fleet.kube.continuation import (
    Continuation,
    decode,
    encode,
    expired,
    expired_list,
    selection,
)
from fleet.kube.options import ListOptions
from fleet.kube.revision import Revision
from fleet.kube.wire import Request

PATH = "/api/v1/pods"
HERE = encode(Revision(7), ("a", "web"), path=PATH, selectors="app=web\n")

segments = st.from_regex(r"[a-z0-9][a-z0-9.:-]{0,30}", fullmatch=True)


@given(
    revision=st.one_of(st.none(), st.integers(1, 2**64 - 1).map(Revision)),
    namespace=st.one_of(st.just(""), segments),
    name=segments,
    selectors=st.text(max_size=20),
)
def test_tokens_round_trip(
    revision: Revision | None, namespace: str, name: str, selectors: str
) -> None:
    token = encode(revision, (namespace, name), path=PATH, selectors=selectors)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)
    assert decode(token, path=PATH, selectors=selectors) == Continuation(
        revision, (namespace, name)
    )


@pytest.mark.parametrize(
    ("path", "selectors"),
    [
        ("/api/v1/namespaces/a/pods", "app=web\n"),
        ("/api/v1/services", "app=web\n"),
        (PATH, ""),
        (PATH, "app=web\nmetadata.name=x"),
    ],
)
def test_a_token_belongs_to_its_list(path: str, selectors: str) -> None:
    decode(HERE, path=PATH, selectors="app=web\n")
    with pytest.raises(BadRequest, match="continue key is not valid"):
        decode(HERE, path=path, selectors=selectors)


def forged(**changes: object) -> str:
    document = json.loads(base64.urlsafe_b64decode(HERE + "=" * (-len(HERE) % 4)))
    raw = json.dumps(document | changes).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "not base64!",
        "é",
        "eyJ",
        "bnVsbA",
        "W10",
        "MQ",
        "a" * 5000,
        HERE[:-2],
        forged(v="meta.k8s.io/v1"),
        forged(v=None),
        forged(rv=0),
        forged(rv=-2),
        forged(rv="7"),
        forged(rv=True),
        forged(rv=1.5),
        forged(after=""),
        forged(after="web"),
        forged(after="a/"),
        forged(after="a/b/c"),
        forged(after="../web"),
        forged(after="a/.."),
        forged(after="a/b%2f"),
        forged(after=["a", "web"]),
        forged(of=""),
    ],
)
def test_tokens_that_cannot_be_read(token: str) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        decode(token, path=PATH, selectors="app=web\n")


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_a_bad_request(token: str) -> None:
    with pytest.raises(BadRequest):
        decode(token, path=PATH)


def test_an_expired_token_comes_with_one_that_goes_on() -> None:
    error = expired(Continuation(Revision(7), ("a", "web")), path=PATH, selectors="s")
    assert error.message == (
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted between "
        "the time the first chunk was returned and now may show up in the list."
    )
    fresh = decode(error.continue_token, path=PATH, selectors="s")
    assert fresh == Continuation(None, ("a", "web"))


def test_the_plain_expiration() -> None:
    assert expired_list().message == "The resourceVersion for the provided list is too old."


def test_equal_selectors_written_differently_are_one_selection() -> None:
    def options(label: str, field: str) -> ListOptions:
        query = (("labelSelector", label), ("fieldSelector", field))
        return ListOptions.parse(Request("GET", PATH, query))

    one = selection(options("b=1, a==2", "metadata.name==x"))
    same = selection(options("a=2,b=1", "metadata.name=x"))
    other = selection(options("a=2", "b=1,metadata.name=x"))
    assert one == same != other
