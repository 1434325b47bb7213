"""The HTTP edge over real TLS sockets: what a client gets, and what goes when it leaves."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from fleet.apiserver.incoming import Limits
from fleet.errors import Details, Expired, NotFound, TooManyRequests, TransportError, Unauthorized
from fleet.gateway.authentication import Authentication
from fleet.gateway.authority import Authority
from fleet.kube.wire import Request, Response, UserInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from fleet.apiserver.incoming import Peer

    Answer = Callable[[Request], Awaitable[Response]]

JSON = {"Content-Type": "application/json"}


async def test_a_request_arrives_as_a_value(serving: Any) -> None:
    async with serving(authenticator=Authentication()) as edge:
        connection = await edge.connect()
        await connection.request(
            "POST /api/v1/namespaces/payments.east/pods?labelSelector=a%3Db&dryRun=All&a=1&a=2",
            "Content-Type: application/json",
            "X-Thing: One",
            "Authorization: Bearer not-for-handlers",
            "Content-Length: 2",
            body=b"{}",
        )
        status, headers, body = await connection.answer()
        await connection.close()
    assert (status, body) == (200, b'{"kind":"Pod"}')
    request = edge.requests[0]
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/payments.east/pods")
    assert request.query == (("labelSelector", "a=b"), ("dryRun", "All"), ("a", "1"), ("a", "2"))
    assert request.body == b"{}"
    assert request.headers["x-thing"] == "One"
    assert "authorization" not in request.headers
    assert request.user == UserInfo("fleet:admin", ("fleet:admins", "system:authenticated"))
    assert headers["cache-control"] == ["no-cache, private"]
    assert headers["content-length"] == ["14"]
    assert headers["audit-id"] == [request.headers["audit-id"]]


async def test_of_repeated_headers_offers_and_groups_are_all_kept(serving: Any) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        await connection.get(
            "/",
            "X-Stream-Protocol-Version: v4.channel.k8s.io",
            "X-Stream-Protocol-Version: v3.channel.k8s.io",
            "Impersonate-Group: fleet:a, b",
            "Impersonate-Group: fleet:c",
            "X-Other: 1",
            "X-Other: 2",
        )
        await connection.close()
    headers = edge.requests[0].headers
    assert headers["x-stream-protocol-version"] == "v4.channel.k8s.io, v3.channel.k8s.io"
    assert headers["impersonate-group"] == "fleet:a, b\nfleet:c"
    assert headers["x-other"] == "2"


async def test_what_a_client_says_for_this_connection_alone_goes_no_further(serving: Any) -> None:
    """Taken out here; later it could take away what the gateway says of the caller."""
    async with serving() as edge:
        connection = await edge.connect()
        await connection.get(
            "/",
            "Connection: X-Mine, keep-alive",
            "Connection: Impersonate-Group",
            "X-Mine: 1",
            "Impersonate-Group: a",
            "X-Kept: 2",
        )
        await connection.close()
    headers = edge.requests[0].headers
    assert "x-mine" not in headers
    assert "impersonate-group" not in headers
    assert headers["x-kept"] == "2"


async def test_many_requests_share_a_connection(serving: Any) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        for number in range(3):
            assert (await connection.get(f"/{number}"))[0] == 200
        # pipelined: sent before the answers are read
        await connection.request("GET /3")
        await connection.request("GET /4")
        assert [(await connection.answer())[0] for _ in range(2)] == [200, 200]
        await connection.close()
    assert [request.path for request in edge.requests] == ["/0", "/1", "/2", "/3", "/4"]


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("/api/v1/namespaces/kube%2Dsystem/pods", "/api/v1/namespaces/kube-system/pods"),
        ("/api/v1/namespaces/payments.%2A/pods", "/api/v1/namespaces/payments.*/pods"),
        ("/api/v1/nodes/n%C3%A9", "/api/v1/nodes/né"),
        ("/api/v1/proxy/a%2Fb", "/api/v1/proxy/a/b"),
        ("/api/v1/a..b/.../c.", "/api/v1/a..b/.../c."),
        ("https://fleet/api/v1/pods?x=1", "/api/v1/pods"),
    ],
)
async def test_paths_are_decoded(serving: Any, sent: str, path: str) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        assert (await connection.get(sent))[0] == 200
        await connection.close()
    assert edge.requests[0].path == path


@pytest.mark.parametrize(
    "line",
    [
        "GET /api/../secret",
        "GET /api/%2e%2e/secret",
        "GET /api/%2E/pods",
        "GET /api/..%2Fsecret",
        "GET /api/v1/pods/%zz",
        "GET /api/v1/pods/%",
        "GET /api/v1/pods/%00",
        "GET /api/v1/pods/%0d%0aX: y",
        "GET /api/v1/pods/%ff",
        "GET /api/v1/pods?x=%ff",
        "GET /api?" + "&".join("a" for _ in range(1001)),
        "OPTIONS *",
    ],
)
async def test_what_cannot_be_a_path_is_refused_with_a_status(serving: Any, line: str) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        await connection.request(line)
        status, headers, body = await connection.answer()
        await connection.close()
    assert (status, json.loads(body)["reason"]) == (400, "BadRequest")
    assert headers["content-type"] == ["application/json"]
    assert edge.requests == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01 not http at all\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\x01 HTTP/9\r\n\r\n",
    ],
)
async def test_what_is_no_http_gets_a_status_and_the_end(serving: Any, garbage: bytes) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        await connection.send(garbage)
        status, _, body = await connection.answer()
        assert await connection.reader.read() == b""
        await connection.close()
    assert (status, json.loads(body)["kind"]) == (400, "Status")


async def test_a_handlers_error_is_a_status(serving: Any) -> None:
    async def answer(request: Request) -> Response:
        match request.path:
            case "/missing":
                raise NotFound.of(group="apps", resource="deployments", name="web")
            case "/busy":
                raise TooManyRequests("slow down", details=Details(retry_after_s=7))
            case "/old":
                raise Expired("too old")
        raise AssertionError

    async with serving(answer) as edge:
        connection = await edge.connect()
        status, _, body = await connection.get("/missing")
        assert (status, json.loads(body)["message"]) == (404, 'deployments.apps "web" not found')
        status, headers, _ = await connection.get("/busy")
        assert (status, headers["retry-after"]) == (429, ["7"])
        status, headers, body = await connection.get("/old")
        assert (status, json.loads(body)["reason"]) == (410, "Expired")
        assert body.count(b"\n") == 1 and body.endswith(b"\n")
        await connection.close()


async def test_a_fault_says_nothing_of_the_inside(
    serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(request: Request) -> Response:
        raise ValueError("the password is hunter2")

    async with serving(answer) as edge:
        connection = await edge.connect()
        status, headers, body = await connection.get("/x", "Audit-Id: mine-42")
        exchange = await edge.exchange()
        await connection.close()
    document = json.loads(body)
    assert (status, document["reason"]) == (500, "InternalError")
    assert "hunter2" not in body.decode() and "Traceback" not in body.decode()
    assert headers["audit-id"] == ["mine-42"] and "mine-42" in document["message"]
    assert isinstance(exchange.fault, ValueError)
    assert "hunter2" in caplog.text and "mine-42" in caplog.text


@pytest.mark.parametrize(
    ("method", "sent", "status", "words"),
    [
        ("GET", True, 503, "nothing was changed"),
        ("POST", False, 503, "nothing was changed"),
        ("POST", True, 504, "not known"),
    ],
)
async def test_an_unreachable_member_promises_no_more_than_is_known(
    serving: Any, method: str, sent: bool, status: int, words: str
) -> None:
    async def answer(request: Request) -> Response:
        raise TransportError("connection refused", member="east", sent=sent)

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request(f"{method} /x", "Content-Length: 0")
        got, _, body = await connection.answer()
        await connection.close()
    assert got == status
    assert "east" in json.loads(body)["message"] and words in json.loads(body)["message"]


async def test_warnings_are_quoted_and_bounded(serving: Any) -> None:
    texts = (
        'idc-b: "last seen" 41 s ago',
        'idc-b: "last seen" 41 s ago',
        "a\r\nSet-Cookie: b\\",
        *(f"{number} " + "x" * 990 for number in range(6)),
    )

    async def answer(request: Request) -> Response:
        return Response(200, JSON, b"{}", warnings=texts)

    async with serving(answer) as edge:
        connection = await edge.connect()
        _, headers, _ = await connection.get("/")
        await connection.close()
    assert headers["warning"][:2] == [
        r'299 - "idc-b: \"last seen\" 41 s ago"',
        r'299 - "a Set-Cookie: b\\"',
    ]
    assert "set-cookie" not in headers
    assert headers["warning"][-1] == '299 - "2 more warnings are left out"'


async def test_headers_of_a_members_connection_stay_there(serving: Any) -> None:
    async def answer(request: Request) -> Response:
        headers = {"Connection": "close", "Transfer-Encoding": "gzip", "content-length": "999"}
        return Response(200, {**headers, "ETag": '"x"', "content-type": "text/plain"}, b"ok")

    async with serving(answer) as edge:
        connection = await edge.connect()
        _, headers, body = await connection.get("/")
        assert (await connection.get("/"))[2] == b"ok"
        await connection.close()
    assert body == b"ok" and headers["etag"] == ['"x"']
    assert "connection" not in headers and "transfer-encoding" not in headers


# -- bodies on their way in


async def test_a_chunked_body_is_read_whole(serving: Any) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        await connection.request("PUT /x", "Transfer-Encoding: chunked")
        for part in (b"hello ", b"", b"chunks"):
            if part:
                await connection.send(b"%x\r\n%b\r\n" % (len(part), part))
        await connection.send(b"0\r\n\r\n")
        assert (await connection.answer())[0] == 200
        assert (await connection.get("/next"))[0] == 200
        await connection.close()
    assert edge.requests[0].body == b"hello chunks"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_413(serving: Any, chunked: bool) -> None:
    async with serving(limits=Limits(body_bytes=1000)) as edge:
        connection = await edge.connect()
        if chunked:
            await connection.request("POST /x", "Transfer-Encoding: chunked")
            await connection.send(b"3e9\r\n" + b"x" * 1001 + b"\r\n")
        else:
            await connection.request("POST /x", "Content-Length: 1001", body=b"x" * 1001)
        status, _, body = await connection.answer()
        await connection.close()
        ok = await edge.connect()
        await ok.request("POST /x", "Content-Length: 1000", body=b"x" * 1000)
        assert (await ok.answer())[0] == 200
        await ok.close()
    assert (status, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")
    assert len(edge.requests) == 1


async def test_100_continue_is_said_only_to_a_body_that_will_be_read(serving: Any) -> None:
    async with serving(limits=Limits(body_bytes=10)) as edge:
        connection = await edge.connect()
        await connection.request("POST /x", "Content-Length: 4", "Expect: 100-continue")
        assert (await connection.head())[0] == 100
        await connection.send(b"body")
        assert (await connection.answer())[0] == 200
        await connection.request("POST /x", "Content-Length: 11", "Expect: 100-continue")
        assert (await connection.head())[0] == 413
        await connection.close()


async def test_malformed_chunks_and_compressed_bodies_are_refused(serving: Any) -> None:
    async with serving() as edge:
        connection = await edge.connect()
        await connection.request("POST /x", "Transfer-Encoding: chunked", body=b"zz\r\n")
        status, _, body = await connection.answer()
        assert (status, json.loads(body)["reason"]) == (400, "BadRequest")
        await connection.close()
        connection = await edge.connect()
        await connection.request(
            "POST /x", "Content-Encoding: gzip", "Content-Length: 3", body=b"abc"
        )
        assert (await connection.answer())[0] == 415
        await connection.close()
    assert edge.requests == []


async def test_a_body_that_does_not_come_is_given_up(serving: Any) -> None:
    async with serving(limits=Limits(body_timeout_s=0.05)) as edge:
        connection = await edge.connect()
        await connection.request("POST /x", "Content-Length: 10", body=b"abc")
        status, _, body = await connection.answer()
        await connection.close()
    assert status == 400 and "did not arrive" in json.loads(body)["message"]


async def test_nobody_has_their_body_read(serving: Any, client_tls: ssl.SSLContext) -> None:
    class Strict:
        async def authenticate(self, peer: Peer) -> UserInfo:
            raise Unauthorized("Unauthorized")

    async with serving(authenticator=Strict()) as edge:
        connection = await edge.connect()
        # the answer comes although the body never does
        await connection.request("POST /x", "Content-Length: 1000")
        status, _, body = await connection.answer()
        await connection.close()
    assert (status, json.loads(body)["reason"]) == (401, "Unauthorized")
    assert edge.requests == []


# -- bodies on their way out


class Lazy(Sequence[bytes]):
    """Pieces that are made while they are read, once."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError

    def __iter__(self) -> Any:
        pieces, self.pieces = self.pieces, []
        return iter(pieces)


