"""What goes on beside one run of a container: its probes and hooks, until it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from virtualnode.kubelet.probes import Verdict, perform

if TYPE_CHECKING:
    from virtualnode.kubelet.lifecycle import Run
    from virtualnode.kubelet.runtime import Running, Sandbox

Object = dict[str, Any]
_STOP_GRACE_S: Final = 30.0


class Host(Protocol):
    """Whoever runs the pod: holds what its containers do, and is told of what is found."""

    sandbox: Sandbox | None
    runs: dict[str, Run]

    def wake(self) -> None:
        """Something of `runs` has changed."""

    def stop(self, name: str, *, grace_s: float) -> None:
        """End a container."""

    def tell(
        self, pod: Object, reason: str, message: str, *, warning: bool = False, again: bool = False
    ) -> None:
        """Record an event of the pod."""


class Attendant:
    """Attends to one run of a container."""

    def __init__(self, host: Host, pod: Object, container: Object) -> None:
        self._host = host
        self._pod = pod
        self._container = container
        self._name: str = container["name"]

    async def follow(self, running: Running) -> tuple[int, int]:
        """Probe the container until it ends; its exit code and signal."""
        async with asyncio.TaskGroup() as tasks:
            probing = tasks.create_task(self._probe(), name=f"probes of {self._name}")
            ended = await running.wait()
            probing.cancel()
        return ended

    async def before_stop(self, limit_s: float) -> None:
        """The preStop hook, which is given at most the time until the container is killed."""
        await self._hook("preStop", "FailedPreStopHook", limit_s)

    async def _probe(self) -> None:
        if not await self._hook("postStart", "FailedPostStartHook", grace_s(self._pod)):
            self._host.stop(self._name, grace_s=grace_s(self._pod))
        startup = self._container.get("startupProbe")
        if startup is not None:
            await self._ask("Startup", startup, first=False)
        async with asyncio.TaskGroup() as tasks:
            for kind, field in (("Readiness", "readinessProbe"), ("Liveness", "livenessProbe")):
                probe = self._container.get(field)
                if probe is not None:
                    tasks.create_task(self._ask(kind, probe, first=kind == "Liveness"), name=kind)

    async def _ask(self, kind: str, probe: Object, *, first: bool) -> None:
        """Ask again and again. A startup probe ends with its first success; a startup or liveness
        probe that fails for good ends the container."""
        verdict = Verdict(good=first)
        await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
        while True:
            wrong = await self._perform(probe, float(probe.get("timeoutSeconds") or 1))
            verdict = verdict.answered(not wrong, probe=probe)
            if wrong:
                text = f"{kind} probe failed: {wrong}"
                self._host.tell(self._pod, "Unhealthy", text, warning=True, again=True)
            match kind:
                case "Readiness":
                    self._note(ready=verdict.good)
                case "Startup" if verdict.good:
                    self._note(started=True, ready=not self._container.get("readinessProbe"))
                    return
                case _ if verdict.failed(probe):
                    self._give_up(kind, probe)
                    return
            await asyncio.sleep(float(probe.get("periodSeconds") or 10))

    def _note(self, **found: bool) -> None:
        run = self._host.runs[self._name]
        noted = replace(run, **found)  # type: ignore[arg-type]  # ready and started alone
        if noted != run:
            self._host.runs[self._name] = noted
            self._host.wake()

    def _give_up(self, kind: str, probe: Object) -> None:
        text = f"Container {self._name} failed {kind.lower()} probe, will be restarted"
        self._host.tell(self._pod, "Killing", text, again=True)
        own = probe.get("terminationGracePeriodSeconds")
        self._host.stop(self._name, grace_s=grace_s(self._pod) if own is None else float(own))

    async def _hook(self, field: str, reason: str, limit_s: float) -> bool:
        """Run a hook, if there is one; whether it went well."""
        hook = (self._container.get("lifecycle") or {}).get(field)
        wrong = await self._perform(hook, limit_s) if hook is not None else ""
        if wrong:
            self._host.tell(self._pod, reason, wrong, warning=True)
        return not wrong

    async def _perform(self, action: Object, timeout_s: float) -> str:
        sandbox = self._host.sandbox
        if sandbox is None:
            return "the pod has no sandbox"
        return await perform(action, self._container, sandbox, timeout_s=timeout_s)


def grace_s(pod: Object) -> float:
    """How long the containers of a pod have to end."""
    given = pod["spec"].get("terminationGracePeriodSeconds")
    return _STOP_GRACE_S if given is None else float(given)
