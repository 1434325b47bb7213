"""Dispatch over simulated members, in virtual time.

A member is a real API kernel over a store in memory, with the few controllers that a shard needs:
Jobs, a scheduler that counts pods, a kubelet that honours gates, a garbage collector. They move
when `step` is called, by a clock that tests turn. Between the fleet and a member stand faults: cut
lines, lost answers, requests that arrive twice, crashes of the gateway between two operations.

What must hold at every moment is checked as pods start: nothing starts before its commit is stored,
and no rank runs twice.
"""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from fleet.apiserver.kernel import Kernel
from fleet.apiserver.kinds import Kinds
from fleet.apiserver.writing import Writer
from fleet.dispatch import record as records
from fleet.dispatch.acting import Actor
from fleet.dispatch.bars import Bars
from fleet.dispatch.chronicle import Chronicle
from fleet.dispatch.leases import Leases, ShardKey
from fleet.dispatch.looking import Looker
from fleet.dispatch.openings import Openings
from fleet.dispatch.planning import Answer, Answered
from fleet.dispatch.premises import Premises
from fleet.dispatch.reconciler import Key, Reconciler
from fleet.dispatch.remote import Remote
from fleet.dispatch.situation import Timing
from fleet.dispatch.waiting import Waiting
from fleet.errors import FleetError, TransportError
from fleet.gateway.bills import Bills
from fleet.kube import builtin, defaults
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.blocks import on_blocks
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.lending import isolation
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from policies import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request, Response

Object = dict[str, Any]

ROWS = {
    name: builtin.resource(GroupVersionResource(group, "v1", name))
    for group, name in (
        ("", "namespaces"), ("", "pods"), ("", "configmaps"), ("", "secrets"), ("", "events"),
        ("", "serviceaccounts"), ("", "services"), ("batch", "jobs"),
        ("discovery.k8s.io", "endpointslices"), ("scheduling.k8s.io", "priorityclasses"),
        ("networking.k8s.io", "networkpolicies"),
    )
}  # fmt: skip
DEPENDENTS = (
    "pods", "configmaps", "secrets", "serviceaccounts", "services", "endpointslices",
    "networkpolicies",
)  # fmt: skip
ENDED = ("Succeeded", "Failed")
START = datetime(2026, 11, 29, tzinfo=UTC).timestamp()
TIMING = Timing(hold_s=30, hold_limit_s=60, margin_s=2)
LEASE_S = 15.0
FLEET = "f1ee7000-0000-4000-8000-000000000000"


class CrashError(BaseException):
    """The gateway's process is gone."""


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def datetime(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)


class Uids:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count:08}"


class _Documents:
    async def hashes(self) -> dict[str, str]:
        return {}

    async def document(self, path: str) -> None:
        return None


class _GlobalIndex:
    """What the policy on pods does in a member that numbers over all shards."""

    async def admit(self, resource: Resource, obj: Object, old: Object | None, user: Any) -> Object:
        annotations = obj["metadata"].get("annotations") or {}
        if resource.kind == "Pod" and old is None and "fleet.dev/index-offset" in annotations:
            local = annotations.get("batch.kubernetes.io/job-completion-index")
            if local is not None:
                index = int(annotations["fleet.dev/index-offset"]) + int(local)
                annotations["fleet.dev/global-index"] = str(index)
        return obj


