"""The whole way of an upgraded connection: client, edge, adapter, and a member that closes."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import adapters.kubernetes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.gateway.authority import Authority
    from fleet.kube.wire import Request, Response

SIZE = 8 << 20
UPGRADE = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0")


@contextmanager
def member(context: ssl.SSLContext) -> Iterator[int]:
    """A server that accepts an upgrade, sends `SIZE` bytes and closes at once, as a Go server
    does: without waiting for the other side's goodbye."""

    def serve() -> None:
        plain, _ = listener.accept()
        with plain, context.wrap_socket(plain, server_side=True) as link:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += link.recv(1)
            link.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                b"Upgrade: SPDY/3.1\r\n\r\n"
            )
            link.sendall(b"x" * SIZE)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def kubeconfig(port: int, authority: Authority) -> bytes:
    document = {
        "current-context": "m",
        "contexts": [{"name": "m", "context": {"cluster": "m"}}],
        "clusters": [
            {
                "name": "m",
                "cluster": {
                    "server": f"https://127.0.0.1:{port}",
                    "certificate-authority-data": base64.b64encode(authority.certificate).decode(),
                },
            }
        ],
    }
    return yaml.safe_dump(document).encode()


@pytest.fixture
def member_tls(authority: Authority, tmp_path: Any) -> ssl.SSLContext:
    pair = authority.server(["127.0.0.1"])
    file = tmp_path / "server.pem"
    file.write_bytes(pair.key + pair.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_what_a_member_sent_before_it_closed_reaches_a_slow_client(
    serving: Any, authority: Authority, member_tls: ssl.SSLContext
) -> None:
    with member(member_tls) as port:
        transport = adapters.kubernetes.connect(kubeconfig(port, authority))

        async def answer(request: Request) -> Response:
            return await transport.handle(request)

        async with serving(answer) as edge:
            connection = await edge.connect()
            await connection.request("POST /api/v1/namespaces/a/pods/b/exec", *UPGRADE)
            assert (await connection.head())[0] == 101
            received = 0
            while data := await connection.reader.read(65536):
                received += len(data)
                await asyncio.sleep(0.001)
            assert received == SIZE
            await connection.close()
        await transport.aclose()
