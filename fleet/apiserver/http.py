"""The serving side of HTTP for any `fleet.kube.wire.Handler`.

A connection's requests are read by `incoming`, answered by the handler, and sent by `outgoing`;
an accepted upgrade goes to `upgrade`. The gateway and every virtual-node member serve through
this one class, on aiohttp's low-level server: there is nothing to route here.

Invariants: every answer is a Kubernetes answer (an error of any kind is a Status, and no traceback
leaves the process), and a client that goes away takes everything with it that ran on its behalf.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from fleet.apiserver import upgrade
from fleet.apiserver.incoming import (
    Authenticator,
    Limits,
    Open,
    Query,
    audit_id_of,
    headers_of,
    open_transport,
    parse_request_target,
    peer_of,
    read_body,
)
from fleet.apiserver.outgoing import (
    BUFFER_BYTES,
    PIECE_BYTES,
    STALLED_S,
    Draining,
    Outlet,
    error_response,
    header_lines,
)
from fleet.errors import (
    ApiError,
    BadRequest,
    InternalError,
    ServerTimeout,
    TransportError,
    Unavailable,
)
from fleet.kube.wire import ANONYMOUS, Handler, Request, Response, UserInfo

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

logger = logging.getLogger(__name__)

__all__ = ["Authenticator", "Exchange", "Limits", "Server"]

KEEP_ALIVE_S = 180.0
HEAD_S = 32.0  # as long as an API server waits for the whole head of a request
MAX_LINE_BYTES = 64 << 10  # a label selector may be long, and so may a token
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(slots=True)
class Exchange:
    """One request and what became of it, as metrics, the log and the audit trail see it.

    `status` is 0 when the client left before it had one. `seconds` runs until the last byte is
    sent; `long_running` tells watches, followed logs and tunnels apart. `fault` is an error
    nobody expected.
    """

    method: str
    path: str
    audit_id: str
    address: str = ""
    query: Query = ()
    user_agent: str = ""
    user: UserInfo = ANONYMOUS
    status: int = 0
    seconds: float = 0.0
    sent_bytes: int = 0
    long_running: bool = False
    fault: BaseException | None = None


def _ignore(_: Exchange) -> None:
    """Nobody is watching."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a server behaves. `observe` is called once an exchange, from the event loop."""

    authenticator: Authenticator = field(default_factory=Open)
    limits: Limits = field(default_factory=Limits)
    observe: Callable[[Exchange], None] = _ignore
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    stalled_s: float = STALLED_S
    keep_alive_s: float = KEEP_ALIVE_S
    head_s: float = HEAD_S


