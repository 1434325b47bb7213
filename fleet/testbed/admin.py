"""The few requests that the testbed itself sends to a member, as its admin.

Not a client library: readiness, creating nodes, a watch of metadata for the gatekeeper. A failure
is a TestbedError with the method, the path and the server's own words.
"""

from __future__ import annotations

import json
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from fleet.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def ssl_context(*, ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(str(cert), str(key))
    return context


class AdminClient:
    """Requests to one API server; a session must be open (`connect`)."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, server: str, tls: ssl.SSLContext, *, timeout_s: float = 10
    ) -> AsyncIterator[AdminClient]:
        connector = aiohttp.TCPConnector(ssl=tls, limit=64)
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield cls(server, session)

    async def ready(self) -> str:
        """Empty when `/readyz` is ok, else why it is not."""
        try:
            async with self._session.get(f"{self._server}/readyz") as response:
                text = await response.text()
                return "" if response.status == 200 else f"/readyz says {response.status}: {text}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"

    async def get(
        self,
        path: str,
        *,
        accept: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | None:
        """The object or list at `path`; None when it does not exist."""
        return await self._call("GET", path, headers={"Accept": accept}, params=params, absent=404)

    async def create(self, path: str, body: Mapping[str, Any]) -> bool:
        """POST `body`; False when it exists already."""
        return await self._call("POST", path, json=body, absent=409) is not None

    async def merge_patch(self, path: str, body: Mapping[str, Any]) -> bool:
        """PATCH the object at `path`; False when it does not exist."""
        headers = {"Content-Type": "application/merge-patch+json"}
        done = await self._call("PATCH", path, data=json.dumps(body), headers=headers, absent=404)
        return done is not None

    async def watch(
        self, path: str, *, accept: str, params: Mapping[str, str]
    ) -> AsyncIterator[dict[str, Any]]:
        """Watch events of one connection; ends when the server ends it."""
        async with self._session.get(
            f"{self._server}{path}",
            params={**params, "watch": "true"},
            headers={"Accept": accept},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=600),
        ) as response:
            await _check(response, "WATCH", path)
            buffer = bytearray()
            async for chunk in response.content.iter_any():
                buffer += chunk
                *lines, rest = buffer.split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    yield json.loads(line)

    async def _call(
        self, method: str, path: str, *, absent: int, **options: Any
    ) -> dict[str, Any] | None:
        async with self._session.request(method, f"{self._server}{path}", **options) as response:
            if response.status == absent:
                return None
            await _check(response, method, path)
            found: dict[str, Any] = await response.json()
            return found


async def _check(response: aiohttp.ClientResponse, method: str, path: str) -> None:
    if response.status >= 400:
        text = (await response.text())[:500]
        raise TestbedError(f"{method} {path} answered {response.status}: {text}")
