"""Requests from a file, sent to any API server, with answers in a form that can be compared.

What a server chooses itself is masked: uids, times, revisions, tokens, generated names; field
managers are left out. Both the recorded contract here and the differential test against a real
kube-apiserver go through this module.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import orjson
import yaml

from fleet.apiserver.controllers import Controllers
from fleet.apiserver.outgoing import error_response
from fleet.errors import ApiError
from fleet.gateway import own
from fleet.kube.wire import Request, Response, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from fleet.apiserver.kernel import Kernel
    from fleet.apiserver.writing import Admission
    from fleet.store.backend import Backend

    Query = tuple[tuple[str, str], ...]

HERE = Path(__file__).parent
RECORDED = HERE / "answers.json"
PLAIN, CONTROLLED = "requests.yaml", "definitions.yaml"
JSON = "application/json"

_REFERENCE = re.compile(r"\$\{([^}]+)\}")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_REVISION = re.compile(r"\b\d{1,20}\b")
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_TIMES = frozenset({"creationTimestamp", "deletionTimestamp", "lastTransitionTime"})


@dataclass(frozen=True)
class Step:
    """One request of the file."""

    method: str
    target: str
    body: Any = None
    raw: str | None = None
    content_type: str = ""
    accept: str = JSON
    name: str = ""
    same: str = ""
    head: bool = False
    generated: tuple[str, ...] = ()
    differs: str = ""
    until: str = ""

    @classmethod
    def of(cls, row: dict[str, Any]) -> Step:
        method, target = row.pop("send").split(" ", 1)
        return cls(
            method=method,
            target=target,
            body=row.pop("body", None),
            raw=row.pop("raw", None),
            content_type=row.pop("type", ""),
            accept=row.pop("accept", JSON),
            name=row.pop("as", ""),
            same=row.pop("same", ""),
            head=row.pop("head", False),
            generated=tuple(row.pop("generated", ())),
            differs=row.pop("differs", ""),
            until=row.pop("until", ""),
            **row,
        )

    def __str__(self) -> str:
        text = f"{self.method} {self.target}"
        if self.raw is not None:
            return f"{text} {self.raw!r}"
        return f"{text} {json.dumps(self.body)}" if self.body is not None else text


@dataclass(frozen=True)
class Answer:
    """What came back. `headers` are lower case; only those that a client goes by."""

    status: int
    body: Any
    content_type: str = ""
    warnings: tuple[str, ...] = ()


class Send(Protocol):
    """Makes one request; paths and query values are not percent-encoded."""

    async def __call__(
        self, method: str, path: str, query: Query, headers: dict[str, str], body: bytes
    ) -> Answer: ...


ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))


class Api:
    """A kernel of the fleet's own kinds over an open store."""

    def __init__(self, store: ObjectStore, kernel: Kernel) -> None:
        self.store = store
        self.kernel = kernel

    async def send(
        self, method: str, path: str, query: Query, headers: dict[str, str], body: bytes
    ) -> Answer:
        request = Request(method, path, tuple(query), headers=headers, body=body, user=ADMIN)
        try:
            response = await self.kernel.handle(request)
        except ApiError as error:
            response = error_response(error)
        except Exception as error:
            return Answer(500, repr(error))
        content_type = {key.lower(): value for key, value in response.headers.items()}
        return Answer(
            response.status,
            _parsed(await _whole(response)),
            content_type=content_type.get("content-type", ""),
            warnings=response.warnings,
        )

    async def call(
        self, method: str, target: str, body: Any = None, content_type: str = JSON, **headers: str
    ) -> Answer:
        """`send` with everything in one text and a body to encode."""
        url = urlsplit(target)
        raw = b"" if body is None else orjson.dumps(body)
        sent = {"accept": JSON, **headers}
        if raw:
            sent["content-type"] = content_type
        query = tuple(parse_qsl(url.query, keep_blank_values=True))
        return await self.send(method, url.path, query, sent, raw)

    async def must(self, method: str, target: str, body: Any = None, **options: Any) -> Any:
        """The body of an answer that is no error."""
        answer = await self.call(method, target, body, **options)
        assert answer.status < 300, f"{method} {target}: {answer}"
        return answer.body


