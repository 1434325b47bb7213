"""A server under test over real TLS sockets, and a raw client for it; on both event loops."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from fleet.apiserver.http import Exchange, Options, Server
from fleet.gateway.authority import Authority, server_names
from fleet.kube.wire import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    Answer = Callable[[Request], Awaitable[Response]]

JSON = {"Content-Type": "application/json"}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The gateway runs on uvloop, tests and tools on either."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Connection:
    """A raw HTTP/1.1 client on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def request(self, line: str, *headers: str, body: bytes = b"") -> None:
        lines = [f"{line} HTTP/1.1", "Host: fleet", *headers]
        await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def head(self) -> tuple[int, dict[str, list[str]]]:
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = raw.rstrip().split("\r\n")
        headers: dict[str, list[str]] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers.setdefault(name.strip().lower(), []).append(value.strip())
        return int(status.split()[1]), headers

    async def chunk(self) -> bytes:
        size = int((await self.reader.readline()).strip(), 16)
        data = await self.reader.readexactly(size)
        assert await self.reader.readexactly(2) == b"\r\n"
        return data

    async def body(self, headers: dict[str, list[str]]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"][0]))
        assert headers["transfer-encoding"] == ["chunked"]
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return b"".join(parts)

    async def answer(self) -> tuple[int, dict[str, list[str]], bytes]:
        status, headers = await self.head()
        return status, headers, await self.body(headers)

    async def get(self, path: str, *headers: str) -> tuple[int, dict[str, list[str]], bytes]:
        await self.request(f"GET {path}", *headers)
        return await self.answer()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            pass


class Edge:
    """A running server whose handler answers as the test says, and connections to it."""

    def __init__(self, answer: Answer | None, tls: ssl.SSLContext | None) -> None:
        self.answer = answer
        self.tls = tls
        self.server: Server
        self.port = 0
        self.requests: list[Request] = []
        self._exchanges: asyncio.Queue[Exchange] = asyncio.Queue()

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        if self.answer is not None:
            return await self.answer(request)
        return Response(200, JSON, b'{"kind":"Pod"}')

    def observe(self, exchange: Exchange) -> None:
        self._exchanges.put_nowait(exchange)

    async def exchange(self) -> Exchange:
        """The next exchange that is over."""
        return await self._exchanges.get()

    async def connect(self) -> Connection:
        return Connection(
            *await asyncio.open_connection(
                "127.0.0.1",
                self.port,
                ssl=self.tls,
                server_hostname="localhost" if self.tls else None,
                limit=1 << 20,
            )
        )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.open(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def server_tls(authority: Authority) -> ssl.SSLContext:
    return authority.server_context(server_names("127.0.0.1"))


@pytest.fixture(scope="module")
def client_tls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    admin = authority.admin()
    file = tmp_path_factory.mktemp("client") / "admin.pem"
    file.write_bytes(admin.key + admin.certificate)
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.load_cert_chain(file)
    return context


@pytest.fixture
def serving(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> Any:
    @asynccontextmanager
    async def serve(
        answer: Answer | None = None, *, tls: bool = True, **options: Any
    ) -> AsyncIterator[Edge]:
        edge = Edge(answer, client_tls if tls else None)
        edge.server = Server(edge, Options(observe=edge.observe, **options))
        _, edge.port = await edge.server.start("127.0.0.1", 0, tls=server_tls if tls else None)
        try:
            yield edge
        finally:
            await edge.server.stop(grace_s=0.5)

    return serve
