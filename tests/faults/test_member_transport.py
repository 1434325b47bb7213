"""Faults on the wire between the gateway and a member, against a server that does as it is told.

Each test is named after what holds in spite of the fault.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from adapters.kubernetes import Kubeconfig, KubernetesTransport, Timeouts, connect
from fleet.errors import TransportError, Unauthorized
from fleet.kube.wire import Request

Serve = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One connection, as the member's side sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> tuple[str, list[tuple[str, str]], bytes]:
        """The next request: its line, its headers (lower-case), its body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [
            (name.lower(), value.strip())
            for name, _, value in (h.partition(":") for h in head[1:-2])
        ]
        length = int(dict(headers).get("content-length", 0))
        return head[0], headers, await self.reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))


@asynccontextmanager
async def member(serve: Serve) -> AsyncIterator[str]:
    """A server on loopback; gives its URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@asynccontextmanager
async def reaching(
    serve: Serve, *, prefix: str = "", timeouts: Timeouts | None = None, **parts
) -> AsyncIterator[KubernetesTransport]:
    now = parts.pop("now", lambda: datetime.now(UTC))
    async with member(serve) as url:
        config = Kubeconfig(where='kc: context "east"', server=url + prefix, **parts)
        transport = connect(config, timeouts=timeouts, now=now)
        try:
            yield transport
        finally:
            await transport.aclose()


LOG = Request("GET", "/api/v1/namespaces/a/pods/b/log", (("follow", "true"),))
PODS = Request("GET", "/api/v1/pods")
WATCH = Request("GET", "/api/v1/pods", (("watch", "true"),))
EXEC = Request(
    "GET",
    "/api/v1/namespaces/a/pods/b/exec",
    (("command", "sh"), ("command", "-c"), ("stdin", "true")),
    headers={
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-key": "x3JJHMbDL1EzLkh9GBhXDw==",
        "sec-websocket-version": "13",
        "sec-websocket-protocol": "v5.channel.k8s.io, v4.channel.k8s.io",
        "authorization": "Bearer callers-own",
    },
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_each_line_of_a_followed_log_passes_as_it_is_written():
    """client-go#975, gravitational/teleport#5003: proxies that buffer."""
    write = asyncio.Event()

    async def serve(peer: Peer) -> None:
        _, headers, _ = await peer.request()
        assert dict(headers)["accept-encoding"] == "identity"
        await peer.send(CHUNKED)
        for number in range(3):
            await write.wait()
            write.clear()
            await peer.chunk(b"line %d\n" % number)
        await peer.chunk(b"")

    async with reaching(serve) as transport:
        response = await transport.handle(LOG)  # before the first line is written
        got = []
        for _ in range(3):
            write.set()
            got.append(await anext(response.body))
        assert got == [b"line 0\n", b"line 1\n", b"line 2\n"]
        with pytest.raises(StopAsyncIteration):
            await anext(response.body)


async def test_a_line_of_megabytes_passes():
    """kubernetes_asyncio#137, kopf#275: lines beyond 128 KiB."""
    line = b'{"type":"ADDED","object":"' + b"x" * 1_400_000 + b'"}\n'

    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunk(line)
        await peer.chunk(b"")

    async with reaching(serve) as transport:
        response = await transport.handle(WATCH)
        assert b"".join([piece async for piece in response.body]) == line


async def test_hundreds_of_watches_leave_requests_alone():
    async def serve(peer: Peer) -> None:
        while True:
            line, _, _ = await peer.request()
            if "watch=true" in line:
                await peer.send(CHUNKED)
                await peer.reader.read()
            else:
                await peer.answer(b"{}")

    async with reaching(serve) as transport:
        watches = await asyncio.gather(*(transport.handle(WATCH) for _ in range(200)))
        assert (await transport.handle(PODS)).body == b"{}"
        for watch in watches:
            await watch.aclose()


async def test_letting_go_of_a_stream_ends_it_at_the_member():
    """kubectl#1163: closing from the client's side must free the server's."""
    ended = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.reader.read()
        ended.set()

    async with reaching(serve) as transport:
        response = await transport.handle(WATCH)
        await response.aclose()  # never read at all
        await ended.wait()
        ended.clear()
        response = await transport.handle(WATCH)
        reading = asyncio.create_task(anext(response.body))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
        await response.aclose()
        await ended.wait()


