"""One pod from its binding to its end.

The worker is a loop over the present state: read the pod, see what its containers do, take the
next steps, write the status if it changed, sleep until something happens. Everything that happens
– a process ends, a ConfigMap appears, the pod is deleted – only wakes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from virtualnode.conditions import seconds, stamp
from virtualnode.kubelet import environment, lifecycle, status, volumes
from virtualnode.kubelet.attending import Attendant, grace_s
from virtualnode.kubelet.hosts import hosts_file
from virtualnode.kubelet.lifecycle import Alive, Ended, Run, Waiting
from virtualnode.kubelet.references import CONFIG_MAP, Lacking, Ref, Refused, Subject, references
from virtualnode.objects import key_of
from virtualnode.resources import CONFIG_MAPS, ENDPOINT_SLICES, NODES, PODS, SECRETS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from virtualnode.events import Recorder
    from virtualnode.kubelet.runtime import Running, Runtime, Sandbox
    from virtualnode.objects import Key, Objects

Object = dict[str, Any]
COMPONENT: Final = "kubelet"
BACKOFF_S: Final = 10.0
_STOP_GRACE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every worker of a cluster uses. `backoff_s` is the first delay of a container that
    keeps ending."""

    objects: Objects
    runtime: Runtime
    recorder: Recorder
    now: Callable[[], datetime]
    host_address: str
    backoff_s: float = BACKOFF_S


