"""Credentials that somebody else makes: exec plugins and the older auth providers.

Protocol: client-go credential plugins, `client.authentication.k8s.io` v1 and v1beta1. A plugin
gets no terminal; what it writes to stderr is quoted, shortened, when it fails.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.kubernetes.kubeconfig import ExecPlugin

_MAX_QUOTED = 256


@dataclass(frozen=True, slots=True)
class Issued:
    """What a plugin gave. `expires_at` None: until it is refused."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires_at: datetime | None = None


async def run(plugin: ExecPlugin, *, where: str, timeout_s: float = 60.0) -> Issued:
    """Run an exec plugin. Raises ConfigError when it is missing, fails, hangs or prints no
    credential; leaves no process behind when cancelled."""
    where = f"{where}: exec: {plugin.command}"
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    told = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": orjson.dumps(told).decode()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else "; install it or fix the path"
        raise ConfigError(f"{where}: cannot be run: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise ConfigError(f"{where}: printed no credential within {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = err.decode(errors="replace").strip()[-_MAX_QUOTED:] or "nothing on stderr"
        raise ConfigError(f"{where}: exited with {process.returncode}: {said}")
    return _issued(out, api_version=plugin.api_version, where=where)


def _issued(out: bytes, *, api_version: str, where: str) -> Issued:
    try:
        credential = orjson.loads(out)
        kind, version = credential["kind"], credential["apiVersion"]
        status = credential.get("status") or {}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{where}: printed something that is no ExecCredential") from error
    if kind != "ExecCredential" or version != api_version:
        raise ConfigError(f"{where}: printed {kind} {version}, not ExecCredential {api_version}")
    token = status.get("token") or ""
    certificate = (status.get("clientCertificateData") or "").encode()
    key = (status.get("clientKeyData") or "").encode()
    if not token and not certificate:
        raise ConfigError(f"{where}: printed neither a token nor a client certificate")
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where}: printed a client certificate or its key without the other")
    expires = status.get("expirationTimestamp")
    try:
        expires_at = datetime.fromisoformat(expires) if expires else None
    except ValueError as error:
        raise ConfigError(f"{where}: expirationTimestamp {expires!r} is no time") from error
    if expires_at is not None and expires_at.tzinfo is None:
        expires_at = expires_at.replace(tzinfo=UTC)
    return Issued(f"Bearer {token}" if token else "", certificate, key, expires_at)


async def from_provider(config: Mapping[str, Any], *, where: str) -> Issued:
    """What the `kubernetes` package makes of an `auth-provider` (gcp, azure, oidc), in a thread.

    Raises ConfigError when the package is missing or the provider gives nothing.
    """
    return await asyncio.to_thread(_from_provider, config, where)


def _from_provider(config: Mapping[str, Any], where: str) -> Issued:
    where = f"{where}: auth-provider"
    try:
        from kubernetes import config as kubernetes_config
    except ImportError as error:
        raise ConfigError(
            f"{where}: needs the package `kubernetes`; install fleet-gateway[kubernetes] "
            "or use an exec plugin"
        ) from error
    try:
        client = kubernetes_config.new_client_from_config_dict(  # type: ignore[no-untyped-call]
            dict(config), persist_config=False
        )
        settings = client.configuration.auth_settings()
    except Exception as error:  # providers raise whatever their libraries do
        raise ConfigError(f"{where}: {type(error).__name__}: {error}") from error
    authorization = str((settings.get("BearerToken") or {}).get("value") or "")
    if not authorization:
        raise ConfigError(f"{where}: gave no token; log in again with its own tool")
    return Issued(authorization)
