"""Reading a kubeconfig: which server, how it is trusted, who we are.

The grammar and its precedence are those of client-go's `clientcmd` (v1 Config). What is missing
or wrong is refused here, with file, context, field and remedy, before anything is dialled.
Next step: `adapters.kubernetes.credentials` turns the result into headers and a TLS context.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from fleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXEC_API = "client.authentication.k8s.io/"
_EXEC_VERSIONS = (EXEC_API + "v1", EXEC_API + "v1beta1")
_EXEC_EXTENSION = EXEC_API + "exec"


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential (client-go credential plugin)."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = _EXEC_VERSIONS[0]
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the plugin is told of the cluster, where it asks for that."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom to act as in every request that does not say so itself."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One context, resolved. A `Path` is a file that is read again when it may have changed."""

    where: str
    """File and context, for messages."""
    server: str
    """URL without a trailing slash; may have a path."""
    server_name: str = ""
    insecure: bool = False
    authority: bytes = b""
    """PEM; empty: the machine's own authorities."""
    proxy_url: str = ""
    certificate: bytes | Path = b""
    key: bytes | Path = b""
    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    exec_plugin: ExecPlugin | None = None
    auth_provider: Mapping[str, Any] | None = None
    impersonation: Impersonation = field(default_factory=Impersonation)


def load(
    source: bytes | Path | Sequence[Path],
    *,
    context: str | None = None,
    allow_exec: bool = True,
) -> Kubeconfig:
    """The kubeconfig in `source` – its bytes, a file, or files of which the first to define a
    name wins – at `context`, else at its current context.

    `allow_exec=False` refuses credential plugins: a kubeconfig that came over the network must
    not choose commands to run. Raises ConfigError.
    """
    return _Reader(_documents(source), context).kubeconfig(allow_exec=allow_exec)


def flatten(source: bytes | Path | Sequence[Path], *, context: str | None = None) -> bytes:
    """A kubeconfig of one context that stands alone: certificates, keys and authorities inlined.

    A token file stays a file, by absolute path, since whoever writes it replaces the token.
    Raises ConfigError as `load` does.
    """
    reader = _Reader(_documents(source), context)
    reader.kubeconfig(allow_exec=True)
    return reader.flattened()


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    directory: Path | None
    """Where relative paths start; None for bytes, which may not hold any."""
    body: Mapping[str, Any]

    def items(self, section: str) -> list[Any]:
        found = self.body.get(section) or []
        if not isinstance(found, list):
            raise ConfigError(f"{self.name}: {section}: must be a list")
        return found


def _documents(source: bytes | Path | Sequence[Path]) -> list[_Document]:
    if isinstance(source, bytes):
        return [_document("kubeconfig", None, source)]
    paths = [source] if isinstance(source, Path) else list(source)
    documents = []
    for path in paths:
        try:
            raw = path.read_bytes()
        except FileNotFoundError as error:
            if len(paths) > 1:
                continue  # as clientcmd does for lists of files
            raise ConfigError(f"{path}: there is no such file, and no kubeconfig") from error
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        documents.append(_document(str(path), path.absolute().parent, raw))
    if not documents:
        raise ConfigError(f"no kubeconfig found in {', '.join(map(str, paths)) or 'an empty list'}")
    return documents


