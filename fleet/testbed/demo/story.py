"""The story: gangs over clusters, a refusal, a lost cluster – each claim checked.

Three members: `idc-a` (4 accelerators) and `idc-b` (2) on one parameter plane, `cloud-c` (64) on
another, and dearer. What is printed was read back from the gateway; what is not so ends the story.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from typing import TYPE_CHECKING, Any

from fleet.errors import TestbedError
from fleet.testbed.demo import objects
from fleet.testbed.demo.gateway_client import TABLE, GatewayClient
from fleet.testbed.demo.objects import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fleet.testbed.demo.stage import MemberPlan
    from fleet.testbed.demo.telling import Step, Teller
    from fleet.testbed.embedded import EmbeddedCluster

CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"
_POLICIES = f"/apis/fleet.dev/v1alpha1/namespaces/{NAMESPACE}/placementpolicies"
_PRICES = "/apis/fleet.dev/v1alpha1/pricebooks"
_JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PLACEMENTS = f"/apis/fleet.dev/v1alpha1/namespaces/{NAMESPACE}/placements"

_RANK = "fleet.dev/global-index"

Object = dict[str, Any]


class Story:
    """Tells it once. `lease_s` is the gateway's lease."""

    def __init__(
        self,
        client: GatewayClient,
        members: Mapping[str, tuple[MemberPlan, EmbeddedCluster]],
        *,
        program: Path,
        lease_s: float,
        teller: Teller,
    ) -> None:
        self._client = client
        self._members = members
        self._program = str(program)
        self._lease_s = lease_s
        self._teller = teller

    async def tell(self) -> None:
        await self.join()
        await self._rules()
        await self._gang()
        await self._too_wide()
        await self._small()
        await self._loss()

    # -- the fleet

    async def join(self) -> None:
        """Have every member joined and known, and nothing else."""
        plans = [plan for plan, _ in self._members.values()]
        sizes = "  ".join(f"{plan.name} ({plan.accelerators})" for plan in plans)
        with self._teller.step(f"members {sizes}") as step:
            for plan, member in self._members.values():
                body = {"name": plan.name, "kubeconfig": member.kubeconfig.read_text()}
                await self._client.ask("POST", "/fleet/join", body)
                patch = objects.cluster_patch(plane=plan.plane, provider=plan.provider)
                await self._client.ask("PATCH", f"{CLUSTERS}/{plan.name}", patch)
            ready = await self._client.until(
                CLUSTERS,
                lambda found: (
                    len(found["items"]) == len(plans)
                    and all(_is_ready(c) and _has_nodes(c) for c in found["items"])
                ),
                within_s=20,
                what="every member ready and its nodes seen",
            )
            step.say(f"{len(ready['items'])} ready")

    async def _rules(self) -> None:
        prices = {plan.name: plan.price_per_hour for plan, _ in self._members.values()}
        as_of = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        await self._client.create(_PRICES, objects.price_book(prices, as_of=as_of))
        await self._client.create("/api/v1/namespaces", objects.namespace())
        for policy in objects.policies(lease_s=self._lease_s):
            await self._client.create(_POLICIES, policy)

    # -- a gang over two clusters

    async def _gang(self) -> None:
        with self._teller.step("job train: 6 ranks, one plane; fits no member alone") as step:
            await self._submit("train", 6, policy="spread")
            done = await self._placement("train", lambda s: _phase(s) in ("Running", "Succeeded"))
            shards = _shards(done)
            step.check(shards == {"idc-a": 4, "idc-b": 2}, f"split is {shards}")
            step.say("idc-a 4 + idc-b 2, held, committed")
        with self._teller.step("its 6 processes find each other and sum their ranks") as step:
            await self._complete("train", step)
            pods = await self._pods("train")
            step.check(len(pods) == 6, f"{len(pods)} pods are listed, not 6")
            for pod in pods:
                text = await self._client.text(f"{_PODS}/{pod}/log")
                step.check("sum of ranks over 6 processes: 15" in text, f"{pod} wrote: {text}")
            step.say("15 = 15, six times")
        with self._teller.step("kubectl get pods shows every rank and its cluster") as step:
            rows = await self._table("train")
            places = sorted(row[1] for row in rows)
            step.check(places == ["idc-a"] * 4 + ["idc-b"] * 2, f"CLUSTER says {places}")
            for row in rows:
                step.line(f"{row[0]:28} {row[1]:8} {row[3]}")
        with self._teller.step("logs of rank 5 come through the gateway") as step:
            (rank,) = await self._pods("train", rank="5")
            text = await self._client.text(f"{_PODS}/{rank}/log?tailLines=1")
            step.check(text.startswith("step"), f"{rank} wrote {text!r}")
            step.say(text.strip())

    # -- a refusal

    async def _too_wide(self) -> None:
        with self._teller.step("job wide: 9 ranks on one of the planes of roce-1") as step:
            await self._client.ask(
                "PATCH",
                f"{_POLICIES}/spread",
                {"spec": {"gang": {"plane": "roce-1"}}},
            )
            await self._submit("wide", 9, policy="spread")
            refused = await self._placement("wide", lambda s: s.get("message"))
            message = refused["status"]["message"]
            step.check("roce-1" in message and "6" in message, f"the reason is: {message}")
            await self._nothing_runs("wide", step)
            step.say(f"refused: {message}")
            await self._client.ask("DELETE", f"{_JOBS}/wide")

    async def _small(self) -> None:
        with self._teller.step("job small: 1 rank, own machines before the cloud") as step:
            await self._submit("small", 1, policy="small")
            done = await self._placement("small", lambda s: _phase(s) in ("Running", "Succeeded"))
            (cluster,) = _shards(done)
            step.check(cluster in ("idc-a", "idc-b"), f"it went to {cluster}")
            await self._complete("small", step)
            step.say(f"{cluster}, first tier")

    # -- a lost cluster

    async def _loss(self) -> None:
        with self._teller.step("a second gang: 6 ranks that need no common plane") as step:
            await self._submit("second", 6, policy="loose", steps=600)
            placed = await self._placement("second", lambda s: _phase(s) == "Running")
            shards = _shards(placed)
            step.check(shards == {"idc-a": 4, "idc-b": 2}, f"split is {shards}")
            step.say("idc-a 4 + idc-b 2, running")
        with self._teller.step("the API of idc-b is cut: the merged list still answers") as step:
            cut_s = time.monotonic()
            await self._members["idc-b"][1].stop_api()
            began_s = time.monotonic()
            answer = await self._client.ask("GET", "/api/v1/pods")
            took_s = time.monotonic() - began_s
            here = [p for p in answer.value["items"] if _of(p, "second")]
            step.check(len(here) == 6, f"{len(here)} of 6 pods are listed")
            stale = await self._stale()
            step.say(f"in {took_s:.2f} s, all 6 pods; Warning: {stale}")
        with self._teller.step(
            f"only its ranks are placed anew, after {self._lease_s:.0f} s"
        ) as step:
            moved = await self._placement(
                "second",
                lambda s: _phase(s) == "Running" and "idc-b" not in _shards({"status": s}),
                within_s=self._lease_s + 45,
            )
            after_s = time.monotonic() - cut_s
            step.check(after_s >= self._lease_s, f"moved after {after_s:.1f} s, before the lease")
            ranks = _ranks(moved)
            step.check(
                sorted(ranks) == [("cloud-c", 4, 2), ("idc-a", 0, 4)], f"the shards are {ranks}"
            )
            step.say(f"ranks 4-5 to cloud-c after {after_s:.0f} s; ranks 0-3 stayed")
        with self._teller.step("the gang goes on: all six ranks sum again") as step:
            text = await self._sum_again("5", within_s=30)
            step.say(text)
        with self._teller.step("idc-b is back: its old copy is ended") as step:
            await self._members["idc-b"][1].start_api()
            await self._client.until(
                "/clusters/idc-b/api/v1/pods",
                lambda found: not any(_is_active(p) for p in found["items"]),
                within_s=20,
                what="the end of the old copy in idc-b",
            )
            step.say("nothing of it runs")

    # -- small things

    async def _submit(self, name: str, ranks: int, *, policy: str, steps: int = 1) -> None:
        arguments = ("--steps", str(steps), "--sleep", "0.5") if steps > 1 else ()
        await self._client.create(
            _JOBS,
            objects.job(name, ranks, policy=policy, program=self._program, arguments=arguments),
        )

    async def _placement(
        self, name: str, is_so: Callable[[Object], object], *, within_s: float = 30
    ) -> Object:
        """The Placement of a job once its status `is_so`."""
        found: Object = await self._client.until(
            f"{_PLACEMENTS}/job-{name}",
            lambda placement: is_so(placement.get("status") or {}),
            within_s=within_s,
            what=f"the placement of {name}",
        )
        return found

    async def _complete(self, name: str, step: Step) -> None:
        job = await self._client.until(
            f"{_JOBS}/{name}",
            lambda job: _condition(job, "Complete") or _condition(job, "Failed"),
            within_s=45,
            what=f"the end of {name}",
        )
        step.check(_condition(job, "Complete"), f"{name} failed: {job['status']}")

    async def _running(self, name: str) -> None:
        await self._placement(name, lambda status: _phase(status) == "Running")

    async def _pods(self, name: str, *, rank: str = "") -> list[str]:
        """Names of a job's pods; with `rank`, of the one that has it."""
        found = await self._client.get(f"{_PODS}?labelSelector=app%3D{name}")
        return [
            pod["metadata"]["name"]
            for pod in found["items"]
            if not rank or pod["metadata"]["annotations"].get(_RANK) == rank
        ]

    async def _table(self, name: str) -> list[list[str]]:
        answer = await self._client.ask("GET", f"{_PODS}?labelSelector=app%3D{name}", accept=TABLE)
        return [row["cells"] for row in answer.value["rows"]]

    async def _nothing_runs(self, name: str, step: Step) -> None:
        for member in self._members:
            found = await self._client.get(f"/clusters/{member}/api/v1/pods")
            started = [p["metadata"]["name"] for p in found["items"] if _of(p, name)]
            step.check(not started, f"{member} has {started}")

    async def _sum_again(self, rank: str, *, within_s: float) -> str:
        """What `rank` of the second gang wrote in cloud-c, once it has a sum."""
        wrote = ""
        try:
            async with asyncio.timeout(within_s):
                while "sum of ranks over 6 processes: 15" not in wrote:
                    pods = [p for p in await self._pods("second", rank=rank) if "cloud-c" in p]
                    if pods:
                        wrote = await self._client.text(f"{_PODS}/{pods[0]}/log?tailLines=1")
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise TestbedError(
                f"rank {rank} had no sum within {within_s:g} s; it wrote: {wrote.strip()}"
            ) from None
        return wrote.strip()

    async def _stale(self) -> str:
        """The Warning that names idc-b, once a list carries it."""
        async with asyncio.timeout(15):
            while True:
                answer = await self._client.ask("GET", "/api/v1/pods")
                for warning in answer.warnings:
                    if "idc-b" in warning:
                        return warning.partition('"')[2].rpartition('"')[0]
                await asyncio.sleep(0.2)


