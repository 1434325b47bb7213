"""A gateway's API for the commands: a kubeconfig's context, and requests over it.

Thin on purpose, and on the standard library alone, so that a command answers in a fraction of a
second. It reads what gateways write and kubectl edits: data inlined, or files; a certificate or a
token.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import ssl
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import click
import orjson
import yaml

from fleet.errors import ApiError, ConfigError, Unauthorized, Unavailable
from fleet.kube.status import error_of_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT_CONTEXT = "fleet"
TIMEOUT_S = 30.0
GATEWAY_MARK = "+fleet-"
"""What stands in the version of a gateway (`fleet.gateway.version`)."""
GATEWAYS_OWN = ("/fleet/", "/apis/fleet.dev/")
"""Paths that nothing else serves."""

Query = "Sequence[tuple[str, str]]"


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a kubeconfig: where its server is and how to be let in."""

    server: str
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""
    namespace: str = "default"
    insecure: bool = False
    source: str = field(default="", compare=False)
    """Which file and context say so."""


def read_access(file: Path, context: str | None = None) -> Access:
    """The access that `context` gives; without one the context `fleet`, else the current one.

    Raises ConfigError saying what is missing in which file.
    """
    try:
        document = yaml.load(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not YAML: is it a kubeconfig?") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file} is no kubeconfig")
    contexts = _entries(file, document, "contexts", "context")
    name = context or (
        ROOT_CONTEXT if ROOT_CONTEXT in contexts else document.get("current-context") or ""
    )
    chosen = contexts.get(name)
    if chosen is None:
        known = ", ".join(contexts) or "none"
        raise ConfigError(f"{file} has no context {name!r}; it has: {known}")
    cluster = _entries(file, document, "clusters", "cluster").get(_text(chosen, "cluster"))
    if cluster is None or not cluster.get("server"):
        raise ConfigError(f"{file}: context {name!r} names no cluster with a server")
    user = _entries(file, document, "users", "user").get(_text(chosen, "user"), {})
    if "exec" in user or "auth-provider" in user:
        raise ConfigError(
            f"{file}: context {name!r} takes its credentials from a plugin, which this command "
            "does not run; use kubectl, or a kubeconfig with a certificate or token"
        )
    return Access(
        server=_server(file, cluster),
        authority=_data(file, cluster, "certificate-authority"),
        certificate=_data(file, user, "client-certificate"),
        key=_data(file, user, "client-key"),
        token=_token(file, user),
        namespace=_text(chosen, "namespace") or "default",
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        source=f"{file}, context {name!r}",
    )


def _entries(
    file: Path, document: dict[str, Any], section: str, inner: str
) -> dict[str, dict[str, Any]]:
    listed = document.get(section) or []
    found = {}
    for entry in listed if isinstance(listed, list) else [listed]:
        body = (entry.get(inner) or {}) if isinstance(entry, dict) else None
        if not isinstance(body, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{file}: {section} is no list of entries with a name and a {inner}")
        found[entry["name"]] = body
    return found


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _server(file: Path, cluster: Mapping[str, Any]) -> str:
    server = str(cluster["server"]).rstrip("/")
    try:
        url = urlsplit(server)
        sound = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"{file}: server: {server!r} is no address, e.g. https://127.0.0.1:7443")
    return server


def _token(file: Path, user: Mapping[str, Any]) -> str:
    token = _text(user, "token")
    if not token and (name := _text(user, "tokenFile")):
        token = _file(file, name).decode(errors="replace").strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{file}: the user's token has characters that no token has")
    return token


def _data(file: Path, entry: Mapping[str, Any], key: str) -> bytes:
    inline = entry.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ConfigError(f"{file}: {key}-data is not base64") from error
    return _file(file, str(entry[key])) if entry.get(key) else b""


def _file(kubeconfig: Path, name: str) -> bytes:
    path = kubeconfig.absolute().parent / Path(name).expanduser()
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{kubeconfig}: {path} cannot be read: {error.strerror}") from error


