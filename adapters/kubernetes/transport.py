"""HTTP towards one Kubernetes API server, as a `fleet.kube.wire.Handler`.

Requests, watches and other streams have connection pools of their own: watches live for minutes
and would starve everything else in a common one. Whoever calls says on whose behalf (impersonation
headers); the member's own credential is added here and the caller's never crosses.
Next step: `fleet.members` wraps the transport, `adapters.kubernetes.upgrade` does what is no HTTP
exchange any more.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from adapters.kubernetes import headers as header_rules
from adapters.kubernetes import sockets, upgrade
from adapters.kubernetes.credentials import Credentials, utc_now
from adapters.kubernetes.proxies import proxy_for
from fleet.errors import TransportError, Unauthorized
from fleet.kube.paths import parse_target
from fleet.kube.wire import Response

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from adapters.kubernetes.credentials import Credential
    from adapters.kubernetes.kubeconfig import Kubeconfig
    from fleet.kube.wire import Request

_PATH_SAFE = "/:@!$&'()*+,;=~-._"
_FALSE = frozenset({"0", "false"})
_BUFFER_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. Streams have a limit for connecting only; whoever reads them sets others."""

    connect_s: float = 5.0
    request_s: float = 65.0
    """For a whole exchange that is no stream: a little more than an API server's own limit."""
    upgrade_s: float = 35.0
    """Until an upgrade is answered: the member dials a kubelet meanwhile."""


class Form(Enum):
    """How an answer is to be received."""

    WHOLE = "whole"
    WATCH = "watch"
    STREAM = "stream"
    """As it comes: a followed log, or whatever a proxied server says."""


def form_of(request: Request) -> Form:
    """The form of the answer to a request, by what it asks for."""
    target = parse_target(request.method, request.path, request.query)
    if target is None:
        return Form.WHOLE
    if target.verb == "watch":
        return Form.WATCH
    if target.subresource == "log":
        follow = request.param("follow")
        return Form.WHOLE if follow is None or follow.lower() in _FALSE else Form.STREAM
    return Form.STREAM if target.subresource == "proxy" else Form.WHOLE