async def test_an_error_answer_to_a_watch_is_whole():
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b'{"kind":"Status","code":410}', "410 Gone")

    async with reaching(serve) as transport:
        response = await transport.handle(WATCH)
        assert (response.status, response.body) == (410, b'{"kind":"Status","code":410}')


async def test_compressed_lists_arrive_plain():
    async def serve(peer: Peer) -> None:
        _, headers, _ = await peer.request()
        assert dict(headers)["accept-encoding"] == "gzip"
        await peer.answer(gzip.compress(b'{"items":[]}'), "200 OK", "Content-Encoding: gzip")

    async with reaching(serve) as transport:
        response = await transport.handle(PODS)
        assert response.body == b'{"items":[]}'
        assert "content-encoding" not in response.headers


@pytest.mark.parametrize(
    ("path", "query", "line"),
    [
        ("/api/v1/pods", (), "GET /k8s/c-1/api/v1/pods HTTP/1.1"),
        (
            "/api/v1/namespaces/a/services/https:web:443/proxy/x y/ü%/",
            (("q", "a b&c"), ("q", ""), ("r", "=")),
            "GET /k8s/c-1/api/v1/namespaces/a/services/https:web:443/proxy/x%20y/%C3%BC%25/"
            "?q=a+b%26c&q=&r=%3D HTTP/1.1",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            (("labelSelector", "a in (b,c)"),),
            "GET /k8s/c-1/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"
            "?labelSelector=a+in+%28b%2Cc%29 HTTP/1.1",
        ),
    ],
)
async def test_paths_and_queries_arrive_as_they_were(path, query, line):
    seen: list[str] = []

    async def serve(peer: Peer) -> None:
        seen.append((await peer.request())[0])
        await peer.answer(b"{}")

    async with reaching(serve, prefix="/k8s/c-1") as transport:
        response = await transport.handle(Request("GET", path, query))
        await response.aclose()
    assert seen == [line]


async def test_headers_that_have_several_lines_keep_them():
    seen: list[list[tuple[str, str]]] = []

    async def serve(peer: Peer) -> None:
        seen.append((await peer.request())[1])
        await peer.answer(b"{}")

    async with reaching(serve, token="ours") as transport:
        await transport.handle(
            Request(
                "GET",
                "/api/v1/pods",
                headers={
                    "impersonate-user": "fleet:jane",
                    "impersonate-group": "fleet:a,b\nsystem:authenticated",
                    "authorization": "Bearer callers-own",
                },
            )
        )
    headers = seen[0]
    groups = [value for name, value in headers if name == "impersonate-group"]
    assert groups == ["fleet:a,b", "system:authenticated"]
    assert [v for name, v in headers if name == "authorization"] == ["Bearer ours"]


async def test_a_redirect_is_passed_on_and_our_credential_goes_nowhere_else():
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"", "302 Found", "Location: http://evil.example/")

    async with reaching(serve, token="ours") as transport:
        response = await transport.handle(PODS)
        assert response.status == 302
        assert response.headers["location"] == "http://evil.example/"


async def test_nobody_there_is_known_to_have_done_nothing():
    async with member(lambda peer: asyncio.sleep(0)) as url:
        pass
    transport = connect(Kubeconfig(where="kc", server=url))
    for request in (PODS, WATCH, EXEC):
        with pytest.raises(TransportError) as caught:
            await transport.handle(request)
        assert not caught.value.sent
        assert url in str(caught.value)
    await transport.aclose()
    with pytest.raises(TransportError) as caught:
        await transport.handle(PODS)
    assert not caught.value.sent


@pytest.mark.parametrize("request_", [PODS, WATCH, EXEC], ids=["request", "watch", "upgrade"])
async def test_a_connection_that_breaks_may_have_done_something(request_):
    async def serve(peer: Peer) -> None:
        await peer.request()

    async with reaching(serve) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.handle(request_)
        assert caught.value.sent


@pytest.mark.parametrize("request_", [PODS, EXEC], ids=["request", "upgrade"])
async def test_a_member_that_hangs_is_given_up(request_):
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.reader.read()

    timeouts = Timeouts(request_s=0.05, upgrade_s=0.05)
    async with reaching(serve, timeouts=timeouts) as transport:
        with pytest.raises(TransportError, match="no answer within") as caught:
            await transport.handle(request_)
        assert caught.value.sent


