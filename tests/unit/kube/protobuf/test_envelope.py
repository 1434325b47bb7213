"""The frame: magic, runtime.Unknown, and which kind a body is."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import BadRequest
from fleet.kube.protobuf import MAGIC, decode
from fleet.kube.protobuf.schema import load

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = Callable[[str], Any]
    Frame = Callable[..., bytes]

META = "k8s.io.apimachinery.pkg.apis.meta.v1"


def test_the_kind_comes_from_the_envelope(frame: Frame) -> None:
    written = decode(frame(b"", "apps/v1", "Deployment"))
    assert (written["apiVersion"], written["kind"]) == ("apps/v1", "Deployment")


def test_the_envelope_wins_over_the_default(frame: Frame) -> None:
    written = decode(frame(b"", "v1", "ConfigMap"), default=("apps/v1", "Deployment"))
    assert written == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("policy/v1", "Eviction"),
        ("v1", "Binding"),
        ("autoscaling/v1", "Scale"),
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("authentication.k8s.io/v1", "TokenReview"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview"),
        ("meta.k8s.io/v1", "DeleteOptions"),
    ],
)
def test_a_default_fills_an_envelope_that_names_nothing(
    frame: Frame, api_version: str, kind: str
) -> None:
    body = frame(b"", "", "")
    written = decode(body, default=(api_version, kind))
    assert (written["apiVersion"], written["kind"]) == (api_version, kind)
    with pytest.raises(BadRequest, match="Object 'Kind' is missing in the envelope"):
        decode(body)


def test_each_half_of_the_default_fills_in_by_itself(frame: Frame) -> None:
    assert decode(frame(b"", "v1", ""), default=("x/v1", "Pod"))["apiVersion"] == "v1"
    assert decode(frame(b"", "", "Pod"), default=("v1", "Secret"))["kind"] == "Pod"
    with pytest.raises(BadRequest, match="Object 'apiVersion' is missing"):
        decode(frame(b"", "", "Pod"))


@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "policy/v1", "example.com/v1alpha1"])
def test_delete_options_belong_to_every_group_version(
    message: Messages, frame: Frame, api_version: str
) -> None:
    options = message(f"{META}.DeleteOptions")(gracePeriodSeconds=0, dryRun=["All"])
    options.preconditions.uid = "u"
    options.propagationPolicy = "Foreground"
    assert decode(frame(options, api_version, "DeleteOptions")) == {
        "kind": "DeleteOptions",
        "apiVersion": api_version,
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }


def test_a_list_holds_its_objects_as_json(message: Messages, frame: Frame) -> None:
    bundle = message("core.v1.List")()
    bundle.items.add(raw=b'{"kind":"Pod","apiVersion":"v1"}')
    assert decode(frame(bundle, "v1", "List")) == {
        "kind": "List",
        "apiVersion": "v1",
        "metadata": {},
        "items": [{"kind": "Pod", "apiVersion": "v1"}],
    }


def test_every_kind_of_the_release_decodes_from_nothing(frame: Frame) -> None:
    kinds = load().kinds()
    assert len(kinds) > 300
    for api_version, kind in kinds:
        written = decode(frame(b"", api_version, kind))
        assert (written["apiVersion"], written["kind"]) == (api_version, kind)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it is empty"),
        (b'{"kind":"Pod"}', "it looks like JSON, send it with Content-Type application/json"),
        (b"\n  [1]", "it looks like JSON"),
        (b"k8s", r"it begins with b'k8s' instead of b'k8s\\x00'"),
        (b"kind: Pod", r"it begins with b'kind'"),
        (MAGIC, "Object 'Kind' is missing"),
        (MAGIC + b"\x0a\x05", "the envelope of the protobuf body is truncated"),
        (MAGIC + b"\x08\x01", r"the envelope .* field 1 \(typeMeta\) has the wrong wire type"),
        (MAGIC + b"\x0a\x03\x0a\x01\xff", "the envelope .* not valid UTF-8"),
    ],
)
def test_what_is_no_frame_is_named(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        decode(body)


def test_an_unknown_kind_is_named(frame: Frame) -> None:
    with pytest.raises(BadRequest, match=r'no kind "Widget" .* version "x\.io/v1"'):
        decode(frame(b"", "x.io/v1", "Widget"))


def test_importing_loads_neither_protobuf_nor_the_schema() -> None:
    script = (
        "import sys, fleet.kube.protobuf as p;"
        "assert not {m for m in sys.modules if m.startswith('google.protobuf')}, 'at import';"
        "p.decode(b'k8s\\0\\x0a\\x09\\x0a\\x02v1\\x12\\x03Pod');"
        "assert 'google.protobuf' in sys.modules, 'at first use'"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