class KubernetesTransport:
    """Answers requests by sending them to the server of `kubeconfig`.

    Made inside a running event loop; `aclose` when done.
    """

    def __init__(
        self,
        kubeconfig: Kubeconfig,
        *,
        timeouts: Timeouts | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.server = kubeconfig.server
        self._kubeconfig = kubeconfig
        self._timeouts = timeouts or Timeouts()
        self._now = now
        self._credentials = Credentials(kubeconfig, now=now)
        self._proxy = proxy_for(kubeconfig.server, kubeconfig.proxy_url)
        limit = aiohttp.ClientTimeout(
            total=self._timeouts.request_s, sock_connect=self._timeouts.connect_s
        )
        endless = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_s)
        self._sessions = {
            Form.WHOLE: _session(limit, connections=128),
            Form.WATCH: _session(endless, connections=0),
            Form.STREAM: _session(endless, connections=0),
        }

    @property
    def credentials_expire_at(self) -> datetime | None:
        """When the credential in use ends, where that is known (after the first request)."""
        return self._credentials.expires_at

    async def aclose(self) -> None:
        """Close all connections; streams that are still read break off."""
        for session in self._sessions.values():
            await session.close()

    async def handle(self, request: Request, *, stream: bool | None = None) -> Response:
        """The member's answer, whatever its status.

        A stream (`stream`, or found from the request) has an async iterator as its body, which
        gives bytes as they arrive; an error answer to it is complete bytes. Raises TransportError,
        whose `sent` says whether the member may have acted; Unauthorized when the member refuses
        a client certificate that has expired; ConfigError when no credential can be made.
        """
        credential = await self._credentials.current()
        response = await self._send(request, credential, stream=stream)
        if response.status != 401:
            return response
        renewed = await self._credentials.renewed(credential)
        if renewed != credential:
            await response.aclose()
            response = await self._send(request, renewed, stream=stream)
        if response.status == 401:
            self._explain(renewed)
        return response

    def _explain(self, refused: Credential) -> None:
        expired_at = refused.expires_at
        if expired_at is not None and expired_at <= self._now():
            raise Unauthorized(
                f"the client certificate in {self._kubeconfig.where} expired on "
                f"{expired_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC and {self.server} refuses it; "
                "get a kubeconfig with a valid one"
            )

    async def _send(
        self, request: Request, credential: Credential, *, stream: bool | None
    ) -> Response:
        sent = header_rules.towards_member(
            request.headers,
            authorization=credential.authorization,
            impersonation=self._kubeconfig.impersonation,
        )
        target = self._target(request)
        if request.wants_upgrade:
            split = urlsplit(target)
            return await upgrade.upgrade(
                upgrade.Destination(
                    self.server, credential.tls, self._kubeconfig.server_name, self._proxy
                ),
                method=request.method,
                target=f"{split.path}?{split.query}" if split.query else split.path,
                headers=header_rules.for_upgrade(request.headers, sent).items(),
                body=request.body,
                connect_s=self._timeouts.connect_s,
                answer_s=self._timeouts.upgrade_s,
            )
        form = form_of(request)
        if stream is not None and form is not Form.WATCH:
            form = Form.STREAM if stream else Form.WHOLE
        streams = form is not Form.WHOLE
        session = self._sessions[form]
        # Compression would hold a stream's bytes back until a block is full.
        sent["Accept-Encoding"] = "identity" if streams else "gzip"
        what = f"{request.method} {request.path} at {self.server}"
        if session.closed:
            raise TransportError(f"{what}: the connection to this member was closed", sent=False)
        options: dict[str, Any] = {}
        if credential.tls is not None:
            options["ssl"] = credential.tls
        if self._kubeconfig.server_name:
            options["server_hostname"] = self._kubeconfig.server_name
        try:
            answer = await session.request(
                request.method,
                URL(target, encoded=True),
                headers=sent,
                data=request.body or None,
                allow_redirects=False,
                proxy=self._proxy or None,
                skip_auto_headers=("Content-Type", "Accept"),
                **options,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise failure(error, what) from error
        headers, warnings = header_rules.from_member(answer.headers.items())
        if streams and answer.status < 300:
            return Response(answer.status, headers, Stream(answer, what), warnings)
        try:
            body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise failure(error, what) from error
        finally:
            answer.release()
        return Response(answer.status, headers, body, warnings)

    def _target(self, request: Request) -> str:
        if request.raw_target:
            return self.server + request.raw_target.replace("#", "%23")
        target = self.server + quote(request.path, safe=_PATH_SAFE)
        return f"{target}?{urlencode(request.query)}" if request.query else target


class Stream(AsyncIterator[bytes]):
    """The body of an answer, in the pieces in which it arrives."""

    def __init__(self, answer: aiohttp.ClientResponse, what: str) -> None:
        self._answer = answer
        self._what = what

    async def __anext__(self) -> bytes:
        try:
            piece = await self._answer.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await self.aclose()
            raise failure(error, self._what) from error
        if not piece:
            self._answer.release()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Drop the connection: what is left of a stream cannot be skipped, and a member that
        hangs would not take part in an orderly end of TLS."""
        connection = self._answer.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._answer.close()


def failure(error: Exception, what: str) -> TransportError:
    """The TransportError for what aiohttp or the system raised."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = (
                f"its certificate is not trusted: {error.certificate_error}; give the cluster's "
                "authority as certificate-authority-data, or the name it is issued to as "
                "tls-server-name"
            )
            return TransportError(f"{what}: {why}", sent=False)
        case aiohttp.ClientHttpProxyError():
            return TransportError(f"{what}: the proxy answers {error.status}", sent=False)
        case aiohttp.ClientConnectorError():
            return TransportError(f"{what}: cannot connect: {_reason(error)}", sent=False)
        case aiohttp.ConnectionTimeoutError():
            return TransportError(f"{what}: no connection within the time limit", sent=False)
        case TimeoutError():
            return TransportError(f"{what}: no answer within the time limit")
        case aiohttp.ClientResponseError():
            return TransportError(f"{what}: what answers there speaks no HTTP")
        case aiohttp.ClientPayloadError():
            return TransportError(f"{what}: the answer broke off")
        case _:
            return TransportError(f"{what}: the connection broke: {_reason(error)}")


def _reason(error: Exception) -> str:
    system = getattr(error, "os_error", None)
    if isinstance(system, ssl.SSLError):
        return f"TLS failed: {system.reason or system}"
    if isinstance(system, OSError):
        return system.strerror or str(system)
    return str(error) or type(error).__name__


def _session(limit: aiohttp.ClientTimeout, *, connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, socket_factory=sockets.made),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=limit,
        read_bufsize=_BUFFER_BYTES,
        max_line_size=64 << 10,
        max_field_size=64 << 10,
    )
