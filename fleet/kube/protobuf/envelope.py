"""The frame around a protobuf body: four bytes of magic, then runtime.Unknown with the kind.

The one entry point, and the one place where a malformed body becomes a BadRequest.
`rendering` writes what is inside.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest

if TYPE_CHECKING:
    from fleet.kube.protobuf.rendering import Renderer

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_UNKNOWN = "k8s.io.apimachinery.pkg.runtime.Unknown"
_TYPE_META = "k8s.io.apimachinery.pkg.runtime.TypeMeta"


def decode(body: bytes, *, default: tuple[str, str] | None = None) -> dict[str, Any]:
    """The object in a protobuf request body, as Go's encoding/json would write it.

    `default` is the (apiVersion, kind) that the request's path implies. It fills in what the
    envelope leaves out and never overrides what it says, as apimachinery's serializer does.
    Unknown fields are dropped, as there. Where Go keeps several forms apart that JSON does not
    (an empty list and no list), the result has the one that Go would write after decoding.

    Raises BadRequest for anything that is no whole, well-formed body of a known kind; the message
    names the field. The work is bounded by `rendering.MAX_DEPTH` and `MAX_MESSAGES`.
    """
    if not body.startswith(MAGIC):
        raise BadRequest(f"the body is not in the Kubernetes protobuf encoding: {_looks(body)}")
    from fleet.kube.protobuf.rendering import Malformed

    render = _renderer()
    try:
        envelope = render.fields(_UNKNOWN, body[len(MAGIC) :])
        type_meta = render.fields(_TYPE_META, envelope.get(1, b""))
        api_version, kind = render.text(type_meta, 1), render.text(type_meta, 2)
    except Malformed as fault:
        raise BadRequest(
            f"the envelope of the protobuf body is {fault.why}: send the whole of k8s\\x00 and "
            "runtime.Unknown"
        ) from fault
    if default is not None:
        api_version, kind = api_version or default[0], kind or default[1]
    if not api_version or not kind:
        missing = "'Kind'" if not kind else "'apiVersion'"
        raise BadRequest(f"Object {missing} is missing in the envelope of the protobuf body")
    message = render.message_of(api_version, kind)
    if message is None:
        raise BadRequest(
            f'no kind "{kind}" is registered for version "{api_version}" in protobuf; custom '
            "resources have no protobuf form, send them as application/json"
        )
    try:
        content = render.object(message, envelope.get(2, b""))
    except Malformed as fault:
        raise BadRequest(
            f"{kind} ({api_version}) in the protobuf body cannot be decoded: {fault}"
        ) from fault
    return {"kind": kind, "apiVersion": api_version, **content}


def _looks(body: bytes) -> str:
    """What the body seems to be instead, for a message that helps."""
    if not body:
        return "it is empty"
    if body.lstrip()[:1] in (b"{", b"["):
        return "it looks like JSON, send it with Content-Type application/json"
    return f"it begins with {body[:4]!r} instead of {MAGIC!r}"


@cache
def _renderer() -> Renderer:
    """Loading costs milliseconds, and many processes never meet a protobuf body."""
    from fleet.kube.protobuf.rendering import Renderer
    from fleet.kube.protobuf.schema import load

    return Renderer(load())