def _document(name: str, directory: Path | None, raw: bytes) -> _Document:
    try:
        body = yaml.load(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ConfigError(f"{name}: is not YAML{at}; is it a kubeconfig?") from error
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise ConfigError(f"{name}: is not a kubeconfig: the document is no mapping")
    kind = body.get("kind", "Config")
    if kind != "Config":
        raise ConfigError(f'{name}: is not a kubeconfig: kind is "{kind}", not "Config"')
    return _Document(name, directory, body)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A named cluster, user or context and the file that it stands in."""

    where: str
    directory: Path | None
    body: Mapping[str, Any]

    def wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{self.where}: {key}: {why}")

    def text(self, key: str) -> str:
        value = self.body.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, f"must be a string, is {type(value).__name__}")
        return value

    def items(self, key: str) -> list[Any]:
        value = self.body.get(key) or []
        if not isinstance(value, list):
            raise self.wrong(key, f"must be a list, is {type(value).__name__}")
        return value

    def path(self, key: str) -> Path | None:
        """The file that `key` names, absolute and seen to be readable."""
        text = self.text(key)
        if not text:
            return None
        path = Path(text).expanduser()
        if not path.is_absolute():
            if self.directory is None:
                raise self.wrong(
                    key, f"names the file {text}, relative to a file that is not known here; "
                    "use absolute paths or inline data"
                )  # fmt: skip
            path = self.directory / path
        try:
            with path.open("rb"):
                return path
        except OSError as error:
            raise self.wrong(
                key, f"{path}: {error.strerror}; put the file there or use {key}-data"
            ) from error

    def data(self, key: str) -> bytes:
        """The decoded `KEY-data`, b"" when absent."""
        text = self.text(f"{key}-data")
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise self.wrong(f"{key}-data", f"is not base64: {error}") from error

    def pem(self, key: str, *, holding: str) -> bytes | Path:
        """Inline data, which wins, or the file; b"" when neither is given."""
        found = self.data(key) or self.path(key) or b""
        raw = found.read_bytes() if isinstance(found, Path) else found
        if raw and b"-----BEGIN" not in raw:
            raise self.wrong(
                f"{key}-data" if isinstance(found, bytes) else key,
                f"holds no PEM {holding} (no BEGIN line)",
            )
        return found


class _Reader:
    """One context of one or several kubeconfig documents."""

    def __init__(self, documents: Sequence[_Document], context: str | None) -> None:
        self._documents = documents
        self._file = documents[0].name
        self._context = context or self._current()
        entry = self._entry("contexts", "context", self._context, f"{self._file}: ")
        self._where = f'{entry.where.split(": ")[0]}: context "{self._context}"'
        prefix = f"{self._where}: "
        cluster = entry.text("cluster")
        if not cluster:
            raise ConfigError(f"{prefix}names no cluster; add `cluster: NAME` to it")
        self._cluster = self._entry("clusters", "cluster", cluster, prefix)
        user = entry.text("user")
        self._user = (
            self._entry("users", "user", user, prefix)
            if user
            else _Entry(f'{prefix}user ""', None, {})
        )

    def _current(self) -> str:
        for document in self._documents:
            current = document.body.get("current-context")
            if isinstance(current, str) and current:
                return current
        names = self._names("contexts")
        if len(names) == 1:
            return names[0]
        if not names:
            raise ConfigError(f"{self._file}: has no contexts; is it a kubeconfig?")
        raise ConfigError(
            f"{self._file}: has no current-context; name one of {', '.join(names)} with --context"
        )

    def _names(self, section: str) -> list[str]:
        return [
            str(item["name"])
            for document in self._documents
            for item in document.items(section)
            if isinstance(item, dict) and "name" in item
        ]

    def _entry(self, section: str, kind: str, name: str, prefix: str) -> _Entry:
        for document in self._documents:
            for item in document.items(section):
                if isinstance(item, dict) and item.get("name") == name:
                    body = item.get(kind)
                    if body is None and kind == "user":
                        body = {}  # as clientcmd reads it: nobody in particular
                    if not isinstance(body, dict):
                        raise ConfigError(
                            f'{document.name}: {kind} "{name}": has no mapping under `{kind}:` '
                            "that says what it is"
                        )
                    where = f'{document.name}: {kind} "{name}"'
                    if kind != "context":
                        where = f'{prefix}{kind} "{name}"'
                    return _Entry(where, document.directory, body)
        known = ", ".join(self._names(section)) or "none"
        raise ConfigError(f'{prefix}there is no {kind} "{name}" (there are: {known})')

    def kubeconfig(self, *, allow_exec: bool) -> Kubeconfig:
        cluster, user = self._cluster, self._user
        authority = cluster.pem("certificate-authority", holding="certificate")
        insecure = bool(cluster.body.get("insecure-skip-tls-verify", False))
        if insecure and authority:
            raise cluster.wrong(
                "insecure-skip-tls-verify",
                "contradicts certificate-authority; remove one of the two",
            )
        certificate = user.pem("client-certificate", holding="certificate")
        key = user.pem("client-key", holding="private key")
        if bool(certificate) != bool(key):
            missing = "client-key" if certificate else "client-certificate"
            raise user.wrong(missing, "is missing, but its counterpart is given")
        token, token_file = user.text("token"), self._token_file()
        username = user.text("username")
        if username and (token or token_file):
            raise user.wrong("username", "given beside a token; remove one of the two")
        plugin = self._exec_plugin()
        if plugin is not None and not allow_exec:
            raise user.wrong(
                "exec",
                f"would run {plugin.command} on the gateway, which is not allowed here; "
                "use a token or a client certificate",
            )
        return Kubeconfig(
            where=self._where,
            server=self._server(),
            server_name=cluster.text("tls-server-name"),
            insecure=insecure,
            authority=authority.read_bytes() if isinstance(authority, Path) else authority,
            proxy_url=self._proxy_url(),
            certificate=certificate,
            key=key,
            token=token,
            token_file=token_file,
            username=username,
            password=user.text("password"),
            exec_plugin=plugin,
            auth_provider=self._auth_provider(),
            impersonation=self._impersonation(),
        )

    def _server(self) -> str:
        server = self._cluster.text("server").rstrip("/")
        if not server:
            raise self._cluster.wrong("server", "is missing; give the API server's URL")
        if "://" not in server:
            server = "https://" + server
        try:
            parts = urlsplit(server)
            _ = parts.port
        except ValueError as error:
            raise self._cluster.wrong("server", f"{server} is no URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._cluster.wrong("server", f"{server} is no http or https URL")
        return server

    def _proxy_url(self) -> str:
        url = self._cluster.text("proxy-url")
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise self._cluster.wrong("proxy-url", f"{url} is no http or https proxy")
        return url

    def _token_file(self) -> Path | None:
        # Not to be inlined: `tokenFile` has no `-data` form, and its writer rotates it.
        try:
            return self._user.path("tokenFile")
        except ConfigError as error:
            raise ConfigError(str(error).replace("tokenFile-data", "token")) from error

    def _exec_plugin(self) -> ExecPlugin | None:
        body = self._user.body.get("exec")
        if body is None:
            return None
        if not isinstance(body, dict):
            raise self._user.wrong("exec", "must be a mapping")
        spec = _Entry(f"{self._user.where}: exec", self._user.directory, body)
        command = spec.text("command")
        if not command:
            raise spec.wrong("command", "is missing")
        if os.sep in command and not os.path.isabs(command):
            if spec.directory is None:
                raise spec.wrong("command", f"{command} is relative; use an absolute path")
            command = str(spec.directory / command)
        api_version = spec.text("apiVersion")
        if api_version not in _EXEC_VERSIONS:
            raise spec.wrong(
                "apiVersion", f'"{api_version}" is not one of {", ".join(_EXEC_VERSIONS)}'
            )
        if spec.text("interactiveMode") == "Always":
            raise spec.wrong("interactiveMode", "Always needs a terminal, and a gateway has none")
        env, args = spec.items("env"), spec.items("args")
        if not all(isinstance(pair, dict) and {"name", "value"} <= pair.keys() for pair in env):
            raise spec.wrong("env", "must be a list of name and value pairs")
        return ExecPlugin(
            command=command,
            args=tuple(map(str, args)),
            env={str(pair["name"]): str(pair["value"]) for pair in env},
            api_version=api_version,
            install_hint=spec.text("installHint"),
            cluster=self._cluster_info() if body.get("provideClusterInfo") else None,
        )

    def _cluster_info(self) -> dict[str, Any]:
        """The `spec.cluster` of an ExecCredential."""
        cluster = self._cluster
        authority = cluster.pem("certificate-authority", holding="certificate")
        raw = authority.read_bytes() if isinstance(authority, Path) else authority
        info: dict[str, Any] = {"server": self._server()}
        if raw:
            info["certificate-authority-data"] = base64.b64encode(raw).decode()
        for key in ("tls-server-name", "insecure-skip-tls-verify", "proxy-url"):
            if cluster.body.get(key):
                info[key] = cluster.body[key]
        for extension in cluster.items("extensions"):
            if isinstance(extension, dict) and extension.get("name") == _EXEC_EXTENSION:
                info["config"] = extension.get("extension")
        return info

    def _auth_provider(self) -> Mapping[str, Any] | None:
        body = self._user.body.get("auth-provider")
        if body is None:
            return None
        if not isinstance(body, dict) or not body.get("name"):
            raise self._user.wrong("auth-provider", "must be a mapping with a name")
        return {
            "current-context": "member",
            "contexts": [{"name": "member", "context": {"cluster": "member", "user": "member"}}],
            "clusters": [{"name": "member", "cluster": {"server": self._server()}}],
            "users": [{"name": "member", "user": {"auth-provider": body}}],
        }

    def _impersonation(self) -> Impersonation:
        user = self._user
        extra = user.body.get("as-user-extra") or {}
        groups = user.items("as-groups")
        if not isinstance(extra, dict) or not all(isinstance(v, list) for v in extra.values()):
            raise user.wrong("as-user-extra", "must be a mapping of lists")
        impersonation = Impersonation(
            user=user.text("as"),
            uid=user.text("as-uid"),
            groups=tuple(map(str, groups)),
            extra={str(key): tuple(map(str, values)) for key, values in extra.items()},
        )
        if not impersonation.user and (impersonation.groups or extra or impersonation.uid):
            raise user.wrong("as", "is missing, but groups, uid or extra to act with are given")
        return impersonation

    def flattened(self) -> bytes:
        cluster, user = dict(self._cluster.body), dict(self._user.body)
        for entry, body, keys in (
            (self._cluster, cluster, ("certificate-authority",)),
            (self._user, user, ("client-certificate", "client-key")),
        ):
            for key in keys:
                path = None if entry.data(key) else entry.path(key)
                body.pop(key, None)
                if path is not None:
                    body[f"{key}-data"] = base64.b64encode(path.read_bytes()).decode()
        token_file = self._token_file()
        if token_file is not None:
            user["tokenFile"] = str(token_file)
        plugin = self._exec_plugin()
        if plugin is not None:
            user["exec"] = {**user["exec"], "command": plugin.command}
        name = self._context
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
        }
        return yaml.safe_dump(document, sort_keys=False).encode()
