"""How the story speaks to the gateway: HTTPS with the certificate of its kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import yaml

from fleet.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_POLL_S = 0.1

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """A document and the warnings that came with it."""

    status: int
    value: Any
    warnings: tuple[str, ...]


class Refused(TestbedError):
    """The gateway's refusal, as a client reads it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class GatewayClient:
    """Calls on the gateway; an async context."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster = next(c["cluster"] for c in document["clusters"] if c["name"] == "fleet")
        user = document["users"][0]["user"]
        context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        with tempfile.TemporaryDirectory() as directory:
            pair = Path(directory, "pair.pem")
            pair.touch(mode=0o600)
            pair.write_bytes(
                base64.b64decode(user["client-certificate-data"])
                + base64.b64decode(user["client-key-data"])
            )
            context.load_cert_chain(pair)
        self.server: str = cluster["server"]
        self._session = aiohttp.ClientSession(
            self.server, connector=aiohttp.TCPConnector(ssl=context)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def ask(
        self, method: str, path: str, body: Any = None, *, accept: str = "application/json"
    ) -> Answer:
        """Raises Refused for an answer that is an error."""
        headers = {"Accept": accept}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        async with self._session.request(method, path, json=body, headers=headers) as response:
            value = await response.json(content_type=None)
            if response.status >= 400:
                raise Refused(response.status, value.get("message", str(value)))
            warnings = tuple(response.headers.getall("Warning", ()))
            return Answer(response.status, value, warnings)

    async def get(self, path: str) -> Any:
        return (await self.ask("GET", path)).value

    async def create(self, path: str, obj: Object) -> Object:
        found: Object = (await self.ask("POST", path, obj)).value
        return found

    async def text(self, path: str) -> str:
        async with self._session.get(path) as response:
            text = await response.text()
            if response.status >= 400:
                raise Refused(response.status, text)
            return text

    async def until(
        self,
        path: str,
        is_so: Callable[[Any], object],
        *,
        within_s: float,
        what: str,
    ) -> Any:
        """The document at `path` once `is_so`; raises TestbedError when it takes longer."""
        last: Any = None
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        last = await self.get(path)
                        if is_so(last):
                            return last
                    except Refused as refusal:
                        if refusal.status != 404:
                            raise
                        last = str(refusal)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise TestbedError(
                f"{what} did not happen within {within_s:g} s; last seen: {_short(last)}"
            ) from None


def _short(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("status") or value
    text = str(value)
    return text if len(text) <= 600 else text[:600] + "…"