class Client:
    """Requests to one server, one at a time."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._url = urlsplit(access.server)
        self._warned: set[str] = set()

    def get(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        accept: str = "application/json",
    ) -> Any:
        """The parsed document at `path`. Raises ApiError, ConfigError."""
        return self._document("GET", path, query, accept=accept)

    def post(self, path: str, body: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """The parsed answer to a JSON body. Raises ApiError, ConfigError."""
        return self._document("POST", path, (), body=_json(body), timeout_s=timeout_s)

    def check_gateway(self) -> str:
        """The version of the gateway that the server is. Raises ConfigError where it is none,
        saying what it is and how to reach one; ApiError, Unavailable where it does not answer."""
        version = self.get("/version")
        told = version.get("gitVersion") if isinstance(version, dict) else None
        if isinstance(told, str) and GATEWAY_MARK in told:
            return told
        raise ConfigError(self._no_gateway(told))

    def _no_gateway(self, version: object) -> str:
        server = self.access.server
        _, is_member, member = self._url.path.rpartition("/clusters/")
        if is_member and "/" not in member:
            return (
                f"{self.access.source} leads to the member {member} alone ({server}), this needs "
                f"the whole fleet\n  Its context is {ROOT_CONTEXT}:  --context {ROOT_CONTEXT}"
            )
        what = f"a Kubernetes API ({version})" if version else "something else"
        return (
            f"{server} is no fleet gateway, it is {what}; {self.access.source} leads there\n"
            "  To use the gateway on this machine:  fleet kubeconfig  names its kubeconfig, for "
            "--kubeconfig\n"
            "  To start one:  fleet run\n"
            "  To take this cluster into a fleet:  fleet join FILE --name NAME"
        )

    def stream(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Iterator[bytes]:
        """The body of a GET as it comes, without a time limit. Raises ApiError, ConfigError."""
        with self._request("GET", path, query, timeout_s=None) as response:
            while data := response.read1(65536):
                yield data

    def _document(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        *,
        body: bytes = b"",
        accept: str = "application/json",
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        with self._request(
            method, path, query, body=body, accept=accept, timeout_s=timeout_s
        ) as response:
            raw = response.read()
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ConfigError(
                f"{self.access.server}{path} does not answer as a Kubernetes API does"
            ) from error

    @contextmanager
    def _request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        body: bytes = b"",
        accept: str = "*/*",
        timeout_s: float | None = TIMEOUT_S,
    ) -> Iterator[http.client.HTTPResponse]:
        target = self._url.path + quote(path, safe="/:*@")
        if query:
            target += "?" + urlencode(query)
        headers = {"Accept": accept, "User-Agent": "fleet"}
        if body:
            headers["Content-Type"] = "application/json"
        if self.access.token:
            headers["Authorization"] = f"Bearer {self.access.token}"
        connection = self._connection(timeout_s)
        try:
            try:
                connection.request(method, target, body or None, headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error, timeout_s) from error
            for value in response.headers.get_all("Warning", []):
                text = _warning_text(value)
                if text not in self._warned:  # a command may ask several times
                    self._warned.add(text)
                    click.echo(f"Warning: {text}", err=True)
            if response.status >= 400:
                raise self._refused(response, path)
            try:
                yield response
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(error, timeout_s) from error
        finally:
            connection.close()

    def _refused(self, response: http.client.HTTPResponse, path: str) -> Exception:
        """The error in an answer; what only a gateway serves may be asked of something else."""
        error = error_of_answer(
            response.status, response.read(), retry_after=response.headers.get("Retry-After")
        )
        named = error.details is not None and error.details.name
        if response.status in (403, 404, 405) and not named and path.startswith(GATEWAYS_OWN):
            try:
                self.check_gateway()
            except ConfigError as why:
                return why
            except (ApiError, Unavailable):
                return error
        if response.status == 401:
            return Unauthorized(
                f"{self.access.server} does not accept the credentials of {self.access.source}: "
                f"{error}"
            )
        return error

    def _connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=_tls(self.access))

    def _unreachable(self, error: Exception, timeout_s: float | None) -> Exception:
        server = f"{self._url.scheme}://{self._url.netloc}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConfigError(
                f"{server} is not the gateway of this kubeconfig: {error.verify_message}; "
                "if its state directory was replaced, use the kubeconfig it wrote since"
            )
        if isinstance(error, ConnectionRefusedError):
            return Unavailable(f"no gateway answers at {server}; start it with `fleet run`")
        if isinstance(error, TimeoutError):
            return Unavailable(f"{server} gave no answer within {timeout_s:g} s; try again")
        return Unavailable(f"{server} cannot be reached: {error}")


def _json(body: Any) -> bytes:
    """As JSON: also numbers of any size, which whoever is asked refuses by their field. Raises
    ConfigError."""
    try:
        return orjson.dumps(body)
    except TypeError:
        pass
    try:
        return json.dumps(body, default=_moment, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"what was given cannot be said in JSON: {error}") from error


def _moment(value: object) -> str:
    """A date or a time, which YAML has and JSON has not."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{value!r} is a {type(value).__name__}")


def _tls(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=access.authority.decode() or None)
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.certificate:
            with tempfile.NamedTemporaryFile() as pem:  # ssl takes files only; mode 0600
                pem.write(access.key + b"\n" + access.certificate)
                pem.flush()
                context.load_cert_chain(pem.name)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"the certificates for {access.server} cannot be used: {error}"
        ) from error
    return context


def _warning_text(value: str) -> str:
    """The text of a `Warning: 299 - "text"` header."""
    start, end = value.find('"'), value.rfind('"')
    if start < 0 or end <= start:
        return value
    return value[start + 1 : end].replace('\\"', '"').replace("\\\\", "\\")
