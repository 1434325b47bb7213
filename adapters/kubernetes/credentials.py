"""The credential of the moment: what goes into the Authorization header and the TLS context.

Files are read again when they may have been replaced, plugins run again when what they gave
expires; a member's 401 forces both. A TLS context is built once for each version of what goes
into it. Loading is shared: of many requests that need a new credential one gets it, the others
wait for it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.kubernetes import plugins, tls
from fleet.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from adapters.kubernetes.kubeconfig import Kubeconfig

log = logging.getLogger(__name__)

_FILES_FOR = timedelta(seconds=10)
_FAILURE_FOR = timedelta(seconds=3)
_EARLY = timedelta(seconds=15)
_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Credential:
    """One version. Equal parts make equal credentials, whatever they were read from."""

    authorization: str
    tls: ssl.SSLContext | None
    """None for a plain http server."""
    expires_at: datetime | None
    """When the client certificate or the plugin's credential ends, where that is known."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class Credentials:
    """Gives the credential of `kubeconfig`; raises ConfigError when none can be made."""

    def __init__(self, kubeconfig: Kubeconfig, *, now: Callable[[], datetime] = utc_now) -> None:
        self._kubeconfig = kubeconfig
        self._now = now
        self._current: Credential | None = None
        self._pair = (b"", b"")
        self._loaded = self._until = datetime.min.replace(tzinfo=UTC)
        self._error: ConfigError | None = None
        self._error_until = self._until
        self._loading: asyncio.Future[None] | None = None

    @property
    def expires_at(self) -> datetime | None:
        """When the last credential ends, where that is known."""
        return self._current.expires_at if self._current else None

    async def current(self) -> Credential:
        """The credential to use now."""
        while True:
            now = self._now()
            if self._current is not None and now < self._until:
                return self._current
            if self._error is not None and now < self._error_until:
                raise ConfigError(str(self._error))
            if self._loading is None:
                return await self._load(now)
            await asyncio.wait({self._loading})

    async def renewed(self, refused: Credential) -> Credential:
        """The credential after the member refused `refused`: read anew, perhaps the same."""
        now = self._now()
        if self._current == refused and now - self._loaded >= _FAILURE_FOR:
            self._until = now
        return await self.current()

    async def _load(self, now: datetime) -> Credential:
        self._loading = loading = asyncio.get_running_loop().create_future()
        try:
            issued, until = await self._issue(now)
            current = self._credential(issued)
        except ConfigError as error:
            last = self._current
            if last is not None and (last.expires_at is None or now < last.expires_at):
                log.warning("%s; the last one is used on", error)
                self._until = now + _FAILURE_FOR
                return last
            self._error, self._error_until = error, now + _FAILURE_FOR
            raise
        else:
            self._current, self._until, self._loaded, self._error = current, until, now, None
            return current
        finally:
            self._loading = None
            loading.set_result(None)

    async def _issue(self, now: datetime) -> tuple[plugins.Issued, datetime]:
        """What there is to present, and until when it need not be looked at again."""
        config = self._kubeconfig
        if config.exec_plugin is not None:
            issued = await plugins.run(config.exec_plugin, where=config.where)
            if not issued.certificate and config.certificate:
                files = self._read()
                issued = replace(issued, certificate=files.certificate, key=files.key)
        elif config.auth_provider is not None:
            issued = await plugins.from_provider(config.auth_provider, where=config.where)
            return issued, now + timedelta(minutes=5)
        else:
            return self._read(), now + _FILES_FOR if self._from_files else _FOREVER
        until = _FOREVER if issued.expires_at is None else issued.expires_at - _EARLY
        # A plugin that hands out what has all but expired must not be run for every request.
        return issued, max(until, now + _FAILURE_FOR)

    @property
    def _from_files(self) -> bool:
        config = self._kubeconfig
        return config.token_file is not None or any(
            isinstance(part, Path) for part in (config.certificate, config.key)
        )

    def _read(self) -> plugins.Issued:
        config = self._kubeconfig
        certificate = self._bytes(config.certificate, "client-certificate")
        key = self._bytes(config.key, "client-key")
        token = config.token
        if config.token_file is not None:
            read = self._bytes(config.token_file, "tokenFile").decode(errors="replace").strip()
            if not read and not token:
                raise ConfigError(f"{config.where}: tokenFile: {config.token_file} is empty")
            token = read or token
        if token:
            authorization = f"Bearer {token}"
        elif config.username:
            pair = f"{config.username}:{config.password}".encode()
            authorization = f"Basic {base64.b64encode(pair).decode()}"
        else:
            authorization = ""
        return plugins.Issued(authorization, certificate, key)

    def _bytes(self, part: bytes | Path, key: str) -> bytes:
        if isinstance(part, bytes):
            return part
        try:
            return part.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"{self._kubeconfig.where}: {key}: {part}: {error.strerror}; "
                "it was there before: whatever rotates it must replace it in one step"
            ) from error

    def _credential(self, issued: plugins.Issued) -> Credential:
        config = self._kubeconfig
        ends = issued.expires_at
        if issued.certificate:
            last = tls.not_after(where=config.where, certificate=issued.certificate)
            ends = last if ends is None else min(ends, last)
        context = self._current.tls if self._current else None
        pair = (issued.certificate, issued.key)
        if config.server.startswith("https:") and (context is None or pair != self._pair):
            context = tls.context(
                where=config.where,
                authority=config.authority,
                insecure=config.insecure,
                certificate=issued.certificate,
                key=issued.key,
            )
        self._pair = pair
        return Credential(issued.authorization, context, ends)
