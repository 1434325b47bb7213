"""Bodies of requests as parsed objects, and answers as bodies.

JSON, YAML and protobuf all come out as the JSON-shaped object; a body without a Content-Type is
JSON. What a body must contain is for whoever asked; here it only has to be one object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from fleet.errors import BadRequest
from fleet.kube import protobuf
from fleet.kube.negotiation import body_form
from fleet.kube.schema.reading import Unreadable, parse_yaml
from fleet.kube.wire import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.negotiation import Representation
    from fleet.kube.wire import Request

JSON_HEADERS = {"content-type": "application/json"}
_REFUSED = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*", re.IGNORECASE)


def object_of(request: Request, *, default: tuple[str, str]) -> dict[str, Any]:
    """The object in the request's body.

    `default` is the (apiVersion, kind) the path implies, for bodies that leave them out. Raises
    BadRequest for what cannot be read or is no object, UnsupportedMediaType.
    """
    form = body_form(request.headers.get("content-type"))
    if form == "protobuf":
        return protobuf.decode(request.body, default=default)
    if not request.body:
        raise BadRequest("the request has no body, and an object is needed")
    value: Any
    if form == "yaml":
        try:
            value, _ = parse_yaml(request.body)
        except Unreadable as error:
            raise BadRequest(str(error)) from error
    else:
        try:
            value = orjson.loads(request.body)
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest(f"the body is a {_json_type(value)}, and an object is needed")
    api_version, kind = default
    return {"kind": kind, "apiVersion": api_version, **value}


def options_of(request: Request) -> dict[str, Any] | None:
    """The DeleteOptions in the body of a DELETE; None when there is no body."""
    if not request.body:
        return None
    return object_of(request, default=("v1", "DeleteOptions"))


def may_compress(request: Request, representation: Representation) -> bool:
    """Whether a list may be sent compressed. What `encoded` makes anew may not."""
    if representation.encoding != "json" or representation.pretty:
        return False
    for offer in request.headers.get("accept-encoding", "").split(","):
        coding, _, weight = offer.partition(";")
        if coding.strip().lower() == "gzip":
            return not _REFUSED.fullmatch(weight)
    return False


def encoded(response: Response, representation: Representation) -> Response:
    """`response`, complete and JSON, in the encoding that was asked for."""
    if representation.encoding == "json" and not representation.pretty:
        return response
    body = response.body
    raw = body if isinstance(body, bytes) else b"".join(body)  # type: ignore[arg-type]
    if representation.encoding == "yaml":
        text = yaml.safe_dump(orjson.loads(raw), sort_keys=False, allow_unicode=True)
        return _with_body(response, text.encode(), "application/yaml")
    pretty = orjson.dumps(orjson.loads(raw), option=orjson.OPT_INDENT_2)
    return _with_body(response, pretty + b"\n", "application/json")


def json_response(status: int, value: Mapping[str, Any]) -> Response:
    return Response(status, JSON_HEADERS, orjson.dumps(value))


def _with_body(response: Response, body: bytes, content_type: str) -> Response:
    headers = {k: v for k, v in response.headers.items() if k != "content-encoding"}
    headers["content-type"] = content_type
    return Response(response.status, headers, body, response.warnings)


def _json_type(value: Any) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
