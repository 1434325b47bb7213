"""Probes and hooks: what a kubelet asks of a container, and what follows from the answers.

`perform` does one action – a command, an HTTP GET, a connection – and says what went wrong;
`Verdict` counts answers until a threshold is passed. gRPC probes are refused in words, as a
failure of the probe.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from virtualnode.kubelet.runtime import Sandbox

Object = dict[str, Any]

_OUTPUT_BYTES: Final = 10 << 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a probe stands: the last answer that counted, and how many like the present one came."""

    good: bool
    streak: int = 0
    last: bool | None = None

    def answered(self, ok: bool, *, probe: Object) -> Verdict:
        """After one more answer."""
        streak = self.streak + 1 if ok is self.last else 1
        needed = int(probe.get("successThreshold" if ok else "failureThreshold", 1 if ok else 3))
        good = ok if streak >= needed else self.good
        return replace(self, good=good, streak=streak, last=ok)

    def failed(self, probe: Object) -> bool:
        """Whether the probe has failed as often in a row as is too often."""
        return self.last is False and self.streak >= int(probe.get("failureThreshold", 3))


async def perform(action: Object, container: Object, sandbox: Sandbox, *, timeout_s: float) -> str:
    """Do what a probe or hook says; "" when it went well, else what went wrong."""
    try:
        async with asyncio.timeout(timeout_s):
            if (command := action.get("exec")) is not None:
                return await _execute(command.get("command") or [], container, sandbox)
            if (get := action.get("httpGet")) is not None:
                return await _get(get, container, sandbox)
            if (connect := action.get("tcpSocket")) is not None:
                return await _connect(connect, container, sandbox)
            if (sleep := action.get("sleep")) is not None:
                await asyncio.sleep(float(sleep.get("seconds", 0)))
                return ""
    except TimeoutError:
        return f"no answer within {timeout_s:g}s"
    except OSError as error:
        return str(error)
    kinds = ", ".join(sorted(action.keys() & {"grpc"})) or "nothing"
    return f"the probe says {kinds}: here it can be exec, httpGet or tcpSocket"


async def _execute(argv: list[str], container: Object, sandbox: Sandbox) -> str:
    execution = await sandbox.execute(container["name"], argv, stdin=False, tty=False)
    try:
        output = bytearray()
        async with asyncio.TaskGroup() as group:
            for end in (execution.stdout, execution.stderr):
                if end is not None:
                    group.create_task(_collect(end, output), name="output of a probe")
        code, _ = await execution.wait()
    finally:
        await execution.kill()
        execution.close()
    return "" if code == 0 else f"exit code {code}: {output.decode(errors='replace').strip()}"


async def _collect(end: Any, output: bytearray) -> None:
    while data := await end.read():
        output += data[: max(_OUTPUT_BYTES - len(output), 0)]


async def _get(get: Object, container: Object, sandbox: Sandbox) -> str:
    """Any status from 200 to 399 is good; a redirect is not followed."""
    host = get.get("host") or sandbox.address
    port = _port(get.get("port"), container)
    if (get.get("scheme") or "HTTP").upper() != "HTTP":
        return "HTTPS probes are not known here: use httpGet with scheme HTTP, exec or tcpSocket"
    path = get.get("path") or "/"
    lines = [f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1"]
    headers = {each["name"]: each["value"] for each in get.get("httpHeaders") or ()}
    headers.setdefault("Host", f"{host}:{port}")
    headers.setdefault("User-Agent", "kube-probe/1.36")
    headers["Connection"] = "close"
    lines += [f"{name}: {value}" for name, value in headers.items()]
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        first = (await reader.readline()).split(b" ", 2)
    finally:
        writer.close()
    if len(first) < 2 or not first[1].strip().isdigit():
        return "what answered does not speak HTTP"
    code = int(first[1])
    return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


async def _connect(connect: Object, container: Object, sandbox: Sandbox) -> str:
    port = _port(connect.get("port"), container)
    _, writer = await asyncio.open_connection(connect.get("host") or sandbox.address, port)
    writer.close()
    return ""


def _port(port: Any, container: Object) -> int:
    """A number, or the name of one of the container's ports. Raises OSError for any other."""
    text = str(port)
    if text.isdigit():
        return int(text)
    for each in container.get("ports") or ():
        if each.get("name") == text:
            return int(each["containerPort"])
    raise OSError(f"the container has no port named {text}")