ROOT_CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@asynccontextmanager
async def controlled(api: Api, **options: Any) -> AsyncIterator[None]:
    """The controllers of the kernel's store run, and have come to rest once."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(controllers(api, **options).run(), name="controllers")
        await at_rest(api)
        yield
        running.cancel()


def controllers(api: Api, **options: Any) -> Controllers:
    return Controllers(
        api.store,
        lambda: api.kernel.resources,
        api.kernel.writer,
        now=now,
        root_ca=ROOT_CA,
        kernel=api.kernel,
        **options,
    )


async def at_rest(api: Api) -> None:
    """Until nobody has written for many turns of the loop: over a memory backend nothing is ever
    waited for but other tasks, and they get their turns."""
    quiet = 0
    while quiet < 200:
        before = api.store.sequencer.current
        await asyncio.sleep(0)
        quiet = quiet + 1 if api.store.sequencer.current == before else 0


@asynccontextmanager
async def serving(
    backend: Backend | None = None, *, epoch: int = 1, admission: Sequence[Admission] = ()
) -> AsyncIterator[Api]:
    """A kernel as the gateway has one, with the namespaces of its first start."""
    rng = random.Random(4711)
    async with ObjectStore(backend or MemoryBackend(), Sequencer(epoch=epoch)) as store:
        await own.first_objects(store, now=now(), uid=new_uid, rng=rng)
        kernel = own.build(
            store,
            (),
            openapi=own.OwnOpenApi({}),
            now=now,
            uid=new_uid,
            rng=rng,
            admission=admission,
            server_address="127.0.0.1:6443",
        )
        yield Api(store, kernel)


def now() -> datetime:
    return datetime.now(UTC)


def new_uid() -> str:
    return str(uuid.uuid4())


async def _whole(response: Response) -> bytes:
    body = response.body
    if isinstance(body, bytes):
        return body
    if hasattr(body, "__aiter__"):
        raise AssertionError("a stream has no whole")
    return b"".join(body)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def groups(file: str) -> dict[str, list[Step]]:
    """Every group of a file, in order."""
    text = (HERE / file).read_text()
    return {
        name: [Step.of(dict(row)) for row in rows] for name, rows in yaml.safe_load(text).items()
    }


@dataclass
class Run:
    """One server going through the file."""

    send: Send
    answers: dict[str, Any] = field(default_factory=lambda: {"long": "m" * 129})

    async def take(self, step: Step) -> tuple[Answer, dict[str, Any]]:
        """Send a step; the answer, and its comparable form."""
        url = urlsplit(self._filled(step.target))
        query = tuple(parse_qsl(url.query, keep_blank_values=True))
        headers = {"accept": step.accept}
        body = b""
        if step.raw is not None:
            body = step.raw.encode()
        elif step.body is not None:
            body = json.dumps(self._filled(step.body)).encode()
        if body or step.content_type:
            headers["content-type"] = step.content_type or JSON
        answer = await self.send(step.method, url.path, query, headers, body)
        while step.until and step.until not in json.dumps([answer.status, answer.body]):
            await asyncio.sleep(0.01)
            answer = await self.send(step.method, url.path, query, headers, body)
        if step.name:
            self.answers[step.name] = answer.body
        if step.same:
            assert answer.body == self.answers[step.same], f"{step} changed something"
        return answer, comparable(answer, step)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return _REFERENCE.sub(lambda found: str(self._look_up(found[1])), value)
        if isinstance(value, dict):
            return {key: self._filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        return value

    def _look_up(self, path: str) -> Any:
        found: Any = self.answers
        for part in path.split("."):
            found = found[part]
        return found


def comparable(answer: Answer, step: Step) -> dict[str, Any]:
    """What two servers must agree on."""
    if step.head:
        reason = answer.body.get("reason") if isinstance(answer.body, dict) else None
        return {"status": answer.status, "reason": reason}
    masked = mask(_same_shape(answer.body))
    text = json.dumps(masked, sort_keys=True)
    for prefix in step.generated:
        text = re.sub(re.escape(prefix) + _SUFFIX, prefix + "<suffix>", text)
    return {
        "status": answer.status,
        "type": answer.content_type,
        "warnings": sorted(answer.warnings),
        "body": json.loads(text),
    }


def _same_shape(body: Any) -> Any:
    """Our items say their kind, which no client minds; upstream tells some faults twice."""
    if not isinstance(body, dict):
        return body
    if (body.get("metadata") or {}).get("continue") == "":  # custom resources alone say it
        body = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "continue"}}
    if isinstance(items := body.get("items"), list):
        named = ("kind", "apiVersion")
        items = [{k: v for k, v in item.items() if k not in named} for item in items]
        return {**body, "items": items}
    if isinstance(details := body.get("details"), dict) and "causes" in details:
        once = {(c.get("field", ""), c["message"]): c for c in details["causes"]}
        causes = [once[key] for key in sorted(once)]
        message = _in_order(body["message"], [f"{field}: {said}" for field, said in sorted(once)])
        return {**body, "message": message, "details": {**details, "causes": causes}}
    return body


def _in_order(message: str, causes: list[str]) -> str:
    """A message that lists exactly these causes, listing them in their order.

    Upstream walks the properties of a custom resource in an order of chance.
    """
    head, opened, listed = message.partition(": [")
    same = opened and sorted(f"{', '.join(causes)}]") == sorted(listed)
    return f"{head}: [{', '.join(causes)}]" if same else message


def mask(value: Any, key: str = "") -> Any:
    """`value` without what a server chooses by itself."""
    if isinstance(value, dict):
        return {k: mask(v, k) for k, v in value.items() if k != "managedFields"}
    if isinstance(value, list):
        return [mask(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if key == "resourceVersion" and value:
        return "<revision>"
    if key == "continue" and value:
        return "<token>"
    if key in _TIMES:
        return "<time>"
    text = _UID.sub("<uid>", value)
    if key == "message":
        text = re.sub(r' in scheme "[^"]*"', "", text)
        text = _TIME.sub("<time>", text)
        if "ResourceVersion in" in text:
            text = _REVISION.sub("<revision>", text)
    return text


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two comparable values differ, a line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            here = f"{path}.{key}" if path else key
            if key not in ours:
                yield f"{here}: missing, should be {theirs[key]!r}"
            elif key not in theirs:
                yield f"{here}: {ours[key]!r}, should not be there"
            else:
                yield from differences(ours[key], theirs[key], here)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r}, should be {theirs!r}"