class Member:
    """One simulated cluster with room for `room` pods. A `Handler`."""

    def __init__(self, name: str, number: int, clock: Clock, *, room: int, numbers: bool) -> None:
        self.name = name
        self.uid = ""
        self.room = room
        self.alive = True
        """Whether its controllers run."""
        self.faults: list[str] = []
        """One for each request to come: "", "cut", "lost", "twice"."""
        self.lingers = False
        """Whether pods that are to end take their time."""
        self.cut = False
        self.unnoticed = False
        """Whether health checks have not told yet that the line is cut."""
        self.breaks_off = ""
        """A method: the line is cut as soon as such a request was carried out."""
        self.writes: list[str] = []
        self.started: Callable[[Member, Object], None] = lambda member, pod: None
        self.operation: Callable[[], None] = lambda: None
        self.gone_unfinished: set[ShardKey] = set()
        self._number = number
        self._clock = clock
        self._uids = Uids(name)
        self._random = random.Random(number)
        self.store = ObjectStore(MemoryBackend(), Sequencer(epoch=1))
        kinds = Kinds(())
        rows = [row for row in ROWS.values() if row is not None]
        self.kernel = Kernel(
            self.store,
            rows,
            kinds=kinds,
            writer=Writer(
                self.store,
                kinds,
                now=clock.datetime,
                uid=self._uids,
                random=self._random,
                admission=(_GlobalIndex(),) if numbers else (),
                namespaces=ROWS["namespaces"],
            ),
            openapi=_Documents(),
            wall_clock=clock,
            rng=self._random,
        )

    @property
    def seems_ready(self) -> bool:
        """Whether planners take it for a cluster that answers."""
        return self.unnoticed or not self.cut

    # -- its API

    async def handle(self, request: Request) -> Response:
        self.operation()
        fault = self.faults.pop(0) if self.faults else ""
        if self.cut or fault == "cut":
            raise TransportError("the line is cut", member=self.name, sent=False)
        answer = await self._handle(request)
        if fault == "twice":
            answer = await self._handle(request)
        self.operation()
        if request.method == self.breaks_off:
            self.cut, self.breaks_off, fault = True, "", "lost"
        if fault == "lost":
            raise TransportError("the answer was lost", member=self.name)
        return answer

    async def _handle(self, request: Request) -> Response:
        before = self.store.sequencer.current
        try:
            return await self.kernel.handle(request)
        finally:
            if self.store.sequencer.current != before and request.method != "GET":
                self.writes.append(f"{request.method} {request.path}")

    # -- objects

    def all(self, kind: str) -> list[Object]:
        row = ROWS[kind]
        assert row is not None
        return [entry.parse() for entry in self.store.collection(row).snapshot().entries()]

    def find(self, kind: str, name: str, namespace: str = "payments") -> Object | None:
        row = ROWS[kind]
        assert row is not None
        entry = self.store.get(row, namespace, name)
        return entry.parse() if entry is not None else None

    async def put(self, kind: str, obj: Object) -> None:
        """Make an object, as somebody in the member would."""
        row = ROWS[kind]
        assert row is not None
        obj = {"apiVersion": row.api_version, "kind": row.kind, **obj}
        namespace = obj["metadata"].get("namespace", "")
        made = defaults.create(
            row.gvr.group, row.gvr.version, row.kind, obj, namespace=namespace,
            now=self._clock.datetime(), uid=self._uids(), random=self._random,
        )  # fmt: skip
        await self.store.create(row, made)

    async def drop(self, kind: str, obj: Object) -> None:
        """Remove an object at once; a Job takes its pods along."""
        row = ROWS[kind]
        assert row is not None
        metadata = obj["metadata"]
        entry = self.store.get(row, metadata.get("namespace", ""), metadata["name"])
        if entry is None:
            return
        if kind == "jobs":
            self._remember(entry.parse())
        await self.store.delete(
            row, namespace=entry.namespace, name=entry.name, expected=entry.revision
        )

    async def _change(self, kind: str, obj: Object) -> None:
        row = ROWS[kind]
        assert row is not None
        metadata = obj["metadata"]

        def change(present: Object) -> Object | None:
            new = {
                **obj,
                "metadata": {**metadata, "resourceVersion": present["metadata"]["resourceVersion"]},
            }
            return None if new == present else new

        await self.store.rewrite(
            row, namespace=metadata.get("namespace", ""), name=metadata["name"], change=change
        )

    def _remember(self, job: Object) -> None:
        metadata = job["metadata"]
        if not _outcome(job):
            key = ShardKey(self.name, "Job", metadata["namespace"], metadata["name"])
            self.gone_unfinished.add(key)

    def pods_of(self, job: Object) -> list[Object]:
        return [pod for pod in self.all("pods") if _owned_by(pod, job)]

    def used(self) -> int:
        return sum(
            bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ENDED
            for pod in self.all("pods")
        )

    # -- its controllers

    async def step(self) -> None:
        """One turn of everything that runs in the member."""
        if not self.alive:
            return
        for job in self.all("jobs"):
            await self._reconcile(job)
        for pod in self.all("pods"):
            if pod["metadata"].get("deletionTimestamp") and not self.lingers:
                await self.drop("pods", pod)
        await self._collect()
        await self._schedule()
        for pod in self.all("pods"):
            await self._run(pod)

    async def _reconcile(self, job: Object) -> None:
        status, spec = job.setdefault("status", {}), job["spec"]
        pods = self.pods_of(job)
        if job["metadata"].get("deletionTimestamp"):
            await self._delete(job, pods)
            return
        if _outcome(job):
            return
        status.setdefault("startTime", records.text_of(self._clock.now))
        active = [pod for pod in pods if pod["status"].get("phase") not in ENDED]
        started = datetime.fromisoformat(status["startTime"]).timestamp()
        deadline = spec.get("activeDeadlineSeconds")
        done = {_index(p) for p in pods if p["status"].get("phase") == "Succeeded"}
        failed = sum(p["status"].get("phase") == "Failed" for p in pods)
        if deadline is not None and self._clock.now - started >= deadline:
            await self._end(job, active, "Failed", "DeadlineExceeded")
        elif failed > spec.get("backoffLimit", 6):
            await self._end(job, active, "Failed", "BackoffLimitExceeded")
        elif len(done) >= spec["completions"]:
            await self._end(job, active, "Complete", "CompletionsReached")
        else:
            for pod in active:
                if _index(pod) >= spec["completions"]:
                    await self.drop("pods", pod)
            busy = {_index(pod) for pod in active if _index(pod) < spec["completions"]}
            for index in range(spec["completions"]):
                if index not in busy | done and len(busy) < spec["parallelism"]:
                    await self._make_pod(job, index)
                    busy.add(index)
        active = [pod for pod in self.pods_of(job) if pod["status"].get("phase") not in ENDED]
        status |= {
            "active": len(active),
            "ready": sum(pod["status"].get("phase") == "Running" for pod in active),
            "succeeded": len(done),
            "failed": failed,
            "completedIndexes": ",".join(map(str, sorted(done))),
        }
        await self._change("jobs", job)

    async def _end(self, job: Object, active: list[Object], kind: str, reason: str) -> None:
        for pod in active:
            await self.drop("pods", pod)
        job["status"].setdefault("conditions", []).append(
            {"type": kind, "status": "True", "reason": reason, "message": reason}
        )

    async def _delete(self, job: Object, pods: list[Object]) -> None:
        """Foreground: dependents first."""
        self._remember(job)
        dependents = [
            (kind, obj) for kind in DEPENDENTS for obj in self.all(kind) if _owned_by(obj, job)
        ]
        for kind, obj in dependents:
            others = [
                each
                for each in obj["metadata"]["ownerReferences"]
                if each["uid"] != job["metadata"]["uid"]
            ]
            if others:
                obj["metadata"]["ownerReferences"] = others
                await self._change(kind, obj)
            else:
                await self.drop(kind, obj)
        if not dependents:
            await self.drop("jobs", job)

    async def _collect(self) -> None:
        owners = {each["metadata"]["uid"] for each in (*self.all("jobs"), *self.all("pods"))}
        for kind in DEPENDENTS:
            for obj in self.all(kind):
                references = obj["metadata"].get("ownerReferences") or ()
                if references and not any(each["uid"] in owners for each in references):
                    await self.drop(kind, obj)

    async def _make_pod(self, job: Object, index: int) -> None:
        template = job["spec"]["template"]
        annotations = {
            **(template["metadata"].get("annotations") or {}),
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{job['metadata']['name']}-{index}-{self._uids()[-5:]}",
                "namespace": job["metadata"]["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": annotations,
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "name": job["metadata"]["name"],
                        "uid": job["metadata"]["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": template["spec"],
        }
        row = ROWS["pods"]
        assert row is not None
        await self.kernel.writer.make(row, pod, namespace=pod["metadata"]["namespace"], user=None)

    async def _schedule(self) -> None:
        free = self.room - self.used()
        for pod in self.all("pods"):
            if pod["spec"].get("nodeName"):
                continue
            if free > 0:
                free -= 1
                pod["spec"]["nodeName"] = "n1"
                pod["status"] = {"phase": "Pending"}
            else:
                before = next(iter(pod["status"].get("conditions") or ()), {})
                scheduled = {
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": f"0/1 nodes are available: {self.room} of {self.room} taken",
                    "lastTransitionTime": before.get("lastTransitionTime")
                    or records.text_of(self._clock.now),
                }  # fmt: skip
                pod["status"] = {"phase": "Pending", "conditions": [scheduled]}
            await self._change("pods", pod)

    async def _run(self, pod: Object) -> None:
        metadata, status = pod["metadata"], pod["status"]
        if not pod["spec"].get("nodeName") or status.get("phase") in ENDED:
            return
        annotations = metadata.get("annotations") or {}
        if status.get("phase") == "Pending":
            if any(
                self.find("configmaps", volume["configMap"]["name"]) is None
                for volume in pod["spec"].get("volumes") or ()
                if "configMap" in volume
            ):
                return
            self.started(self, pod)
            address = f"10.{self._number}.0.{int(metadata['uid'][-3:])}"
            pod["status"] = {
                "phase": "Running", "podIP": address, "startTime": records.text_of(self._clock.now),
            }  # fmt: skip
        elif annotations.get("run-for"):
            began = datetime.fromisoformat(status["startTime"]).timestamp()
            if self._clock.now - began < float(annotations["run-for"]):
                return
            failing = annotations.get("fail-rank") == annotations.get("fleet.dev/global-index")
            status["phase"] = "Failed" if failing else "Succeeded"
        await self._change("pods", pod)


def _outcome(job: Object) -> str:
    return next((c["type"] for c in (job.get("status") or {}).get("conditions") or ()), "")


def _owned_by(obj: Object, owner: Object) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == owner["metadata"]["uid"] for each in references)


def _index(pod: Object) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


class Planner:
    """Fewest clusters, by free places as it believes them; the stand-in for fleet.scheduling."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.belief: dict[str, int] = {}
        self.allowed = 2
        self.fencing = "Controller"
        self.offsets = False
        self.blocks: dict[str, list[str]] = {}
        self.per_hour: dict[str, str] = {}
        """What a shard costs in a cluster, in USD."""

    async def round(self, questions: Any, *, barred: Any) -> AsyncIterator[Answered]:
        for question in sorted(questions, key=lambda each: each.workload["metadata"]["name"]):
            yield Answered(question, await self.plan(question))

    def next_s(self) -> None:
        return None

    def lets_save(self) -> bool:
        return False

    async def plan(self, question: Any) -> Answer:
        spec, before = question.placement["spec"], question.placement.get("status") or {}
        free = {
            name: self._free(name)
            for name, member in self._fleet.members.items()
            if name not in question.barred and member.seems_ready
        }
        kept = [
            shard for shard in before.get("shards") or () if shard["cluster"] not in question.lost
        ]
        for shard in kept:
            free.pop(shard["cluster"], None)
        pods = question.workload["spec"].get("parallelism", 1)
        taken = {
            rank
            for shard in kept
            for role in shard["roles"]
            for rank in range(role["first"], role["first"] + role["count"])
        }
        gap = [rank for rank in range(pods) if rank not in taken]
        shares = self._shares(len(gap), free, self.allowed - len(kept))
        if shares is None:
            message = f"{sum(free.values())} free, needs {len(gap)}"
            return Answer(spec, {**before, "message": message}, placed=False)
        generation = before.get("generation", 0) + 1
        numbers = iter(n for n in range(9) if n not in {shard["index"] for shard in kept})
        shards, first = list(kept), gap[0]
        for cluster, count in shares:
            shards.append(
                {
                    "cluster": cluster, "index": next(numbers), "generation": generation,
                    "roles": [{"name": "worker", "first": first, "count": count}],
                    "state": "Planned",
                }
            )  # fmt: skip
            if cluster in self.blocks:
                shards[-1]["blocks"] = self.blocks[cluster]
            if cluster in self.per_hour:
                shards[-1]["perHour"] = self.per_hour[cluster]
            first += count
        shards.sort(key=lambda shard: shard["index"])
        status = {**before, "generation": generation, "shards": shards, "plane": "roce-1"}
        if self.per_hour:
            status["cost"] = {"currency": "USD"}
        return Answer(
            spec, status, placed=True, lease_s=LEASE_S, fencing=self.fencing, offsets=self.offsets
        )  # type: ignore[arg-type]

    def _free(self, name: str) -> int:
        if name in self.belief:
            return self.belief[name]
        member = self._fleet.members[name]
        promised = sum(
            shard.count
            for record in self._fleet.records().values()
            for shard in record.shards
            if shard.cluster == name and shard.state in ("Planned", "Holding")
        )
        return max(member.room - member.used() - promised, 0)

    def _shares(
        self, pods: int, free: dict[str, int], allowed: int
    ) -> list[tuple[str, int]] | None:
        best = sorted(free, key=lambda name: (-free[name], name))[: max(allowed, 0)]
        if any(free[name] >= pods for name in best):
            return [(next(n for n in best if free[n] >= pods), pods)]
        shares, left = [], pods
        for name in best:
            take = min(left, free[name])
            if take:
                shares.append((name, take))
                left -= take
        return sorted(shares) if not left else None


class MemberBooks:
    """What the simulated members have, as one node each: the books of the product's planner."""

    def __init__(self, fleet: Fleet, *, labelled: bool, plane: str) -> None:
        self._fleet = fleet
        self._labelled = labelled
        self._plane = plane

    def _accounts(self, member: Member) -> NodeAccounts:
        accounts = NodeAccounts()
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"pods": str(member.room)}, "conditions": ready}
        accounts.upsert_node({"metadata": {"name": "n1"}, "status": status})
        for pod in member.all("pods"):
            accounts.upsert_pod(pod)
        return accounts

    def clusters(self) -> list[Cluster]:
        return [
            Cluster(
                name,
                {"name": name} if self._labelled else {},
                self._accounts(member).capacity(0.0),
                parameter_plane=self._plane,
                ready=member.seems_ready,
            )
            for name, member in self._fleet.members.items()
        ]

    def saved_s(self, *, now: float) -> dict[str, float]:
        return {}

    def taken_by(self, workload: str) -> dict[str, Any]:
        return {
            name: taken
            for name, member in self._fleet.members.items()
            if (taken := self._accounts(member).taken_by(workload))
        }

    def taken_by_others(self, namespace: str) -> dict[str, Any]:
        return {}