async def test_a_body_that_breaks_off_is_no_body():
    async def serve(peer: Peer) -> None:
        line, _, _ = await peer.request()
        if "watch" in line:
            await peer.send(CHUNKED)
            await peer.chunk(b"half")
        else:
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    async with reaching(serve) as transport:
        with pytest.raises(TransportError, match="broke off"):
            await transport.handle(PODS)
        response = await transport.handle(WATCH)
        assert await anext(response.body) == b"half"
        with pytest.raises(TransportError, match="broke off"):
            await anext(response.body)


@pytest.mark.parametrize(
    "raw", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x15\x03\x01\r\n\r\n"]
)
@pytest.mark.parametrize("request_", [PODS, EXEC], ids=["request", "upgrade"])
async def test_what_is_no_http_is_told(raw, request_):
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)

    async with reaching(serve) as transport:
        with pytest.raises(TransportError):
            await transport.handle(request_)


async def test_a_rotated_token_is_taken_up_within_the_request(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    seen: list[tuple[str, bytes]] = []

    async def serve(peer: Peer) -> None:
        while True:
            _, headers, body = await peer.request()
            authorization = dict(headers)["authorization"]
            seen.append((authorization, body))
            good = authorization == "Bearer new"
            await peer.answer(b"{}", "200 OK" if good else "401 Unauthorized")

    async with reaching(serve, token_file=path, now=lambda: moment) as transport:
        assert (await transport.handle(PODS)).status == 401
        path.write_text("new")
        moment += timedelta(seconds=5)
        post = Request("POST", "/api/v1/namespaces/a/pods", body=b'{"kind":"Pod"}')
        assert (await transport.handle(post)).status == 200
    assert seen == [
        ("Bearer old", b""),
        ("Bearer old", b'{"kind":"Pod"}'),
        ("Bearer new", b'{"kind":"Pod"}'),
    ]


async def test_a_refused_credential_is_not_tried_twice():
    count = 0

    async def serve(peer: Peer) -> None:
        nonlocal count
        while True:
            await peer.request()
            count += 1
            await peer.answer(b"{}", "401 Unauthorized")

    async with reaching(serve, token="t") as transport:
        assert (await transport.handle(PODS)).status == 401
    assert count == 1


async def test_an_expired_certificate_is_told_with_its_date():
    key = ec.generate_private_key(ec.SECP256R1())
    ends = datetime(2026, 3, 1, 12, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(ends - timedelta(days=1))
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )

    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"{}", "401 Unauthorized")

    async with reaching(
        serve,
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        now=lambda: ends + timedelta(days=3),
    ) as transport:
        with pytest.raises(Unauthorized, match="expired on 2026-03-01 12:00 UTC"):
            await transport.handle(PODS)
        assert transport.credentials_expire_at == ends


ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
)


async def test_an_accepted_upgrade_carries_every_byte_both_ways():
    """portainer#12880: bytes that came with the answer must not be lost."""
    seen: list[tuple[str, list[tuple[str, str]]]] = []

    async def serve(peer: Peer) -> None:
        line, headers, _ = await peer.request()
        seen.append((line, headers))
        await peer.send(ACCEPTED + b"early")
        while data := await peer.reader.read(65536):
            await peer.send(data[::-1])
        await peer.send(b"bye")

    async with reaching(serve, token="ours") as transport:
        response = await transport.handle(EXEC)
        tunnel = response.tunnel
        assert response.status == 101
        assert tunnel is not None
        assert response.headers["sec-websocket-protocol"] == "v5.channel.k8s.io"
        assert response.headers["upgrade"] == "websocket"
        assert await tunnel.read() == b"early"
        await tunnel.write(b"abc")
        assert await tunnel.read() == b"cba"
        big = bytes(range(256)) * 4096
        sending = asyncio.create_task(tunnel.write(big))
        got = b""
        while len(got) < len(big):
            got += await tunnel.read()
        await sending
        await tunnel.write_eof()
        assert await tunnel.read() == b"bye"
        assert await tunnel.read() == b""
        await tunnel.close()
        await tunnel.close()
    line, headers = seen[0]
    assert line == (
        "GET /api/v1/namespaces/a/pods/b/exec?command=sh&command=-c&stdin=true HTTP/1.1"
    )
    offers = [value for name, value in headers if name == "sec-websocket-protocol"]
    assert offers == ["v5.channel.k8s.io", "v4.channel.k8s.io"]
    assert [v for name, v in headers if name == "authorization"] == ["Bearer ours"]
    assert dict(headers)["host"].startswith("127.0.0.1:")