class Worker:
    """Runs one pod, by key and uid: another pod of the same name is another worker's."""

    def __init__(self, key: Key, uid: str, around: Surroundings) -> None:
        self.key = key
        self.uid = uid
        self.sandbox: Sandbox | None = None
        self.running: dict[str, Running] = {}
        self.runs: dict[str, Run] = {}
        self.wants: frozenset[Ref] = frozenset()
        self._around = around
        self._woken = asyncio.Event()
        self._volumes = volumes.Volumes()
        self._started = ""
        self._verdict = ("", "")  # reason and message of a pod that the kubelet itself failed
        self._outcome = ""
        self._ending_since = 0.0
        self._told: set[tuple[str, str]] = set()
        self._stopping: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None

    def wake(self) -> None:
        """Something may have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Until the pod is gone. Whatever happens, nothing of it runs afterwards."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await self._loop()
                raise _Done
        except* _Done:
            pass
        finally:
            if self.sandbox is not None:
                await self.sandbox.close()

    async def _loop(self) -> None:
        while True:
            self._woken.clear()
            pod = self._around.objects.get(PODS, *self.key)
            if pod is None or pod["metadata"]["uid"] != self.uid:
                return
            self._know(pod)
            if pod["metadata"].get("deletionTimestamp"):
                wake = await self._end(pod)
                if wake is None:
                    return
            else:
                wake = await self._advance(pod)
            await self._sleep_until(wake)

    async def _sleep_until(self, wake: float | None) -> None:
        if wake is None:
            await self._woken.wait()
            return
        delay_s = max(wake - self._now(), 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._woken.wait()

    def _now(self) -> float:
        return self._around.now().timestamp()

    def _know(self, pod: Object) -> None:
        """First sight of the pod, or another one."""
        spec = pod["spec"]
        self.wants = references(pod)
        first = Waiting("PodInitializing" if spec.get("initContainers") else "ContainerCreating")
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            self.runs.setdefault(container["name"], Run(first))
        self._started = self._started or stamp(self._around.now())

    # -- towards running

    async def _advance(self, pod: Object) -> float | None:
        """Take the next steps of a pod that is to run; when to look again."""
        if self._outcome or pod["status"].get("phase") in ("Succeeded", "Failed"):
            await self._stop_all(grace_s=0)
            return None
        overdue = self._overdue(pod)
        if overdue is not None and overdue <= self._now():
            await self._fail(
                pod,
                "DeadlineExceeded",
                "Pod was active on the node longer than the specified deadline",
            )
            return None
        if not self._prepare(pod):
            await self._write(pod, "Pending")
            return overdue
        self._name_hosts(pod)
        steps = lifecycle.next_steps(pod, self.runs, now=self._now())
        for name in steps.start:
            await self._start(pod, name)
        for name in steps.stop:
            self.stop(name, grace_s=grace_s(pod))
        if steps.start:  # one that could not be started may change what is next
            steps = lifecycle.next_steps(pod, self.runs, now=self._now())
            if any(isinstance(self.runs[name].state, Ended) for name in steps.start):
                self.wake()  # it may be tried again at once
        phase = lifecycle.phase(pod, self.runs, steps)
        if steps.finished:
            self._outcome = steps.finished
        await self._write(pod, phase)
        return min((each for each in (overdue, steps.wake) if each is not None), default=None)

    def _overdue(self, pod: Object) -> float | None:
        limit_s = pod["spec"].get("activeDeadlineSeconds")
        started = seconds(self._started)
        return None if limit_s is None or started is None else started + float(limit_s)

    async def _fail(self, pod: Object, reason: str, message: str) -> None:
        self._verdict = (reason, message)
        self._outcome = "Failed"
        self.tell(pod, reason, message, warning=True)
        await self._stop_all(grace_s=grace_s(pod))
        await self._write(pod, "Failed")

    def _prepare(self, pod: Object) -> bool:
        """Have a sandbox with all volumes; False while something is missing."""
        try:
            resolved = volumes.resolve(self._subject(pod), self._lookup)
            if self.sandbox is None:
                namespace, name = self.key
                self.sandbox = self._around.runtime.sandbox(
                    namespace=namespace, name=name, uid=self.uid, hostname=hostname(pod)
                )
            for volume in set(resolved.empty) - set(self._volumes.empty):
                self.sandbox.empty(volume)
            for volume, files in resolved.files.items():
                if files != self._volumes.files.get(volume):
                    self.sandbox.publish(volume, files)
            self._volumes = resolved
        except Lacking as missing:
            if self.sandbox is not None:
                return True  # what was there stays as it was
            self.tell(pod, "FailedMount", str(missing), warning=True)
            return False
        except (Refused, OSError) as refused:
            reason = "VolumeRefused" if isinstance(refused, Refused) else "FailedCreatePodSandBox"
            self._hold_all(reason, str(refused))
            self.tell(pod, reason, str(refused), warning=True)
            return False
        return True

    def _hold_all(self, reason: str, message: str) -> None:
        for name, run in self.runs.items():
            if isinstance(run.state, Waiting):
                self.runs[name] = replace(run, state=Waiting(reason, message))

    def _name_hosts(self, pod: Object) -> None:
        if self.sandbox is None:
            return
        objects, namespace = self._around.objects, self.key[0]
        services = {s["metadata"]["name"]: s for s in objects.list(SERVICES, namespace)}
        self.sandbox.name_hosts(
            hosts_file(
                pod,
                address=self.sandbox.address,
                hostname=hostname(pod),
                services=services,
                slices=objects.list(ENDPOINT_SLICES, namespace),
            )
        )

    async def _start(self, pod: Object, name: str) -> None:
        container = _container(pod, name)
        sandbox = self.sandbox
        assert sandbox is not None
        run = self.runs[name]
        if isinstance(run.state, Ended):
            run = run.restarting()
        why = self._around.runtime.refusal(container)
        if why:
            self._wait(pod, name, run, "CreateContainerConfigError", why)
            return
        try:
            env = environment.variables(self._subject(pod), container, self._lookup)
            mounts = volumes.mounts(container, self._volumes, env)
        except (Lacking, Refused) as error:
            self._wait(pod, name, run, "CreateContainerConfigError", str(error))
            return
        begun = self._now()
        try:
            running = await sandbox.start(
                name,
                attempt=run.restarts,
                argv=environment.command(container, env),
                env=env,
                cwd=container.get("workingDir") or "",
                mounts=mounts,
                message_path=container.get("terminationMessagePath") or "/dev/termination-log",
                stdin=bool(container.get("stdin")),
                tty=bool(container.get("tty")),
            )
        except OSError as error:
            text = error.strerror or str(error)
            self.tell(
                pod, "Failed", f"Error: failed to start container {name}: {text}", warning=True
            )
            ended = Ended(128, 0, begun, self._now(), "StartError", text)
            self.runs[name] = run.ended(ended, base_s=self._around.backoff_s)
            return
        self.running[name] = running
        started = not container.get("startupProbe")
        ready = started and not container.get("readinessProbe")
        self.runs[name] = replace(run, state=Alive(begun), started=started, ready=ready)
        self.tell(pod, "Started", f"Started container {name}", again=True)
        assert self._tasks is not None
        self._tasks.create_task(self._attend(pod, container, running), name=f"container {name}")

    def _wait(self, pod: Object, name: str, run: Run, reason: str, message: str) -> None:
        self.runs[name] = replace(run, state=Waiting(reason, message))
        self.tell(pod, "Failed", f"Error: {message}", warning=True)

    async def _attend(self, pod: Object, container: Object, running: Running) -> None:
        """Follow one run of a container to its end."""
        name = container["name"]
        try:
            code, number = await Attendant(self, pod, container).follow(running)
        finally:
            if self.running.get(name) is running:
                del self.running[name]
        run = self.runs[name]
        since = run.state.since if isinstance(run.state, Alive) else self._now()
        message = await self._last_words(container, running, failed=code != 0)
        reason = "Completed" if code == 0 else "Error"
        ended = Ended(code, number, since, self._now(), reason, message)
        self.runs[name] = run.ended(ended, base_s=self._around.backoff_s)
        self._stopping.discard(name)
        if code != 0 and self.runs[name].hold > self._now():
            text = f"Back-off restarting failed container {name} in pod {self.key[1]}"
            self.tell(pod, "BackOff", text, warning=True, again=True)
        self.wake()

    async def _last_words(self, container: Object, running: Running, *, failed: bool) -> str:
        assert self.sandbox is not None
        message = self.sandbox.termination_message(container["name"])
        policy = container.get("terminationMessagePolicy")
        if message or not failed or policy != "FallbackToLogsOnError":
            return message
        lines = [
            piece
            async for piece in running.log.read(
                follow=False,
                timestamps=False,
                tail_lines=80,
                since=None,
                limit_bytes=None,
                stream="",
            )
        ]
        return b"".join(lines)[-2048:].decode(errors="replace")

    # -- towards the end

    async def _end(self, pod: Object) -> float | None:
        """End a pod in deletion; None once it is gone, else when to look again."""
        # Counted from here: the time in the object has whole seconds alone.
        self._ending_since = self._ending_since or self._now()
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        deadline = self._ending_since + grace
        alive = [name for name, run in self.runs.items() if isinstance(run.state, Alive)]
        if alive and self._now() < deadline:
            for name in alive:
                self.stop(name, grace_s=deadline - self._now())
            await self._write(pod, self._phase(pod))
            return deadline
        if alive:
            for name in alive:
                if name in self.running:
                    await self.running[name].signal(signal.SIGKILL)
            return self._now() + _STOP_GRACE_S
        if self._outcome or self.sandbox is not None:
            await self._write(pod, self._phase(pod))
        await self._around.objects.delete(PODS, self.key, uid=self.uid, grace_s=0)
        left = self._around.objects.get(PODS, *self.key)
        if left is None or left["metadata"]["uid"] != self.uid:
            return None
        return self._now() + 3600.0  # a finalizer of somebody's holds it: it wakes us when it goes

    def _phase(self, pod: Object) -> str:
        """The phase of a pod that ends: what its containers came to."""
        if self._outcome:
            return self._outcome
        main = [self.runs[name] for name in lifecycle.names(pod["spec"], "containers")]
        if any(isinstance(run.state, Alive) for run in main):
            return "Running"
        codes = [run.state.code for run in main if isinstance(run.state, Ended)]
        if len(codes) < len(main):
            return "Failed" if codes else "Pending"
        return "Failed" if any(codes) else "Succeeded"

    def stop(self, name: str, *, grace_s: float) -> None:
        """Ask a container to end, and kill it after `grace_s`."""
        running = self.running.get(name)
        if running is None or name in self._stopping:
            return
        self._stopping.add(name)
        assert self._tasks is not None
        self._tasks.create_task(self._stopped(name, running, grace_s), name=f"stop {name}")

    async def _stopped(self, name: str, running: Running, grace_s: float) -> None:
        deadline_s = asyncio.get_running_loop().time() + max(grace_s, 0)
        pod = self._around.objects.get(PODS, *self.key)
        if pod is not None and pod["metadata"]["uid"] == self.uid:
            self.tell(pod, "Killing", f"Stopping container {name}")
            if grace_s > 0:
                await Attendant(self, pod, _container(pod, name)).before_stop(grace_s)
        await running.signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                await running.wait()
                return
        await running.signal(signal.SIGKILL)

    async def _stop_all(self, *, grace_s: float) -> None:
        for name in tuple(self.running):
            self.stop(name, grace_s=grace_s)
        for running in tuple(self.running.values()):
            await running.wait()
        # the tasks that follow the runs write down how they ended
        while any(isinstance(run.state, Alive) for run in self.runs.values()):
            self._woken.clear()
            await self._woken.wait()

    # -- telling

    async def _write(self, pod: Object, phase: str) -> None:
        reason, message = self._verdict
        address = self.sandbox.address if self.sandbox is not None else ""
        around = self._around

        def settle(fresh: Object) -> Object | None:
            seen = status.Seen(
                phase=phase,
                runs=self.runs,
                address=address,
                host_address=around.host_address,
                started=self._started,
                reason=reason,
                message=message,
                runtime=around.runtime.name,
            )
            return {**fresh, "status": status.pod_status(fresh, seen, now=around.now())}

        await around.objects.change(PODS, self.key, settle, uid=self.uid)

    def tell(
        self, pod: Object, reason: str, message: str, *, warning: bool = False, again: bool = False
    ) -> None:
        """Record an event; what repeats while nothing changes is told once unless `again`."""
        if not again and (reason, message) in self._told:
            return
        self._told.add((reason, message))
        self._around.recorder.record(pod, reason, message, component=COMPONENT, warning=warning)

    # -- looking things up

    def _lookup(self, ref: Ref) -> Object | None:
        resource = CONFIG_MAPS if ref.kind == CONFIG_MAP else SECRETS
        return self._around.objects.get(resource, self.key[0], ref.name)

    def _subject(self, pod: Object) -> Subject:
        node = self._around.objects.get(NODES, "", pod["spec"].get("nodeName", ""))
        return Subject(
            pod,
            address=self.sandbox.address if self.sandbox is not None else "",
            host_address=self._around.host_address,
            allocatable=(node or {}).get("status", {}).get("allocatable"),
        )


class _Done(Exception):
    """The pod is gone: its tasks end."""


def hostname(pod: Object) -> str:
    """What a pod calls itself: its `hostname`, else its name, at most 63 characters."""
    return str(pod["spec"].get("hostname") or key_of(pod)[1])[:63].rstrip("-.")


def _container(pod: Object, name: str) -> Object:
    spec = pod["spec"]
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        if container["name"] == name:
            found: Object = container
            return found
    raise LookupError(f"pod {key_of(pod)} has no container {name}")