class Fleet:
    """A gateway's dispatch over simulated members."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.members: dict[str, Member] = {}
        self.starts: list[tuple[float, str, int, int]] = []
        """(time, member, generation, rank) of every pod that began to run."""
        self.planner = Planner(self)
        self.decides: Callable[[], Any] = lambda: self.planner
        """Makes the planner of each life of the gateway."""
        self.block_labels: dict[str, str] = {}
        self.priorities: dict[str, int] = {}
        """Values of the fleet's priority classes."""
        self.crash_after: int | None = None
        self.operations = 0
        self._backend = MemoryBackend()
        self._epoch = 0
        self._clusters = Uids("cluster")
        self._uids = Uids("fleet")
        self._lives = AsyncExitStack()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Fleet:
        await self._live()
        row = ROWS["namespaces"]
        assert row is not None
        await self.store.create(
            row,
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "payments", "uid": "ns"},
            },
        )
        return self

    async def __aexit__(self, *args: object) -> None:
        await self._lives.aclose()
        await self._stack.aclose()

    async def join(self, name: str, *, room: int, numbers: bool = True) -> Member:
        member = Member(name, len(self.members) + 1, self.clock, room=room, numbers=numbers)
        await self._stack.enter_async_context(member.store)
        member.uid = self._clusters()
        member.started = self._check_start
        member.operation = self._operation
        self.members[name] = member
        return member

    # -- lives of the gateway

    async def _live(self) -> None:
        """Begin a life: everything but the store is new."""
        self._epoch += 1
        self.store = await self._lives.enter_async_context(
            ObjectStore(self._backend, Sequencer(epoch=self._epoch))
        )
        events = ROWS["events"]
        assert events is not None
        leases = Leases(self.clock)
        self.bars = Bars(self.clock)
        openings = Openings(self.clock)
        remotes: dict[str, Remote] = {}

        def remote(name: str) -> Remote | None:
            member = self.members.get(name)
            if member is None:
                return None
            if name not in remotes or remotes[name].uid != member.uid:
                remotes[name] = Remote(member, clock=self.clock, uid=member.uid)
            return remotes[name]

        chronicle = Chronicle(self.store, events, uid=self._uids, now=self.clock)
        self.bills = Bills(self.store, now=self.clock.datetime, uid=self._uids)
        premises = Premises(
            fleet=FLEET, offers=self, priority_of=self.priorities.get, sleep=self._no_sleep
        )
        self.reconciler = Reconciler(
            self.store,
            looker=Looker(
                remote, fleet=FLEET, leases=leases, departures=self, silent=lambda name: ""
            ),
            actor=Actor(
                remote,
                premises=premises,
                sources=self,
                fleet=FLEET,
                leases=leases,
                neighbours=self,
                on_blocks=lambda cluster, blocks, spec: on_blocks(
                    spec, label=self.block_labels.get(cluster, ""), blocks=blocks
                ),
            ),
            chronicle=chronicle,
            bill=self.bills,
            barred=self.bars.put,
            openings=openings,
            uid=self._uids,
            now=self.clock,
            timing=TIMING,
        )
        self.waiting = Waiting(
            self.store,
            planner=self.decides(),
            bars=self.bars,
            barred=lambda namespace: {},
            openings=openings,
            found=lambda key: None,  # every round looks at everything
            chronicle=chronicle,
            bill=self.bills,
            now=self.clock,
        )

    def books(self, *, labelled: bool = False, plane: str = "") -> MemberBooks:
        """`labelled`: members have their name as a label; `plane` is the network they are on."""
        return MemberBooks(self, labelled=labelled, plane=plane)

    async def restart(self) -> None:
        """The gateway dies and comes back."""
        self.crash_after = None
        await self._lives.aclose()
        await self._live()

    def _operation(self) -> None:
        self.operations += 1
        if self.crash_after is not None and self.operations > self.crash_after:
            raise CrashError

    async def _no_sleep(self, seconds: float) -> None:
        """Time is virtual."""

    def serves(self, cluster: str, gvr: GroupVersionResource) -> bool:
        return gvr.resource in ROWS

    def get(self, gvr: GroupVersionResource, namespace: str, name: str) -> Object | None:
        row = ROWS[gvr.resource]
        assert row is not None
        entry = self.store.get(row, namespace, name)
        return entry.parse() if entry is not None else None

    def alone(self, cluster: str, template: Object, *, work: str) -> Object:
        return isolation.alone(template, work=work)

    def wall(self, **about: Any) -> Object:
        return isolation.network_policy(**about)

    def went_unfinished(self, key: ShardKey) -> bool:
        member = self.members.get(key.cluster)
        return member is not None and key in member.gone_unfinished

    def disturbed(self, uid: str) -> bool:
        return False  # what is seen of the members has to do

    # -- what a user does

    async def run_job(self, name: str = "train", ranks: int = 6, **more: Any) -> None:
        annotations = {key: str(more.pop(key)) for key in ("run-for", "fail-rank") if key in more}
        annotations |= more.pop("annotations", {})
        row = ROWS["jobs"]
        assert row is not None
        obj = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completions": ranks, "parallelism": ranks, "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {
                    "metadata": {"annotations": annotations},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "x", **more.pop("container", {})}],
                        **more.pop("pod", {}),
                    },
                },
                **more,
            },
        }  # fmt: skip
        made = defaults.create(
            "batch", "v1", "Job", obj, namespace="payments",
            now=self.clock.datetime(), uid=self._uids(), random=random.Random(1),
        )  # fmt: skip
        await self.store.create(row, made)

    async def put(self, kind: str, name: str, **content: Any) -> None:
        """An object of the fleet beside the job."""
        row = ROWS[kind]
        assert row is not None
        metadata = {"name": name, "namespace": "payments", "uid": self._uids()}
        obj = {"apiVersion": row.api_version, "kind": row.kind, "metadata": metadata, **content}
        await self.store.create(row, obj)

    async def change_job(self, name: str, change: Callable[[Object], None]) -> None:
        row = ROWS["jobs"]
        assert row is not None

        def changed(obj: Object) -> Object:
            change(obj)
            return obj

        await self.store.rewrite(row, namespace="payments", name=name, change=changed)

    async def delete_job(self, name: str = "train", *, orphan: bool = False) -> None:
        """As the API does it; with `orphan` the mark stays, nobody collects garbage here."""
        stamp = records.text_of(self.clock.now)

        def delete(obj: Object) -> None:
            metadata = obj["metadata"]
            metadata["deletionTimestamp"] = stamp
            if orphan:
                metadata["finalizers"] = [*(metadata.get("finalizers") or ()), "orphan"]

        await self.change_job(name, delete)

    async def run_pod(self, name: str = "web", **more: Any) -> None:
        metadata = {"name": name, **more.pop("metadata", {})}
        row = ROWS["pods"]
        assert row is not None
        obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": "main", "image": "x"}], **more},
        }
        made = defaults.create(
            "", "v1", "Pod", obj, namespace="payments",
            now=self.clock.datetime(), uid=self._uids(), random=random.Random(1),
        )  # fmt: skip
        await self.store.create(row, made)

    async def change_pod(self, change: Callable[[Object], None], name: str = "web") -> None:
        row = ROWS["pods"]
        assert row is not None

        def changed(obj: Object) -> Object:
            change(obj)
            return obj

        await self.store.rewrite(row, namespace="payments", name=name, change=changed)

    async def delete_pod(self, name: str = "web", *, grace_s: int = 30) -> None:
        """As the API does it for a pod that holds a finalizer."""
        marks = {
            "deletionTimestamp": records.text_of(self.clock.now + grace_s),
            "deletionGracePeriodSeconds": grace_s,
        }
        await self.change_pod(lambda obj: obj["metadata"].update(marks), name)

    # -- what is so

    def pod(self, name: str = "web") -> Object | None:
        return self.get(GroupVersionResource("", "v1", "pods"), "payments", name)

    def job(self, name: str = "train") -> Object | None:
        return self.get(GroupVersionResource("batch", "v1", "jobs"), "payments", name)

    def condition(self, kind: str, name: str = "train") -> Object | None:
        job = self.job(name)
        assert job is not None
        found = (job.get("status") or {}).get("conditions") or ()
        return next((c for c in found if c["type"] == kind), None)

    def records(self) -> dict[str, records.Record]:
        entries = self.store.collection(PLACEMENT.resource).snapshot().entries()
        return {
            entry.name.removeprefix("job-"): records.read(entry.parse().get("status") or {})
            for entry in entries
        }

    def record(self, name: str = "train") -> records.Record:
        return self.records().get(name, records.Record())

    def placed(self, name: str = "train") -> dict[str, tuple[int, int, str]]:
        return {s.cluster: (s.first, s.count, s.state) for s in self.record(name).shards}

    def events(self) -> set[str]:
        row = ROWS["events"]
        assert row is not None
        return {e.parse()["reason"] for e in self.store.collection(row).snapshot().entries()}

    def running(self, uid: str = "") -> dict[int, list[str]]:
        """Which members run which ranks; of all workloads, or of the one with `uid`."""
        found = defaultdict(list)
        for member in self.members.values():
            for pod in member.all("pods"):
                owner = (pod["metadata"].get("labels") or {}).get("fleet.dev/workload-uid", "")
                if owner and uid in ("", owner) and pod["status"].get("phase") == "Running":
                    found[_rank(pod)].append(member.name)
        return dict(found)

    def left_over(self) -> list[str]:
        """Everything of ours that stands in members, namespaces and classes apart."""
        return [
            f"{member.name}/{kind}/{obj['metadata']['name']}"
            for member in self.members.values()
            for kind in ("jobs", *DEPENDENTS)
            for obj in member.all(kind)
        ]

    def _check_start(self, member: Member, pod: Object) -> None:
        """Called as a pod begins to run."""
        labels = pod["metadata"].get("labels") or {}
        if "fleet.dev/shard" not in labels:
            return
        generation, rank = int(labels["fleet.dev/generation"]), _rank(pod)
        self.starts.append((self.clock.now, member.name, generation, rank))
        elsewhere = self.running(labels["fleet.dev/workload-uid"]).get(rank, [])
        assert not elsewhere, f"rank {rank} starts in {member.name} while it runs in {elsewhere}"
        # The stored record alone counts: a shard that is not in it any more is leaving.
        for name, record in self.records().items():
            for shard in record.shards:
                workload = name.removeprefix("pod-")
                if (shard.cluster, shard.name(workload)) == (
                    member.name,
                    labels["fleet.dev/shard"],
                ):
                    assert shard.live or shard.state in ("Succeeded", "Lost"), (
                        f"a pod of {shard.cluster} starts while its shard is {shard.state}"
                    )

    # -- time

    def _keys(self) -> list[Key]:
        found = set()
        for kind, resource in (("Job", "jobs"), ("Pod", "pods")):
            row = ROWS[resource]
            assert row is not None
            entries = self.store.collection(row).snapshot().entries()
            found |= {Key(kind, "payments", entry.name) for entry in entries}
        for name in self.records():
            pod = name.startswith("pod-")
            found.add(Key("Pod" if pod else "Job", "payments", name.removeprefix("pod-")))
        return sorted(found)

    async def gateway(self) -> None:
        """One look at everything. Raises CrashError."""
        for key in self._keys():
            try:
                outcome = await self.reconciler.reconcile(key)
            except FleetError:
                continue
            except BaseExceptionGroup as group:
                raise CrashError from group
            if outcome.wants_plan:
                self.waiting.add(key)
            else:
                self.waiting.discard(key)
        await self.waiting.round()

    async def round(self, *, tick_s: float = 0.5, gateway: bool = True) -> None:
        """The gateway looks once, every member takes a turn, time goes on."""
        if gateway:
            await self.gateway()
        for member in self.members.values():
            await member.step()
        self.clock.now += tick_s

    async def settle(self, *, rounds: int = 60, tick_s: float = 0.5) -> None:
        """Rounds until nothing has changed for three of them."""
        still, before = 0, ()
        for _ in range(rounds):
            await self.round(tick_s=tick_s)
            now = tuple(
                store.sequencer.current
                for store in (self.store, *(m.store for m in self.members.values()))
            )
            still = still + 1 if now == before else 0
            before = now
            if still == 3:
                return

    async def until(self, condition: Callable[[], Any], *, rounds: int = 200) -> None:
        for _ in range(rounds):
            if condition():
                return
            await self.round()
        raise AssertionError(f"it never came to that: {self.records()}")

    async def wait(self, seconds: float, *, gateway: bool = True) -> None:
        ends = self.clock.now + seconds
        while self.clock.now < ends:
            await self.round(gateway=gateway)


def _rank(pod: Object) -> int:
    annotations = pod["metadata"]["annotations"]
    local = int(annotations.get("batch.kubernetes.io/job-completion-index", 0))
    return int(annotations.get("fleet.dev/index-offset", 0)) + local


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """A fleet without members."""
    async with Fleet() as made:
        yield made


@pytest.fixture
def new_fleet() -> Callable[[], Fleet]:
    """For tests that need many."""
    return Fleet


@pytest.fixture
def crash() -> type[BaseException]:
    return CrashError