class Server:
    """Serves one handler on any number of addresses, until `stop`."""

    def __init__(self, handler: Handler, options: Options | None = None) -> None:
        self._handler = handler
        self._options = options or Options()
        self._draining = Draining()
        self._listeners: list[asyncio.Server] = []
        self._manager: web.Server | None = None

    @property
    def long_running(self) -> int:
        """How many streams and tunnels are open."""
        return len(self._draining)

    async def start(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen, and return the address and port (a given port 0 finds a free one).

        Raises OSError when the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        manager = self._manager = self._manager or web.Server(
            self._answer, handler_cancellation=True
        )

        def connection() -> _Connection:
            return _Connection(
                manager,
                loop=loop,
                head_s=self._options.head_s,
                access_log=None,  # `observe` sees every exchange
                auto_decompress=False,
                keepalive_timeout=self._options.keep_alive_s,
                lingering_time=5.0,
                max_line_size=MAX_LINE_BYTES,
                max_field_size=MAX_LINE_BYTES,
                read_bufsize=256 << 10,
            )

        listener = await loop.create_server(
            connection,
            host,
            port,
            ssl=tls,
            backlog=512,
            ssl_handshake_timeout=10.0 if tls else None,
            ssl_shutdown_timeout=5.0 if tls else None,
        )
        self._listeners.append(listener)
        address = listener.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self, *, grace_s: float = 10.0) -> None:
        """Take no more connections, end streams in order, let requests finish for `grace_s`."""
        for listener in self._listeners:
            listener.close()
        if self._manager is not None:
            self._manager.pre_shutdown()
            self._draining.stop()
            await self._manager.shutdown(grace_s)
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()

    # -- one exchange

    async def _answer(self, raw: web.BaseRequest) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        headers = headers_of(raw)
        audit_id = headers["audit-id"] = audit_id_of(headers, self._options.new_id())
        exchange = Exchange(
            raw.method,
            raw.raw_path.partition("?")[0],
            audit_id,
            address=raw.remote or "",
            user_agent=headers.get("user-agent", ""),
        )
        outlet = Outlet(raw, stalled_s=self._options.stalled_s)
        if (transport := open_transport(raw)) is not None:
            transport.set_write_buffer_limits(high=BUFFER_BYTES)
        try:
            response = await self._respond(raw, headers, exchange)
            try:
                return await self._send(raw, response, exchange, outlet)
            finally:
                await response.aclose()
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # after the headers: all that is left is to break off
            self._report(exchange, error)
            if raw.transport is not None:
                raw.transport.abort()
            raise ConnectionResetError("broken off by an error") from error
        finally:
            exchange.seconds = loop.time() - started_s
            exchange.sent_bytes = outlet.sent
            self._options.observe(exchange)

    async def _respond(
        self, raw: web.BaseRequest, headers: dict[str, str], exchange: Exchange
    ) -> Response:
        """The handler's answer, or the Status that stands for what went wrong."""
        method = raw.method
        upgrading = False
        try:
            path, query = parse_request_target(raw.raw_path)
            exchange.path, exchange.query = path, query
            peer = peer_of(raw, path=path, headers=headers)
            user = exchange.user = await self._options.authenticator.authenticate(peer)
            headers.pop("authorization", None)  # it was for this server and goes no further
            body = await read_body(raw, headers, self._options.limits)
            request = Request(
                # HEAD is a GET whose body is not sent; no handler needs to know it
                method="GET" if method == "HEAD" else method,
                path=path,
                query=query,
                headers=headers,
                body=body,
                user=user,
                raw_target=raw.raw_path if raw.raw_path.startswith("/") else "",
            )
            upgrading = request.wants_upgrade
            if upgrading:
                upgrade.hold(raw)
            response = await self._handler.handle(request)
            if response.status == 101 and response.tunnel is None:
                raise RuntimeError("a handler accepted an upgrade and gave no tunnel")
            if upgrading and response.tunnel is None:
                upgrade.release(raw)
            return response
        except ApiError as error:
            answer: ApiError = error
        except TransportError as error:
            answer = _unreachable(error, method)
        except Exception as error:
            self._report(exchange, error)
            answer = InternalError(
                "Internal error occurred: the gateway's log says more under the audit id "
                + exchange.audit_id
            )
        if upgrading:
            upgrade.release(raw)
        return error_response(answer)

    async def _send(
        self, raw: web.BaseRequest, response: Response, exchange: Exchange, outlet: Outlet
    ) -> web.StreamResponse:
        status = exchange.status = response.status
        headers = header_lines(response, audit_id=exchange.audit_id)
        body = response.body
        if response.tunnel is not None:
            exchange.long_running = True
            return await upgrade.take_over(raw, headers, response.tunnel, draining=self._draining)
        if raw.method == "HEAD":
            if isinstance(body, bytes):
                headers["Content-Length"] = str(len(body))
            return await outlet.head_only(status, headers)
        if isinstance(body, bytes):
            body = (body,) if len(body) > PIECE_BYTES else body
        if isinstance(body, bytes):
            return await outlet.whole(status, headers, body)
        if isinstance(body, AsyncIterator):
            exchange.long_running = True
            return await outlet.stream(status, headers, body, draining=self._draining)
        return await outlet.pieces(status, headers, body)

    def _report(self, exchange: Exchange, error: BaseException) -> None:
        exchange.fault = error
        logger.error(
            "%s %s failed (audit id %s)",
            exchange.method,
            exchange.path,
            exchange.audit_id,
            exc_info=error,
        )


def _unreachable(error: TransportError, method: str) -> ApiError:
    """A member that could not be reached, as an answer that does not promise too much."""
    if method in _SAFE_METHODS or not error.sent:
        if not error.member:
            return Unavailable(f"{error}; nothing was changed, try again")
        return Unavailable.member(error.member, str(error))
    return ServerTimeout(
        f"member {error.member} broke off before it answered: {error}; whether the change was made "
        "there is not known: read the object before trying again"
    )


class _Connection(web.RequestHandler):
    """aiohttp's protocol, with its own error pages replaced, and a limit to how long the head of a
    request may take: from its first byte, or from the start of the connection."""

    def __init__(
        self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, head_s: float, **options: Any
    ) -> None:
        super().__init__(manager, loop=loop, **options)
        self._head_s = head_s
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages or not self._idle:
            self._let_be()
        elif self._overdue is None:
            self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._let_be()
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self._waiter is not None and not self._waiter.done()

    def _expect_head(self) -> None:
        self._overdue = self._loop.call_later(self._head_s, self._give_up)

    def _let_be(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _give_up(self) -> None:
        self._overdue = None
        if self._idle and not self._messages:
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What cannot be read as HTTP: a Status, then the end of the connection."""
        logger.info("no HTTP from %s: %s", request.remote, message)
        response = error_response(
            BadRequest(f"the request is not proper HTTP: {(message or 'unreadable')[:256]}")
        )
        reply = web.Response(
            status=response.status,
            headers=header_lines(response, audit_id=str(uuid.uuid4())),
            body=bytes(response.body),  # type: ignore[arg-type]
        )
        reply.force_close()
        return reply
