"""Which headers cross to the member and back, and how repeated ones are written down.

The wire values hold one text for each header. A header that must be sent as several lines
(`impersonate-group`, whose values may hold commas) has its values joined by a newline, which no
header value can contain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from fleet.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adapters.kubernetes.kubeconfig import Impersonation

USER_AGENT = "fleet"

_HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
# Who the caller is to the gateway is nothing the member may see or believe.
_NEVER_SENT = _HOP_BY_HOP | {
    "host", "content-length", "accept-encoding", "authorization", "cookie", "expect",
}  # fmt: skip
_NEVER_SENT_PREFIX = "x-remote-"
_NEVER_RETURNED = _HOP_BY_HOP | {"content-length", "content-encoding", "set-cookie", "warning"}
_OFFERS = frozenset({"sec-websocket-protocol", "x-stream-protocol-version"})
_SEVERAL_LINES = ("impersonate-group", "impersonate-extra-")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")  # RFC 9110 5.5
_WARNING = re.compile(r'\s*\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def towards_member(
    headers: Mapping[str, str], *, authorization: str, impersonation: Impersonation
) -> CIMultiDict[str]:
    """The headers to send for a request that came with `headers` (lower-case keys).

    Where the request came in, its `connection` was heeded; names in it are not taken for headers
    here, or a client could take away what the gateway says of it. Raises TransportError for a
    value that would become several headers.
    """
    sent: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        if name in _NEVER_SENT or name.startswith(_NEVER_SENT_PREFIX):
            continue
        for line in value.split("\n") if name.startswith(_SEVERAL_LINES) else (value,):
            if not _VALUE.fullmatch(line):
                raise TransportError(f"header {name} holds control characters", sent=False)
            sent.add(name, line)
    sent.setdefault("User-Agent", USER_AGENT)
    if authorization:
        sent["Authorization"] = authorization
    if impersonation.user and "impersonate-user" not in sent:
        for name in [name for name in sent if name.lower().startswith("impersonate-")]:
            sent.popall(name, None)
        sent["Impersonate-User"] = impersonation.user
        if impersonation.uid:
            sent["Impersonate-Uid"] = impersonation.uid
        for group in impersonation.groups:
            sent.add("Impersonate-Group", group)
        for key, values in impersonation.extra.items():
            for value in values:
                sent.add(f"Impersonate-Extra-{key}", value)
    return sent


def for_upgrade(headers: Mapping[str, str], sent: CIMultiDict[str]) -> CIMultiDict[str]:
    """`sent` with what asks for the upgrade; every offered protocol gets a line of its own, since
    older servers do not split SPDY's header at commas."""
    sent["Connection"] = "Upgrade"
    sent["Upgrade"] = headers.get("upgrade", "websocket")
    for name in _OFFERS & headers.keys():
        sent.popall(name, None)
        for offer in re.split(r"[,\n]", headers[name]):
            sent.add(name, offer.strip())
    return sent


def from_member(items: Iterable[tuple[str, str]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Headers of an answer with lower-case keys, and the texts of its warnings."""
    kept: dict[str, str] = {}
    warnings: list[str] = []
    for key, value in items:
        name = key.lower()
        if name == "warning":
            found = _WARNING.findall(value)
            warnings += [re.sub(r"\\(.)", r"\1", text) for text in found] or [value]
        elif name not in _NEVER_RETURNED:
            kept[name] = f"{kept[name]}, {value}" if name in kept else value
    return kept, tuple(warnings)


def offered_back(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers of a 101 answer: the hop-by-hop ones are the answer here."""
    return {key.lower(): value for key, value in items if key.lower() != "set-cookie"}
