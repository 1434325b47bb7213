"""Continue tokens: where a chunked list goes on, and at which revision.

A token is base64url without padding of a small JSON value, opaque to clients, versioned, and
bound to the path and selectors of the list that issued it. It is no proof of anything: whoever
opens one still confines the list to the request's own namespace and rights.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import BadRequest, Expired
from fleet.kube.paths import is_path_segment
from fleet.kube.revision import Revision

if TYPE_CHECKING:
    from fleet.kube.options import ListOptions

_VERSION = "fleet.dev/v1"
_NEWEST = -1
_MAX_LENGTH = 2048

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter"
)


@dataclass(frozen=True, slots=True)
class Continuation:
    """`after` is the (namespace, name) of the last item given out: the list goes on with the
    first key greater than it. `revision` None stands for the newest one, of a list that went on
    although its own revision was gone."""

    revision: Revision | None
    after: tuple[str, str]


def selection(options: ListOptions) -> str:
    """The selectors of a list as one text, for `selectors` below."""
    return f"{options.label}\n{options.field}"


def encode(
    revision: Revision | None, after: tuple[str, str], *, path: str, selectors: str = ""
) -> str:
    """The token that goes on behind `after`. `path` and `selectors` must be equal at `decode`."""
    namespace, name = after
    document = {
        "v": _VERSION,
        "rv": _NEWEST if revision is None else revision,
        "after": f"{namespace}/{name}",
        "of": _binding(path, selectors),
    }
    return base64.urlsafe_b64encode(orjson.dumps(document)).rstrip(b"=").decode()


def decode(text: str, *, path: str, selectors: str = "") -> Continuation:
    """What a token says.

    Raises BadRequest when it is damaged, of another version, or was issued for another list.
    """
    document = _open(text)
    if document.get("v") != _VERSION:
        raise _invalid("server does not recognize this encoded version")
    number, key = document.get("rv"), document.get("after")
    if not isinstance(number, int) or isinstance(number, bool) or not (number > 0 or number == -1):
        raise _invalid("incorrect encoded resourceVersion")
    if not isinstance(key, str) or key.count("/") != 1:
        raise _invalid("incorrect encoded key")
    namespace, name = key.split("/")
    if (namespace and not is_path_segment(namespace)) or not is_path_segment(name):
        raise _invalid("incorrect encoded key")
    if document.get("of") != _binding(path, selectors):
        raise _invalid("it belongs to a list of another path or with other selectors")
    return Continuation(None if number == _NEWEST else Revision(number), (namespace, name))


def _open(text: str) -> dict[str, Any]:
    if len(text) > _MAX_LENGTH:
        raise _invalid("too long")
    try:
        raw = base64.b64decode(
            text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True
        )
        document = orjson.loads(raw)
    except (UnicodeEncodeError, binascii.Error, orjson.JSONDecodeError):
        raise _invalid("not an encoded key") from None
    if not isinstance(document, dict):
        raise _invalid("not an encoded key")
    return document


def _invalid(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {why}")


def _binding(path: str, selectors: str) -> str:
    return hashlib.blake2s(f"{path}\0{selectors}".encode(), digest_size=8).hexdigest()


def expired(continuation: Continuation, *, path: str, selectors: str = "") -> Expired:
    """The 410 for a token whose revision is gone, with a fresh one that goes on at the newest."""
    return Expired(
        f"{_TOO_OLD}, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned "
        "and now may show up in the list.",
        continue_token=encode(None, continuation.after, path=path, selectors=selectors),
    )


def expired_list() -> Expired:
    """The 410 for `resourceVersionMatch=Exact` at a revision that is no longer kept."""
    return Expired("The resourceVersion for the provided list is too old.")
