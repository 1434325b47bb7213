"""The client of the commands: what it reads from kubeconfigs, and over the wire."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fleet.cli.client import GATEWAY_MARK, Access, Client, read_access
from fleet.errors import ApiError, ConfigError, Forbidden, NotFound, Unauthorized, Unavailable
from fleet.gateway import version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def written(path: Path, **changes: Any) -> Path:
    document = {
        "current-context": "east",
        "contexts": [
            {"name": "fleet", "context": {"cluster": "f", "user": "admin"}},
            {"name": "east", "context": {"cluster": "e", "user": "admin", "namespace": "shop"}},
        ],
        "clusters": [
            {
                "name": "f",
                "cluster": {"server": "https://f/", "certificate-authority-data": b64("CA")},
            },
            {"name": "e", "cluster": {"server": "https://f/clusters/east"}},
        ],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate-data": b64("CERT"),
                    "client-key-data": b64("KEY"),
                },
            }
        ],
    }
    file = path / "kubeconfig"
    file.write_text(yaml.safe_dump({**document, **changes}))
    return file


def test_the_roots_context_is_taken_whatever_is_current(tmp_path: Path) -> None:
    access = read_access(written(tmp_path))
    assert access == Access("https://f", b"CA", b"CERT", b"KEY")
    east = read_access(written(tmp_path), "east")
    assert (east.server, east.namespace) == ("https://f/clusters/east", "shop")


def test_without_that_context_the_current_one_is(tmp_path: Path) -> None:
    contexts = [{"name": "east", "context": {"cluster": "e"}}]
    assert read_access(written(tmp_path, contexts=contexts)).server == "https://f/clusters/east"


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA2")
    (tmp_path / "token").write_text("t0k3n\n")
    access = read_access(
        written(
            tmp_path,
            clusters=[
                {"name": "f", "cluster": {"server": "https://f", "certificate-authority": "ca.pem"}}
            ],
            users=[{"name": "admin", "user": {"tokenFile": str(tmp_path / "token")}}],
        )
    )
    assert (access.authority, access.token) == (b"CA2", "t0k3n")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contexts": [], "current-context": ""}, "no context ''; it has: none"),
        ({"contexts": [{"name": "fleet", "context": {"cluster": "x"}}]}, "names no cluster"),
        ({"clusters": [{"name": "f", "cluster": {}}]}, "names no cluster"),
        (
            {"users": [{"name": "admin", "user": {"exec": {"command": "x"}}}]},
            "credentials from a plugin",
        ),
        (
            {"users": [{"name": "admin", "user": {"client-key-data": "?"}}]},
            "client-key-data is not base64",
        ),
        ({"users": [{"name": "admin", "user": {"client-key": "none"}}]}, "none cannot be read"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    file = written(tmp_path, **changes)
    with pytest.raises(ConfigError) as caught:
        read_access(file)
    assert words in str(caught.value) and str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"[", b"5", b"\xff\xfe\x00"])
def test_what_is_no_kubeconfig(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="kubeconfig"):
        read_access(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_access(tmp_path / "none")


@pytest.mark.parametrize("wrong", [None, 5, True, "x", [1], {"a": 1}], ids=repr)
@pytest.mark.parametrize("section", ["contexts", "clusters", "users"])
def test_a_value_of_the_wrong_type_anywhere_is_at_most_a_complaint(
    tmp_path: Path, section: str, wrong: Any
) -> None:
    document = yaml.safe_load(written(tmp_path).read_text())
    inner = section.removesuffix("s")
    first = document[section][0]
    for changed in (
        wrong,
        [wrong],
        [{**first, "name": wrong}],
        [{**first, inner: wrong}],
        *([{**first, inner: {**first[inner], key: wrong}}] for key in first[inner]),
        [{**first, inner: {**first[inner], "token": wrong, "tokenFile": wrong}}],
    ):
        file = written(tmp_path, **{section: changed})
        with contextlib.suppress(ConfigError):
            read_access(file)


@pytest.mark.parametrize("server", ["/x", "ftp://h", "https://", "https://h:99999x", "h:7443"])
def test_a_server_that_is_no_address(tmp_path: Path, server: str) -> None:
    file = written(tmp_path, clusters=[{"name": "f", "cluster": {"server": server}}])
    with pytest.raises(ConfigError, match="is no address"):
        read_access(file)


def test_a_token_that_no_header_can_hold(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xffone\ntwo\n")
    users = [{"name": "admin", "user": {"tokenFile": "token"}}]
    with pytest.raises(ConfigError, match="token has characters"):
        read_access(written(tmp_path, users=users))


# -- over the wire


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers), b""))  # type: ignore[attr-defined]
        serving: Any = self.server
        status, headers, body = serving.also.get(self.path, serving.answer)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.sent = self.rfile.read(int(self.headers["Content-Length"]))  # type: ignore[attr-defined]
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def server(status: int, body: bytes, *headers: tuple[str, str]) -> Iterator[Any]:
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as serving:
        serving.answer = (status, headers, body)  # type: ignore[attr-defined]
        serving.seen = []  # type: ignore[attr-defined]
        serving.also = {}  # type: ignore[attr-defined]
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield serving
        finally:
            serving.shutdown()
            thread.join()


def client(serving: Any, path: str = "", token: str = "") -> Client:
    return Client(Access(f"http://127.0.0.1:{serving.server_port}{path}", token=token))


def test_a_request_goes_below_the_roots_path(capsys: pytest.CaptureFixture[str]) -> None:
    warnings = [("Warning", r'299 - "idc-b: \"last seen\" 41 s ago"'), ("Warning", "odd")]
    with server(200, b'{"a":1}', *warnings) as serving:
        answer = client(serving, "/clusters/east", "t").get(
            "/api/v1/namespaces/payments.*/pods", [("labelSelector", "a=b,c")]
        )
    assert answer == {"a": 1}
    path, headers, _ = serving.seen[0]
    assert path == "/clusters/east/api/v1/namespaces/payments.*/pods?labelSelector=a%3Db%2Cc"
    assert headers["Authorization"] == "Bearer t"
    assert capsys.readouterr().err == 'Warning: idc-b: "last seen" 41 s ago\nWarning: odd\n'


def test_whatever_a_file_says_is_sent_as_json() -> None:
    """A number may have any size, a key be no text and a date none: whoever is asked judges."""
    given = yaml.safe_load("{much: 99999999999999999999999, 7: a, on: [2026-11-29]}")
    with server(200, b"{}") as serving:
        client(serving).post("/fleet/plan", given)
    assert json.loads(serving.sent) == {
        "much": 99999999999999999999999, "7": "a", "true": ["2026-11-29"]
    }  # fmt: skip
    itself = yaml.safe_load("&a {b: *a}")
    for odd in (itself, yaml.safe_load("{a: !!binary aGk=}"), {(1, 2): 3}):
        with server(200, b"{}") as serving, pytest.raises(ConfigError, match="in JSON"):
            client(serving).post("/fleet/plan", odd)


def test_a_status_becomes_its_error() -> None:
    status = {"kind": "Status", "reason": "NotFound", "message": "no such thing", "code": 404}
    with server(404, json.dumps(status).encode()) as serving:
        with pytest.raises(NotFound, match="no such thing"):
            client(serving).get("/x")
        with pytest.raises(NotFound):
            client(serving).post("/x", {})
        with pytest.raises(NotFound):
            list(client(serving).stream("/x"))


NOT_FOUND = b"404 page not found\n"
FORBIDDEN = json.dumps(
    {"kind": "Status", "reason": "Forbidden", "message": 'cannot post path "/fleet/join"'}
).encode()


@pytest.mark.parametrize("answer", [(404, NOT_FOUND), (403, FORBIDDEN), (405, b"")])
@pytest.mark.parametrize("path", ["/fleet/join", "/apis/fleet.dev/v1alpha1/clusters"])
def test_a_server_that_is_no_gateway_is_said_to_be_none(
    answer: tuple[int, bytes], path: str
) -> None:
    with server(*answer) as serving:
        serving.also["/version"] = (200, (), b'{"gitVersion":"v1.36.3"}')
        with pytest.raises(ConfigError) as caught:
            client(serving).get(path)
    text = str(caught.value)
    assert "is no fleet gateway, it is a Kubernetes API (v1.36.3)" in text
    assert "fleet kubeconfig" in text and "fleet join FILE" in text


def test_what_only_gateways_serve_is_asked_of_a_member() -> None:
    with server(404, NOT_FOUND) as serving:
        serving.also["/clusters/east/version"] = (200, (), b'{"gitVersion":"v1.36.3"}')
        with pytest.raises(ConfigError, match="the member east alone") as caught:
            client(serving, "/clusters/east").get("/apis/fleet.dev/v1alpha1/clusters")
    assert "--context fleet" in str(caught.value)


def test_a_gateways_own_refusals_are_its_own() -> None:
    with server(404, NOT_FOUND) as serving:
        serving.also["/version"] = (200, (), b'{"gitVersion":"v1.36.3+fleet-0.1.0"}')
        with pytest.raises(NotFound):
            client(serving).get("/fleet/x")
        assert client(serving).check_gateway() == "v1.36.3+fleet-0.1.0"
    with server(403, FORBIDDEN) as serving:
        serving.also["/version"] = (500, (), b"oops")
        with pytest.raises(Forbidden):
            client(serving).get("/fleet/x")


def test_the_mark_of_a_gateway_is_in_its_version() -> None:
    assert GATEWAY_MARK in version.document()["gitVersion"]


def test_an_object_that_is_missing_is_no_question_of_what_serves_it() -> None:
    status = {"kind": "Status", "reason": "NotFound", "details": {"name": "x"}, "code": 404}
    with server(404, json.dumps(status).encode()) as serving:
        with pytest.raises(NotFound):
            client(serving).get("/apis/fleet.dev/v1alpha1/clusters/x")
        assert len(serving.seen) == 1


def test_credentials_that_are_refused_are_named_with_their_source() -> None:
    with server(401, b"Unauthorized") as serving:
        access = Access(f"http://127.0.0.1:{serving.server_port}", source="f, context 'fleet'")
        with pytest.raises(Unauthorized, match="credentials of f, context 'fleet'"):
            Client(access).get("/x")


def test_an_answer_of_another_kind_of_server() -> None:
    with server(200, b"<html>") as serving, pytest.raises(ConfigError, match="Kubernetes API"):
        client(serving).get("/x")
    with server(502, b"<html>bad gateway") as serving, pytest.raises(ApiError, match="bad gateway"):
        client(serving).get("/x")


def test_nobody_there_says_how_to_begin() -> None:
    with server(200, b"") as serving:
        gone = client(serving)
    with pytest.raises(Unavailable, match="start it with `fleet run`"):
        gone.get("/x")
    with pytest.raises(Unavailable, match="cannot be reached"):
        Client(Access("http://name.invalid:1")).get("/x")


def test_certificates_that_cannot_be_used_are_said_to_be(tmp_path: Path) -> None:
    for access in (
        Access("https://127.0.0.1:1", authority=b"not PEM"),
        Access("https://127.0.0.1:1", certificate=b"not PEM", key=b"x"),
    ):
        with pytest.raises(ConfigError, match="cannot be used"):
            Client(access).get("/x")
