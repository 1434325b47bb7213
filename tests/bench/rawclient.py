"""A blocking HTTP client over TLS that does next to nothing with what it reads.

It must not be what is measured: bodies are received into one buffer and only their end is looked
for. One connection, kept alive.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

_BUFFER = 1 << 20


class RawClient:
    """`get` answers (headers, body size on the wire); `body` holds the last body until the next."""

    def __init__(self, server: str, *, ca: Path, cert: Path, key: Path) -> None:
        parts = urlsplit(server)
        assert parts.hostname and parts.port
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(str(cert), str(key))
        context.check_hostname = False
        plain = socket.create_connection((parts.hostname, parts.port), timeout=120)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname=parts.hostname)
        self._host = f"{parts.hostname}:{parts.port}"
        self._buffer = bytearray(128 << 20)
        self._view = memoryview(self._buffer)
        self._span = (0, 0)
        self._headers: dict[str, str] = {}

    def get(self, path: str, *, accept: str = "application/json", gzip: bool = False) -> int:
        """Read the answer whole; returns its size on the wire. Raises on anything but 200."""
        head = f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: {accept}\r\n"
        head += f"Accept-Encoding: {'gzip' if gzip else 'identity'}\r\n\r\n"
        self._socket.sendall(head.encode())
        filled = 0
        while (at := self._buffer.find(b"\r\n\r\n", 0, filled)) < 0:
            filled += self._receive(filled)
        lines = bytes(self._view[:at]).decode("latin-1").split("\r\n")
        self._headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        start = at + 4
        length = self._headers.get("content-length")
        if length is not None:
            end = start + int(length)
            while filled < end:
                filled += self._receive(filled)
        else:
            while self._buffer[filled - 5 : filled] != b"0\r\n\r\n":
                filled += self._receive(filled)
        self._span = (start, filled)
        if " 200 " not in lines[0]:
            raise RuntimeError(f"{path}: {lines[0]}: {bytes(self._view[start : start + 300])!r}")
        return filled - start

    def continue_token(self) -> str:
        """The continue token of the last list; looked for in the raw bytes when it comes first,
        as the list's metadata does, and in the decoded end otherwise."""
        start, end = self._span
        if self._headers.get("content-encoding") == "gzip":
            inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
            raw = bytes(self._view[start:end])
            if "content-length" not in self._headers:
                raw = _dechunked(raw)
            head = inflate.decompress(raw, 4096)
        else:
            head = bytes(self._view[start : start + 4096])
        found = re.search(rb'"continue":"([^"]*)"', head)
        return found.group(1).decode() if found else ""

    def json(self) -> Any:
        """The last body, decoded (not part of any measurement)."""
        start, end = self._span
        raw = bytes(self._view[start:end])
        if "content-length" not in self._headers:
            raw = _dechunked(raw)
        if self._headers.get("content-encoding") == "gzip":
            raw = zlib.decompress(raw, 16 + zlib.MAX_WBITS)
        return json.loads(raw)

    def close(self) -> None:
        self._socket.close()

    def _receive(self, at: int) -> int:
        got = self._socket.recv_into(self._view[at : at + _BUFFER])
        if not got:
            raise ConnectionError("the server closed the connection")
        return got


def _dechunked(raw: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    while True:
        line = raw.index(b"\r\n", at)
        size = int(raw[at:line].split(b";")[0], 16)
        if not size:
            return b"".join(parts)
        parts.append(raw[line + 2 : line + 2 + size])
        at = line + 2 + size + 2
