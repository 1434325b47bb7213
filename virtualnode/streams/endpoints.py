"""`pods/log`, `pods/exec`, `pods/attach`, `pods/portforward`: a kubelet's endpoints in the API.

What is wrong with a request is answered before anything is upgraded, in the words of upstream's
API server and kubelet.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest, Cause, Invalid, MethodNotAllowed, NotFound
from fleet.kube.wire import Response
from virtualnode.conditions import seconds
from virtualnode.kubelet.lifecycle import Alive, Waiting
from virtualnode.resources import PODS
from virtualnode.streams import channels, forwarding
from virtualnode.streams.pipe import connection
from virtualnode.streams.websocket import WebSocket, accept, is_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request
    from virtualnode.kubelet.kubelet import Kubelet
    from virtualnode.kubelet.runtime import Log, Sandbox
    from virtualnode.kubelet.worker import Worker
    from virtualnode.objects import Objects

Object = dict[str, Any]
log = logging.getLogger(__name__)

_TEXT: Final = {"content-type": "text/plain"}
_STREAMS: Final = ("All", "Stdout", "Stderr")


@dataclass(frozen=True, slots=True)
class _Place:
    """A container that has been found, and where it runs."""

    pod: Object
    container: str
    worker: Worker
    sandbox: Sandbox


class PodStreams:
    """A `fleet.apiserver.kernel.Special` for the streams of pods."""

    def __init__(
        self, objects: Objects, kubelet: Callable[[], Kubelet], *, now: Callable[[], float]
    ) -> None:
        self._objects = objects
        self._kubelet = kubelet
        self._now = now
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep sessions until cancelled; then they end."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def answer(self, request: Request, target: Target, resource: Resource) -> Response | None:
        """Raises NotFound, BadRequest, Invalid, MethodNotAllowed."""
        if resource.gvr != PODS.gvr:
            return None
        match target.subresource:
            case "log":
                return self._log(request, target)
            case "exec":
                return await self._exec(request, target)
            case "attach":
                return self._attach(request, target)
            case "portforward":
                return self._forward(request, target)
        return None

    # -- logs

    def _log(self, request: Request, target: Target) -> Response:
        wanted = _log_options(request, now=self._now())
        pod = self._pod(target)
        container = _container(pod, request.param("container"))
        if not pod["spec"].get("nodeName"):
            return Response(200, _TEXT, b"")
        worker = self._worker(target, pod)
        found = _log_of(pod, container, worker, previous=_flag(request, "previous"))
        return Response(200, _TEXT, found.read(**wanted))

    # -- connections

    async def _exec(self, request: Request, target: Target) -> Response:
        place = self._running(request, target)
        argv = [value for name, value in request.query if name == "command"]
        if not argv:
            raise BadRequest("you must specify at least one command for the container")
        tty = _flag(request, "tty")
        if not any(_flag(request, name) for name in ("stdin", "stdout", "stderr")):
            raise BadRequest("you must specify at least one of stdin, stdout, stderr")
        headers, protocol = _upgrade(request, channels.PROTOCOLS)
        failure: OSError | None = None
        execution = None
        try:
            execution = await place.sandbox.execute(
                place.container, argv, stdin=_flag(request, "stdin"), tty=tty
            )
        except OSError as error:
            failure = error

        async def session(socket: WebSocket) -> None:
            speaking = channels.Session(socket, protocol)
            if execution is not None:
                await speaking.execute(execution)
            else:
                await speaking.refuse(f"{(failure and failure.strerror) or failure}")

        return self._tunnel(headers, session, name=f"exec in {target.name}")

    def _attach(self, request: Request, target: Target) -> Response:
        place = self._running(request, target)
        running = place.worker.running[place.container]
        headers, protocol = _upgrade(request, channels.PROTOCOLS)
        live = running.log.live()
        stdin = running.stdin if _flag(request, "stdin") else None
        containers = place.pod["spec"]["containers"]
        once = any(each["name"] == place.container and each.get("stdinOnce") for each in containers)

        async def session(socket: WebSocket) -> None:
            await channels.Session(socket, protocol).attach(stdin, live, once=once)

        return self._tunnel(headers, session, name=f"attach to {target.name}")

    def _forward(self, request: Request, target: Target) -> Response:
        pod = self._pod(target)
        worker = self._worker(target, pod)
        if worker.sandbox is None or pod["status"].get("phase") != "Running":
            raise BadRequest(f"pod {target.name} is not running; its phase is {_phase(pod)}")
        ports = _ports(request)
        if not ports:
            raise MethodNotAllowed(
                "port-forward is spoken here over WebSockets with ?ports= (protocol "
                "v4.channel.k8s.io), not over SPDY or a SPDY tunnel as kubectl does; the pod's "
                f"address {worker.sandbox.address} can be reached directly from this machine"
            )
        headers, _ = _upgrade(request, forwarding.PROTOCOLS)
        address = worker.sandbox.address

        async def session(socket: WebSocket) -> None:
            await forwarding.Forwarding(socket, address=address, ports=ports).run()

        return self._tunnel(headers, session, name=f"port-forward to {target.name}")

    def _tunnel(
        self,
        headers: dict[str, str],
        session: Callable[[WebSocket], Coroutine[Any, Any, None]],
        *,
        name: str,
    ) -> Response:
        if self._tasks is None:
            raise RuntimeError("the cluster is not running")
        outer, inner = connection()

        async def keep() -> None:
            try:
                await session(WebSocket(inner))
            except* ConnectionError:
                log.debug("%s: the client is gone", name)
            except* Exception:
                log.exception("%s broke off", name)
            finally:
                await inner.close()

        self._tasks.create_task(keep(), name=name)
        return Response(101, headers, tunnel=outer)

    # -- finding

    def _pod(self, target: Target) -> Object:
        pod = self._objects.get(PODS, target.namespace, target.name)
        if pod is None:
            raise NotFound.of(group="", resource="pods", name=target.name)
        return pod

    def _worker(self, target: Target, pod: Object) -> Worker:
        worker = self._kubelet().worker((target.namespace, target.name))
        if worker is None or worker.uid != pod["metadata"]["uid"]:
            raise BadRequest(f"pod {target.name} does not have a host assigned")
        return worker

    def _running(self, request: Request, target: Target) -> _Place:
        """The container that a connection is for. Raises BadRequest when it does not run."""
        pod = self._pod(target)
        container = _container(pod, request.param("container"))
        if not pod["spec"].get("nodeName"):
            raise BadRequest(f"pod {target.name} does not have a host assigned")
        if _phase(pod) in ("Succeeded", "Failed"):
            raise BadRequest(
                f"cannot exec into or attach to a container in a completed pod; current phase is "
                f"{_phase(pod)}"
            )
        worker = self._worker(target, pod)
        run = worker.runs.get(container)
        alive = run is not None and isinstance(run.state, Alive) and container in worker.running
        if worker.sandbox is None or not alive:
            raise BadRequest(f'container not found ("{container}"): it is not running')
        return _Place(pod, container, worker, worker.sandbox)


def _upgrade(request: Request, protocols: tuple[str, ...]) -> tuple[dict[str, str], str]:
    if not is_asked(request.headers):
        if request.headers.get("upgrade", "").lower().startswith("spdy"):
            raise MethodNotAllowed(
                "SPDY is not spoken here: use a client that speaks WebSockets (kubectl 1.31 or "
                "later does)"
            )
        raise BadRequest("Upgrade request required")
    return accept(request.headers, protocols)


def _container(pod: Object, name: str | None) -> str:
    """The container that is meant (pkg/registry/core/pod validateContainer)."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    main = [each["name"] for each in spec.get("containers") or ()]
    init = [each["name"] for each in spec.get("initContainers") or ()]
    if name:
        if name not in (*main, *init):
            raise BadRequest(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(main) == 1:
        return str(main[0])
    text = f"a container name must be specified for pod {pod_name}, choose one of: {_listed(main)}"
    if init:
        text += f" or one of the init containers: {_listed(init)}"
    raise BadRequest(text)


def _listed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"


def _log_of(pod: Object, container: str, worker: Worker, *, previous: bool) -> Log:
    """The log of the present run, or of the one before."""
    name, run = pod["metadata"]["name"], worker.runs.get(container)
    if run is None:
        raise BadRequest(f'container "{container}" in pod "{name}" is not available')
    attempt = run.restarts
    if isinstance(run.state, Waiting):
        if run.last is None and not previous:
            raise BadRequest(
                f'container "{container}" in pod "{name}" is waiting to start: {run.state.reason}'
            )
        attempt -= 1  # the present attempt has not begun
    elif previous:
        attempt -= 1
    found = worker.sandbox.log(container, attempt) if worker.sandbox is not None else None
    if found is None:
        if previous:
            raise BadRequest(
                f'previous terminated container "{container}" in pod "{name}" not found'
            )
        raise BadRequest(f'container "{container}" in pod "{name}" is waiting to start')
    return found


def _log_options(request: Request, *, now: float) -> Object:
    """PodLogOptions of the query, as `Log.read` takes them. Raises BadRequest, Invalid."""
    tail = _number(request, "tailLines", at_least=0)
    limit = _number(request, "limitBytes", at_least=1)
    since_s = _number(request, "sinceSeconds", at_least=1)
    since_text = request.param("sinceTime")
    stream = request.param("stream") or "All"
    if since_s is not None and since_text:
        raise _invalid(
            "", "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        )
    if stream not in _STREAMS:
        raise _invalid("stream", f'Unsupported value: "{stream}": supported values: {_STREAMS}')
    since = None if since_s is None else now - since_s
    if since_text:
        since = seconds(since_text)
        if since is None:
            raise BadRequest(f"sinceTime {since_text} is no RFC 3339 time")
    return {
        "follow": _flag(request, "follow"),
        "timestamps": _flag(request, "timestamps"),
        "tail_lines": tail,
        "since": since,
        "limit_bytes": limit,
        "stream": "" if stream == "All" else stream.lower(),
    }


def _number(request: Request, name: str, *, at_least: int) -> int | None:
    text = request.param(name)
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise BadRequest(f"{name} is an integer, not {text[:64]!r}") from None
    if value < at_least:
        why = "must be greater than or equal to 0" if at_least == 0 else "must be greater than 0"
        raise _invalid(name, f"Invalid value: {value}: {why}")
    return value


def _invalid(field: str, why: str) -> Invalid:
    cause = Cause("FieldValueInvalid", why, field)
    return Invalid.of(group="", kind="PodLogOptions", name="", causes=[cause])


def _flag(request: Request, name: str) -> bool:
    """As apimachinery converts a query value to a bool."""
    value = request.param(name)
    return value is not None and value.lower() not in ("", "0", "false", "f")


def _ports(request: Request) -> list[int]:
    """The ports of a port-forward; `?ports=80,443` and repeated ones. Raises BadRequest."""
    texts = [part for name, value in request.query if name == "ports" for part in value.split(",")]
    try:
        ports = [int(text) for text in texts]
    except ValueError:
        raise BadRequest(f"ports are numbers, not {texts}") from None
    if any(not 0 < port < 1 << 16 for port in ports):
        raise BadRequest(f"ports are from 1 to 65535, not {texts}")
    return ports


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))
