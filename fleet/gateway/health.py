"""`/livez`, `/readyz`, `/healthz`: whether the gateway works, check by check.

`livez` says whether a restart would help, `readyz` whether to send requests here; `healthz` is
their older name for the first. A member that is down makes neither fail: its objects are served
as last seen. The text is upstream's (k8s.io/apiserver pkg/server/healthz), since probes and
conformance tests read it. What is asked is in `probes`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.errors import NotFound
from fleet.kube.wire import Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

Probe = Callable[[], "str | Awaitable[str | None] | None"]

ENDPOINTS = ("livez", "readyz", "healthz")
_HEADERS = {
    "Content-Type": "text/plain; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Check:
    """`probe` returns None when all is well, else what is wrong, in a few words for the log; or
    something to await that does."""

    name: str
    probe: Probe
    live: bool = True
    ready: bool = True


class Health:
    """The checks of one gateway, and their endpoints as a handler."""

    def __init__(self) -> None:
        self._checks: list[Check] = [Check("ping", lambda: None)]
        self._stopping = False
        self.add("shutdown", lambda: "stopping" if self._stopping else None, live=False)

    def add(self, name: str, probe: Probe, *, live: bool = True, ready: bool = True) -> None:
        """Ask `probe` whenever health is asked for: whether the gateway is `live`, whether it is
        `ready`, or both."""
        self._checks.append(Check(name, probe, live, ready))

    def stop(self) -> None:
        """Not ready from here on: the gateway is stopping."""
        self._stopping = True

    def owns(self, path: str) -> bool:
        return path.lstrip("/").partition("/")[0] in ENDPOINTS

    async def handle(self, request: Request) -> Response:
        endpoint, _, name = request.path.lstrip("/").partition("/")
        if endpoint not in ENDPOINTS:
            raise NotFound.path()
        checks = [
            check for check in self._checks if (check.ready if endpoint == "readyz" else check.live)
        ]
        if name:
            checks = [check for check in checks if check.name == name]
            if not checks:
                raise NotFound.path()
        excluded = {value for key, value in request.query if key == "exclude"}
        lines: list[str] = []
        failed = False
        for check in checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            outcome = check.probe()
            wrong = await outcome if isinstance(outcome, Awaitable) else outcome
            if wrong is None:
                lines.append(f"[+]{check.name} ok")
            else:
                failed = True
                logger.warning("%s check %s failed: %s", endpoint, check.name, wrong)
                lines.append(f"[-]{check.name} failed: reason withheld")
        lines.extend(_unknown(excluded, checks))
        what = f"{endpoint}/{name}" if name else endpoint
        if failed:
            return _text(500, [*lines, f"{what} check failed"])
        if request.param("verbose") is None:
            return Response(200, _HEADERS, b"ok")
        return _text(200, [*lines, f"{what} check passed"])


def _unknown(excluded: set[str], checks: list[Check]) -> Iterator[str]:
    unknown = sorted(excluded - {check.name for check in checks})
    if unknown:
        names = ", ".join(f'"{name}"' for name in unknown)
        yield f"warn: some health checks cannot be excluded: no matches for {names}"


def _text(status: int, lines: list[str]) -> Response:
    return Response(status, _HEADERS, ("\n".join(lines) + "\n").encode())
