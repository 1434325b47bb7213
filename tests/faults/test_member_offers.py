"""What a client offers reaches the member whole, through the gateway's edge and the transport."""

from __future__ import annotations

import asyncio

from adapters.kubernetes import Kubeconfig, connect
from fleet.apiserver.http import Server


async def test_every_protocol_that_a_client_offers_reaches_the_member():
    """SPDY clients send each on a line of its own; with only the last, exit codes are lost."""
    offered = [b"v4.channel.k8s.io", b"v3.channel.k8s.io", b"channel.k8s.io"]
    seen: asyncio.Queue[list[bytes]] = asyncio.Queue()

    async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = [line.partition(b": ") for line in head.split(b"\r\n")]
        seen.put_nowait(
            [value for name, _, value in lines if name.lower() == b"x-stream-protocol-version"]
        )
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\nhello"
        )
        await reader.read()
        writer.close()

    there = await asyncio.start_server(member, "127.0.0.1", 0)
    host, port = there.sockets[0].getsockname()
    transport = connect(Kubeconfig(where="kc", server=f"http://{host}:{port}"))
    gateway = Server(transport)
    reader, writer = await asyncio.open_connection(*await gateway.start("127.0.0.1", 0))
    writer.write(
        b"POST /api/v1/namespaces/a/pods/b/exec HTTP/1.1\r\nHost: gateway\r\nContent-Length: 0\r\n"
        b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        + b"".join(b"X-Stream-Protocol-Version: " + offer + b"\r\n" for offer in offered)
        + b"\r\n"
    )
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"X-Stream-Protocol-Version: v4.channel.k8s.io".lower() in answer.lower()
    assert await seen.get() == offered
    assert await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()
    await gateway.stop()
    await transport.aclose()
    there.close()
