"""Requests and responses of the Kubernetes API as plain values.

Everything that speaks the API binds these: the gateway's roots, virtual-node members and the
transports towards members all are a `Handler`. HTTP is one encoding of them
(`fleet.apiserver.http` on the serving side, `adapters.kubernetes` on the calling side); a test
or a simulation hands a `Request` straight to a handler.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who is calling, after authentication (authentication.k8s.io UserInfo)."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = UserInfo(name="system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Request:
    """One API call. `path` is absolute and percent-decoded, below its root (`/api/v1/pods`).

    `headers` has lower-case keys, the last value of a repeated header. `query` keeps order and
    repeats. `raw_target` is path and query as they came, for who passes them on to the letter; ""
    where they are to be made of the two: decoding loses which slashes were escaped.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: UserInfo = ANONYMOUS
    raw_target: str = field(default="", compare=False)

    def below(self, path: str) -> Request:
        """The request as whoever serves what is below a prefix sees it: `path` is the rest."""
        raw, at = self.raw_target, 0
        if raw and self.path.endswith(path):
            for _ in self.path.removesuffix(path).encode():  # each byte is escaped or is not
                at += 3 if raw[at] == "%" else 1
            return replace(self, path=path, raw_target=raw[at:])
        return replace(self, path=path, raw_target="")

    def param(self, name: str) -> str | None:
        """The first value of query parameter `name`, or None when it is absent."""
        for key, value in self.query:
            if key == name:
                return value
        return None

    @property
    def wants_upgrade(self) -> bool:
        return "upgrade" in self.headers.get("connection", "").lower()


class Duplex(Protocol):
    """An upgraded connection: opaque bytes both ways."""

    async def read(self) -> bytes:
        """The next bytes, or b"" at the end of the peer's side."""

    async def write(self, data: bytes) -> None:
        """Send; returns when the peer's buffer has room again."""

    async def write_eof(self) -> None:
        """Half-close, where the transport can."""

    async def close(self) -> None:
        """End both sides; safe to call twice."""


@dataclass(slots=True)
class Response:
    """The answer. Exactly one of the forms of `body` is used:

    - `bytes`: complete; a `Content-Length` is sent.
    - a sequence of `bytes`: complete and already in memory, sent in pieces (large lists).
    - an async iterator: a stream (watch, log); ends with the iterator; whoever holds the
      response must exhaust it or call `aclose()`.
    - status 101 with `tunnel`: an upgraded connection; `body` is empty.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Sequence[bytes] | AsyncIterator[bytes] = b""
    warnings: tuple[str, ...] = ()
    tunnel: Duplex | None = None

    async def aclose(self) -> None:
        """Let go of a stream or tunnel without reading it to its end."""
        close = getattr(self.body, "aclose", None)
        if close is not None:
            await close()
        if self.tunnel is not None:
            await self.tunnel.close()


class Handler(Protocol):
    """Anything that answers API requests: a kernel over a store, a root of the gateway, a member.

    Raises only `fleet.errors` leaves: `ApiError` for an answer that is an error,
    `TransportError` from transports when the other side could not be reached.
    """

    async def handle(self, request: Request) -> Response: ...