REFUSED = b'{"kind":"Status","message":"pod is Pending","code":400}'


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(REFUSED), REFUSED),
        b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n%x;ext\r\n%b\r\n0\r\n\r\n"
        % (len(REFUSED), REFUSED),
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + REFUSED,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b"
        % (len(REFUSED), REFUSED),
    ],
    ids=["length", "chunked", "until-end", "after-continue"],
)
async def test_a_refused_upgrade_is_an_ordinary_answer_so_that_clients_fall_back(raw):
    """kubernetes#126231, kr8s#274: a refusal must come before any 101."""

    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)

    async with reaching(serve) as transport:
        response = await transport.handle(EXEC)
        assert (response.status, response.body, response.tunnel) == (400, REFUSED, None)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9999999\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
        b"HTTP/1.1 101 Switching",
        b"HTTP/1.1 101 Switching\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    ],
)
async def test_a_malformed_answer_to_an_upgrade_is_no_answer(raw):
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(raw)

    async with reaching(serve) as transport:
        with pytest.raises(TransportError):
            await transport.handle(EXEC)


async def test_a_tunnel_that_breaks_says_so():
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPTED)
        peer.writer.transport.abort()

    async with reaching(serve) as transport:
        response = await transport.handle(EXEC)
        tunnel = response.tunnel
        assert tunnel is not None
        with pytest.raises(TransportError):
            while True:
                await tunnel.write(b"x" * 65536)
        await response.aclose()


async def test_spdy_offers_arrive_one_a_line_and_with_their_body():
    seen: list[tuple[str, list[tuple[str, str]], bytes]] = []

    async def serve(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.send(ACCEPTED)

    spdy = Request(
        "POST",
        "/api/v1/namespaces/a/pods/b/exec",
        headers={
            "connection": "Upgrade",
            "upgrade": "SPDY/3.1",
            "x-stream-protocol-version": "v4.channel.k8s.io, v3.channel.k8s.io, channel.k8s.io",
        },
    )
    async with reaching(serve) as transport:
        await (await transport.handle(spdy)).aclose()
    line, headers, body = seen[0]
    assert line.startswith("POST ")
    assert body == b""
    assert dict(headers)["upgrade"] == "SPDY/3.1"
    assert [v for name, v in headers if name == "x-stream-protocol-version"] == [
        "v4.channel.k8s.io",
        "v3.channel.k8s.io",
        "channel.k8s.io",
    ]


async def test_a_header_cannot_smuggle_another():
    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.send(ACCEPTED)

    async with reaching(serve) as transport:
        for name, value in (
            ("user-agent", "x\rAuthorization: Bearer mine"),
            ("user-agent", "x\nImpersonate-Group: system:masters"),
            ("impersonate-user", "jane\nsystem:admin"),
            ("impersonate-group", "a\0b"),
        ):
            for request in (PODS, EXEC):
                evil = Request("GET", request.path, headers={**request.headers, name: value})
                with pytest.raises(TransportError) as caught:
                    await transport.handle(evil)
                assert not caught.value.sent


async def test_requests_go_through_a_proxy_and_so_do_upgrades():
    """karmada#4197: proxy-url forgotten on streams."""
    seen: list[str] = []

    async def serve(peer: Peer) -> None:
        await peer.request()

    async def proxy(peer: Peer) -> None:
        line, headers, _ = await peer.request()
        seen.append(line.split(" ")[0] + " " + dict(headers).get("proxy-authorization", ""))
        if line.startswith("CONNECT"):
            await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            line, headers, _ = await peer.request()
        await (peer.send(ACCEPTED) if "upgrade" in dict(headers) else peer.answer(b"{}"))

    async with member(proxy) as url:
        through = url.replace("http://", "http://me:se%20cret@")
        async with reaching(serve, proxy_url=through) as transport:
            assert (await transport.handle(PODS)).body == b"{}"
            response = await transport.handle(EXEC)
            assert response.status == 101
            await response.aclose()
    assert seen == ["GET Basic bWU6c2UgY3JldA==", "CONNECT Basic bWU6c2UgY3JldA=="]


async def test_a_proxy_that_refuses_is_told_from_the_member():
    async def proxy(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"", "407 Proxy Authentication Required")

    async with member(proxy) as url:
        transport = connect(Kubeconfig(where="kc", server="https://east.example", proxy_url=url))
        for request in (PODS, EXEC):
            with pytest.raises(TransportError, match="407") as caught:
                await transport.handle(request)
            assert not caught.value.sent
        await transport.aclose()