SHAPES = {
    "none": [],
    "one": [b"x"],
    "small": [b"{", b"}"],
    "many": [b"%06d" % number * 600 for number in range(700)],
    "large": [b"a" * 400_000, b"b" * 300_000, b"c"],
    "huge": [b"a", b"h" * 3_000_001, b"b"],
    "edges": [b"a" * (256 << 10), b"b" * (512 << 10), b"c" * ((512 << 10) + 1)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lazy", [False, True])
async def test_a_body_in_pieces_arrives_whole(serving: Any, shape: str, lazy: bool) -> None:
    pieces = SHAPES[shape]
    whole = b"".join(pieces)

    async def answer(request: Request) -> Response:
        return Response(200, JSON, Lazy(list(pieces)) if lazy else list(pieces))

    async with serving(answer) as edge:
        connection = await edge.connect()
        for _ in range(2):
            _, headers, body = await connection.get("/")
            assert body == whole
            exchange = await edge.exchange()
            assert exchange.sent_bytes == len(whole)
        if not lazy or len(whole) <= 256 << 10:
            assert headers["content-length"] == [str(len(whole))]
        await connection.close()


@pytest.mark.parametrize("shape", ["small", "many"])
async def test_head_is_get_without_the_body(serving: Any, shape: str) -> None:
    whole = b"".join(SHAPES[shape])

    async def answer(request: Request) -> Response:
        return Response(200, JSON, whole)

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("HEAD /api")
        status, headers = await connection.head()
        assert (status, headers["content-length"]) == (200, [str(len(whole))])
        assert (await connection.get("/api"))[2] == whole  # nothing was left on the connection
        await connection.close()
    assert edge.requests[0].method == "GET"


async def test_a_slow_client_holds_back_the_producer(serving: Any) -> None:
    made = 0
    total = 400

    async def produce() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(total):
            made += 1
            yield b"x" * (128 << 10)

    async def answer(request: Request) -> Response:
        return Response(200, JSON, produce())

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /")
        await connection.head()
        for taken in range(total):
            assert len(await connection.chunk()) == 128 << 10
            # what lies between: buffers of both ends and of the kernel, not the whole
            assert made - taken < total // 2
        assert await connection.chunk() == b""
        await connection.close()


async def test_a_client_that_takes_nothing_is_cut_off(serving: Any) -> None:
    gone = asyncio.Event()

    async def produce() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * (256 << 10)
        finally:
            gone.set()

    async def answer(request: Request) -> Response:
        return Response(200, JSON, produce())

    async with serving(answer, stalled_s=0.1) as edge:
        connection = await edge.connect()
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await connection.request("GET /")
        await gone.wait()
        await edge.exchange()
        assert edge.server.long_running == 0
        connection.writer.transport.abort()


# -- streams


async def test_headers_leave_before_the_first_byte(serving: Any) -> None:
    go = asyncio.Event()

    async def produce() -> AsyncIterator[bytes]:
        await go.wait()
        yield b""  # an empty piece must not end the chunks
        yield b'{"type":"ADDED"}\n'
        yield b'{"type":"BOOKMARK"}\n'

    async def answer(request: Request) -> Response:
        return Response(200, JSON, produce())

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /api/v1/pods?watch=1")
        status, headers = await connection.head()
        assert (status, headers["transfer-encoding"]) == (200, ["chunked"])
        go.set()
        assert await connection.chunk() == b'{"type":"ADDED"}\n'
        assert await connection.chunk() == b'{"type":"BOOKMARK"}\n'
        assert await connection.chunk() == b""
        exchange = await edge.exchange()
        assert exchange.long_running and exchange.sent_bytes == 37
        assert (await connection.get("/next"))[0] == 200
        await connection.close()


async def test_each_line_of_a_log_arrives_by_itself(serving: Any) -> None:
    lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> AsyncIterator[bytes]:
        while line := await lines.get():
            yield line

    async def answer(request: Request) -> Response:
        return Response(200, {"Content-Type": "text/plain"}, follow())

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /api/v1/namespaces/a/pods/b/log?follow=true")
        await connection.head()
        for number in range(5):
            lines.put_nowait(b"line %d\n" % number)
            assert await connection.chunk() == b"line %d\n" % number
        lines.put_nowait(b"")
        assert await connection.chunk() == b""
        await connection.close()


@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_watcher_that_leaves_ends_the_producer(serving: Any, abrupt: bool) -> None:
    closed = asyncio.Event()

    async def produce() -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def answer(request: Request) -> Response:
        return Response(200, JSON, produce())

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /api/v1/pods?watch=1")
        await connection.head()
        await connection.chunk()
        assert edge.server.long_running == 1
        if abrupt:
            connection.writer.transport.abort()
        else:
            await connection.close()
        await closed.wait()
        await edge.exchange()
        assert edge.server.long_running == 0


async def test_a_client_that_leaves_ends_the_handler(serving: Any) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        raise AssertionError

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /slow")
        await entered.wait()
        await connection.close()
        await left.wait()
        exchange = await edge.exchange()
    assert exchange.status == 0


async def test_a_stream_that_breaks_is_broken_off_not_ended(
    serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def produce() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("lost the thread")

    async def answer(request: Request) -> Response:
        return Response(200, JSON, produce())

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /")
        await connection.head()
        assert await connection.chunk() == b"half"
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError, ValueError)):
            await connection.chunk()
        exchange = await edge.exchange()
        await connection.close()
    assert isinstance(exchange.fault, RuntimeError)
    assert "lost the thread" in caplog.text


async def test_open_watches_end_in_order_when_the_server_stops(serving: Any) -> None:
    closed = asyncio.Event()

    async def produce() -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def answer(request: Request) -> Response:
        if request.path == "/list":
            return Response(200, JSON, b"[]")
        return Response(200, JSON, produce())

    async with serving(answer) as edge:
        watch, idle = await edge.connect(), await edge.connect()
        assert (await idle.get("/list"))[0] == 200
        await watch.request("GET /watch")
        await watch.head()
        await watch.chunk()
        await edge.server.stop(grace_s=5)
        assert await watch.chunk() == b""  # the terminator, not a reset
        assert await watch.reader.read() == b""
        assert await idle.reader.read() == b""
        assert closed.is_set()
        with pytest.raises(OSError):
            await edge.connect()
        await watch.close()
        await idle.close()


async def test_a_request_under_way_is_finished_when_the_server_stops(serving: Any) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        entered.set()
        await go.wait()
        return Response(200, JSON, b"done")

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /")
        await entered.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(edge.server.stop(grace_s=5))
            await asyncio.sleep(0)
            go.set()
            assert (await connection.answer())[2] == b"done"
        await connection.close()


async def test_http_1_0_gets_a_stream_without_chunks(serving: Any) -> None:
    async def produce() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    async def answer(request: Request) -> Response:
        return Response(200, {"Content-Type": "text/plain"}, produce())

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.send("GET /log HTTP/1.0\r\n\r\n")
        _, headers = await connection.head()
        assert "transfer-encoding" not in headers
        assert await connection.reader.read() == b"one\ntwo\n"
        await connection.close()


# -- TLS


async def test_tls_speaks_http_1_1_and_aes_gcm(serving: Any, client_tls: ssl.SSLContext) -> None:
    client_tls.set_alpn_protocols(["h2", "http/1.1"])
    async with serving() as edge:
        connection = await edge.connect()
        session = connection.writer.get_extra_info("ssl_object")
        assert session.selected_alpn_protocol() == "http/1.1"
        assert "GCM" in session.cipher()[0]
        await connection.close()


async def test_without_a_certificate_only_health_is_answered(
    serving: Any, authority: Authority
) -> None:
    async with serving(authenticator=Authentication()) as edge:
        edge.tls = ssl.create_default_context(cadata=authority.certificate.decode())
        connection = await edge.connect()
        assert (await connection.get("/livez"))[0] == 200
        status, _, body = await connection.get("/api/v1/pods")
        assert (status, json.loads(body)["reason"]) == (401, "Unauthorized")
        status, _, _ = await connection.get("/livez", "Authorization: Bearer stolen")
        assert status == 401
        await connection.close()
    assert [request.user.name for request in edge.requests] == ["system:anonymous"]


async def test_another_authoritys_certificate_is_refused(
    serving: Any, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority.open(tmp_path / "pki").admin()
    file = tmp_path / "stranger.pem"
    file.write_bytes(stranger.key + stranger.certificate)
    async with serving(authenticator=Authentication()) as edge:
        edge.tls = ssl.create_default_context(cadata=authority.certificate.decode())
        edge.tls.load_cert_chain(file)
        connection = await edge.connect()  # TLS 1.3 tells the client with the first read
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await connection.get("/api/v1/pods")
        await connection.close()
    assert edge.requests == []