def _is_ready(cluster: Object) -> bool:
    conditions = (cluster.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _has_nodes(cluster: Object) -> bool:
    return bool(((cluster.get("status") or {}).get("summary") or {}).get("nodes"))


def _condition(obj: Object, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _phase(status: Object) -> str:
    return str(status.get("phase", ""))


def _ranks(placement: Object) -> list[tuple[str, int, int]]:
    """(cluster, first rank, number of ranks) of each shard."""
    return [
        (shard["cluster"], role.get("first", 0), role["count"])
        for shard in placement["status"].get("shards") or []
        for role in shard["roles"]
    ]


def _shards(placement: Object) -> dict[str, int]:
    """Ranks by cluster."""
    found: dict[str, int] = {}
    for cluster, _, count in _ranks(placement):
        found[cluster] = found.get(cluster, 0) + count
    return found


def _of(pod: Object, name: str) -> bool:
    return (pod["metadata"].get("labels") or {}).get("app") == name


def _is_active(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Pending", "Running")


def what_to_do(kubeconfig: Path) -> str:
    """What a fleet that nothing was told about is for."""
    file = shlex.quote(str(kubeconfig))
    return f"Try:  export KUBECONFIG={file}\n      the stories of examples/README.md"


def what_to_try(kubeconfig: Path, *, kubectl: bool) -> str:
    """What a user may do with a gateway that was kept, with `kubectl` if there is one."""
    file = shlex.quote(str(kubeconfig))
    if kubectl:
        lines = [
            f"Try:  export KUBECONFIG={file}",
            "      kubectl get pods -A        kubectl get clusters",
            f"      kubectl -n {NAMESPACE} get jobs,placements",
            f"      kubectl -n {NAMESPACE} run web --image=none --restart=Never --command -- "
            "sh -c 'echo hello; sleep 600'",
            f"      kubectl -n {NAMESPACE} wait --for=condition=Ready pod/web",
            f"      kubectl -n {NAMESPACE} logs web",
        ]
    else:
        lines = [
            f"Try:  fleet get pods -A --kubeconfig {file}",
            f"      fleet get jobs,placements -n {NAMESPACE} --kubeconfig {file}",
            f"      fleet members --kubeconfig {file}",
        ]
    lines.append(f"      fleet explain job/second -n {NAMESPACE} --kubeconfig {file}")
    return "\n".join(lines)
