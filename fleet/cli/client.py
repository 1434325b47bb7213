"""A gateway's API for the commands: a kubeconfig's context, and requests over it.

Thin on purpose, and on the standard library alone, so that a command answers in a fraction of a
second. It reads what gateways write and kubectl edits: data inlined, or files; a certificate or a
token.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import os
import ssl
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import click
import orjson
import yaml

from fleet.errors import ConfigError, Unavailable
from fleet.kube.status import error_of_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT_CONTEXT = "fleet"
TIMEOUT_S = 30.0

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


def find_kubeconfig(given: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The kubeconfig to use: the one given, `FLEET_KUBECONFIG`, the local gateway's, or
    `KUBECONFIG`. Raises ConfigError when there is none."""
    if given is not None:
        return given
    from fleet.gateway.config import load

    local = load(environment=environment).kubeconfig
    if local.exists() or "FLEET_KUBECONFIG" in environment:
        return local
    for name in environment.get("KUBECONFIG", "").split(os.pathsep):
        if name and Path(name).exists():
            return Path(name)
    raise ConfigError(
        f"there is no kubeconfig of a gateway at {local}; start a gateway with `fleet run`, or "
        "name one with --kubeconfig"
    )


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
    contexts = _entries(document, "contexts", "context")
    name = context or (
        ROOT_CONTEXT if ROOT_CONTEXT in contexts else document.get("current-context") or ""
    )
    chosen = contexts.get(name)
    if chosen is None:
        known = ", ".join(contexts) or "none"
        raise ConfigError(f"{file} has no context {name!r}; it has: {known}")
    cluster = _entries(document, "clusters", "cluster").get(chosen.get("cluster") or "")
    if cluster is None or not cluster.get("server"):
        raise ConfigError(f"{file}: context {name!r} names no cluster with a server")
    user = _entries(document, "users", "user").get(chosen.get("user") or "", {})
    if "exec" in user or "auth-provider" in user:
        raise ConfigError(
            f"{file}: context {name!r} takes its credentials from a plugin, which this command "
            "does not run; use kubectl, or a kubeconfig with a certificate or token"
        )
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        token = _file(file, user["tokenFile"]).decode().strip()
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        authority=_data(file, cluster, "certificate-authority"),
        certificate=_data(file, user, "client-certificate"),
        key=_data(file, user, "client-key"),
        token=token,
        namespace=chosen.get("namespace") or "default",
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def _entries(document: dict[str, Any], section: str, inner: str) -> dict[str, dict[str, Any]]:
    return {
        entry["name"]: entry.get(inner) or {}
        for entry in document.get(section) or ()
        if isinstance(entry, dict) and "name" in entry
    }


def _data(file: Path, entry: Mapping[str, Any], key: str) -> bytes:
    inline = entry.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigError(f"{file}: {key}-data is not base64") from error
    return _file(file, entry[key]) if entry.get(key) else b""


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
        return self._document("POST", path, (), body=orjson.dumps(body), timeout_s=timeout_s)

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
                click.echo(f"Warning: {_warning_text(value)}", err=True)
            if response.status >= 400:
                retry_after = response.headers.get("Retry-After")
                raise error_of_answer(response.status, response.read(), retry_after=retry_after)
            try:
                yield response
            except (ConnectionError, http.client.HTTPException) as error:
                raise self._unreachable(error, timeout_s) from error
        finally:
            connection.close()

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
    except (ssl.SSLError, UnicodeDecodeError) as error:
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
