"""Rollouts played through with every interleaving: Deployment, ReplicaSets, kubelet and user take
turns in an order that hypothesis picks. The decisions are the real ones; the world is a dict."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtualnode.conditions import find, stamp
from virtualnode.deployments import decision, replicas
from virtualnode.deployments.sizes import Bounds
from virtualnode.objects import controller_of

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]
START = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


@dataclass
class World:
    """A Deployment with its sets and pods, and everybody who works on them."""

    deployment: Object
    sets: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    now: datetime = START
    serial: int = 0

    # -- the controllers, each pass whole

    def roll(self) -> bool:
        """One pass of the Deployment; whether it wrote anything."""
        before = copy.deepcopy((self.deployment, self.sets))
        pods = {s["metadata"]["uid"]: self.pods_of(s) for s in self.sets.values()}
        step = decision.decide(self.deployment, list(self.sets.values()), pods, now=self.now)
        if step.make is not None:
            made = copy.deepcopy(step.make)
            name = made["metadata"]["name"]
            assert name not in self.sets
            made["metadata"].update(
                uid=self.number(), generation=1, creationTimestamp=stamp(self.now)
            )
            self.sets[name] = {**made, "status": {"replicas": 0}}
            self.tick()
        for each in step.change:
            old = self.sets[each.name]
            new = copy.deepcopy(each.applied(old))
            new["metadata"]["generation"] += new["spec"] != old["spec"]
            self.sets[each.name] = new
        for gone in step.delete:
            assert not self.pods_of(gone)
            del self.sets[gone["metadata"]["name"]]
        self.deployment["status"] = copy.deepcopy(step.status)
        if step.revision:
            annotations = self.deployment["metadata"].setdefault("annotations", {})
            annotations["deployment.kubernetes.io/revision"] = step.revision
        return before != (self.deployment, self.sets)

    def replicate(self, name: str) -> bool:
        """One pass of a set; whether it wrote anything."""
        replica_set = self.sets[name]
        active = [p for p in self.pods_of(replica_set) if replicas.is_active(p)]
        plan = replicas.decide(replica_set, active, active, now=self.now)
        for _ in range(plan.create):
            pod = copy.deepcopy(replicas.pod_of(replica_set))
            metadata = replica_set["metadata"]
            pod["metadata"].update(
                name=f"{name}-{self.number()}",
                uid=self.number(),
                creationTimestamp=stamp(self.now),
                ownerReferences=[{"uid": metadata["uid"], "controller": True}],
            )
            pod["spec"] = {**pod["spec"], "nodeName": "n1"}
            pod["status"] = {"phase": "Pending"}
            self.pods[pod["metadata"]["name"]] = pod
        for gone in plan.delete:
            self.pods[gone["metadata"]["name"]]["metadata"]["deletionTimestamp"] = stamp(self.now)
        status = replicas.status(replica_set, self.pods_of(replica_set), now=self.now)
        changed = bool(plan.create or plan.delete or status != replica_set["status"])
        self.sets[name] = {**replica_set, "status": status}
        return changed

    # -- the kubelet

    def start(self, name: str) -> None:
        self.turn(name, ready=True)

    def turn(self, name: str, *, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(self.now)}
        self.pods[name]["status"] = {"phase": "Running", "conditions": [condition]}

    def bury(self, name: str) -> None:
        """The end of a pod that was told to go."""
        del self.pods[name]

    # -- looking

    def pods_of(self, replica_set: Object) -> list[Object]:
        uid = replica_set["metadata"]["uid"]
        return [p for p in self.pods.values() if (controller_of(p) or {}).get("uid") == uid]

    @property
    def active(self) -> list[Object]:
        return [p for p in self.pods.values() if replicas.is_active(p)]

    @property
    def available(self) -> int:
        return sum(replicas.available_in(p, min_ready_s=0, now=self.now) == 0 for p in self.active)

    @property
    def bounds(self) -> Bounds:
        return Bounds.of(self.deployment)

    # -- everything until nothing changes

    def settle(self) -> None:
        for _ in range(500):
            wrote = self.roll()
            for name in list(self.sets):
                wrote |= self.replicate(name)
            for name, pod in list(self.pods.items()):
                if pod["metadata"].get("deletionTimestamp"):
                    self.bury(name)
                    wrote = True
                elif find(pod["status"].get("conditions"), "Ready") is None or not self.is_ready(
                    pod
                ):
                    self.start(name)
                    wrote = True
            self.tick()
            if not wrote:
                return
        raise AssertionError("nothing comes to rest")

    def is_ready(self, pod: Object) -> bool:
        return replicas.available_in(pod, min_ready_s=0, now=self.now) == 0

    def tick(self) -> None:
        self.now += timedelta(seconds=1)

    def number(self) -> str:
        self.serial += 1
        return f"{self.serial:05}"


def world(
    *,
    desired: int,
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    recreate: bool = False,
    history: int = 2,
) -> World:
    strategy: Object = {"type": "Recreate"}
    if not recreate:
        rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return World({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d1", "generation": 1},
        "spec": {
            "replicas": desired,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": strategy,
            "revisionHistoryLimit": history,
            "progressDeadlineSeconds": 600,
            "template": template(0),
        },
    })  # fmt: skip


def template(version: int) -> Object:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": f"web:{version}"}]},
    }


def edited(world: World, **spec: Any) -> None:
    world.deployment["spec"].update(copy.deepcopy(spec))
    world.deployment["metadata"]["generation"] += 1


sizes = st.integers(0, 9)
shares = st.one_of(st.integers(0, 5), st.sampled_from(["0%", "1%", "25%", "50%", "100%"]))
turns = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 30)), min_size=10, max_size=80)


def take(world: World, turn: int, pick: int, *, versions: int = 3) -> str:
    """One turn of somebody; what was done, for the messages of a failing example."""
    names, pods = sorted(world.sets), sorted(world.pods)
    ending = [n for n in pods if world.pods[n]["metadata"].get("deletionTimestamp")]
    waiting = [n for n in pods if not world.is_ready(world.pods[n]) and n not in ending]
    match turn:
        case 0 | 1 | 8 | 9:
            world.roll()
            return "roll"
        case 2 | 3 | 10 | 11 if names:
            name = names[pick % len(names)]
            world.replicate(name)
            return f"replicate {name}"
        case 4 | 5 if waiting:
            name = waiting[pick % len(waiting)]
            world.start(name)
            return f"start {name}"
        case 6 | 12 if ending:
            world.bury(ending[pick % len(ending)])
            return "bury"
        case 7:
            world.tick()
            edited(world, template=template(pick % versions))
            return "edit"
    return "nothing"


@pytest.mark.parametrize(
    ("desired", "surge", "unavailable"),
    [(2, 0, 1), (2, 1, 0), (2, 1, 1), (3, 0, 2), (3, 1, 1), (3, 2, 0)],
)
def test_no_interleaving_of_a_small_rollout_breaks_a_bound(desired, surge, unavailable) -> None:
    """All of them: every order in which a few pods can be rolled over."""
    start = world(desired=desired, surge=surge, unavailable=unavailable)
    start.settle()
    edited(start, template=template(1))
    waiting, seen, ends = [start], {shape(start)}, 0
    while waiting:
        it = waiting.pop()
        ended = True
        for act in acts(it):
            after = copy.deepcopy(it)
            act(after)
            if (reached := shape(after)) == shape(it):
                continue
            ended = False
            if len(after.active) > len(it.active):
                assert len(after.active) <= it.bounds.most
            if after.available < it.available:
                assert after.available >= it.bounds.least
            if reached not in seen:
                seen.add(reached)
                waiting.append(after)
        if ended:
            ends += 1
            it.settle()  # nothing but the status is left to write
            check_settled(it)
    assert ends
    assert len(seen) >= 30


def acts(it: World) -> list[Callable[[World], object]]:
    """What may happen next; of pods in the same state one stands for all."""
    found: list[Callable[[World], object]] = [World.roll]
    found += [partial(World.replicate, name=name) for name in it.sets]
    kinds = {pod_shape(it, name): name for name in sorted(it.pods)}
    for (_, ready, ending), name in kinds.items():
        if ending:
            found.append(partial(World.bury, name=name))
        elif not ready:
            found.append(partial(World.start, name=name))
    return found


def shape(it: World) -> tuple[Any, ...]:
    """All that decisions depend on, names and times left out."""
    sets = tuple(
        (
            name,
            each["spec"]["replicas"],
            tuple(sorted((k, v) for k, v in each["status"].items() if k != "conditions")),
        )
        for name, each in sorted(it.sets.items())
    )
    pods = tuple(sorted(pod_shape(it, name) for name in it.pods))
    return sets, pods


def pod_shape(it: World, name: str) -> tuple[str, bool, bool]:
    pod = it.pods[name]
    owner = str((controller_of(pod) or {})["uid"])
    return owner, it.is_ready(pod), bool(pod["metadata"].get("deletionTimestamp"))


@given(sizes, shares, shares, turns)
@settings(max_examples=100, deadline=None)
def test_a_rollout_keeps_to_its_bounds_at_every_step(desired, surge, unavailable, steps) -> None:
    it = world(desired=desired, surge=surge, unavailable=unavailable)
    it.settle()
    for turn, pick in steps:
        pods, available = len(it.active), it.available
        done = take(it, turn, pick)
        if len(it.active) > pods:
            assert len(it.active) <= it.bounds.most, done
        if it.available < available:
            assert it.available >= it.bounds.least, done
    it.settle()
    check_settled(it)


def active_of(it, replica_set) -> int:
    return sum(replicas.is_active(pod) for pod in it.pods_of(replica_set))


@given(sizes, shares, shares, turns, st.data())
@settings(max_examples=100, deadline=None)
def test_scaling_in_the_middle_never_makes_too_many_pods(
    desired, surge, unavailable, steps, data
) -> None:
    it = world(desired=desired, surge=surge, unavailable=unavailable)
    for turn, pick in steps:
        pods = len(it.active)
        if pick % 10 == 0:
            edited(it, replicas=data.draw(sizes))
        if pick % 17 == 0:
            edited(it, paused=not it.deployment["spec"].get("paused", False))
        held = {name: active_of(it, each) for name, each in it.sets.items()}
        done = take(it, turn, pick)
        if len(it.active) > pods:
            # A set that was told of more pods before the number was lowered may still make them,
            # and one that was told of fewer may still have what it had.
            told = sum(
                max(each["spec"]["replicas"], held.get(name, 0)) for name, each in it.sets.items()
            )
            assert len(it.active) <= max(it.bounds.most, told), done
    edited(it, paused=False)
    it.settle()
    check_settled(it)


@given(sizes, turns)
@settings(max_examples=100, deadline=None)
def test_recreate_never_mixes_old_and_new(desired, steps) -> None:
    it = world(desired=desired, recreate=True)
    it.settle()
    for turn, pick in steps:
        before = {n for n, p in it.pods.items() if not replicas.has_ended(p)}
        done = take(it, turn, pick)
        made = {n for n in it.pods if n not in before}
        for name in made:
            owner = (controller_of(it.pods[name]) or {})["uid"]
            others = [n for n in before if (controller_of(it.pods[n]) or {})["uid"] != owner]
            assert not others, done
    it.settle()
    check_settled(it)


@given(sizes, turns, st.booleans(), st.data())
@settings(max_examples=100, deadline=None)
def test_it_converges_whatever_the_sets_are_told(desired, steps, recreate, data) -> None:
    """Somebody resizes sets by hand, takes annotations off, changes the strategy."""
    it = world(desired=desired, recreate=recreate)
    for turn, pick in steps:
        take(it, turn, pick)
        if it.sets and pick % 5 == 0:
            name = data.draw(st.sampled_from(sorted(it.sets)))
            spoilt = copy.deepcopy(it.sets[name])
            spoilt["spec"]["replicas"] = data.draw(sizes)
            spoilt["metadata"]["generation"] += 1
            wrong = data.draw(st.sampled_from(["", "x", "0", "7"]))
            spoilt["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] = wrong
            spoilt["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] = wrong
            it.sets[name] = spoilt
        if pick == 7:
            edited(
                it,
                strategy=world(desired=1, recreate=data.draw(st.booleans())).deployment["spec"][
                    "strategy"
                ],
            )
    it.settle()
    check_settled(it)


def check_settled(it: World) -> None:
    """Everything is as asked for, said so, and the next pass of each writes nothing."""
    desired = it.bounds.desired
    status = it.deployment["status"]
    (new,) = [
        s
        for s in it.sets.values()
        if s["spec"]["template"]["spec"] == it.deployment["spec"]["template"]["spec"]
    ]
    assert new["spec"]["replicas"] == desired == len(it.pods_of(new)) == len(it.pods)
    assert status.get("updatedReplicas", 0) == status.get("availableReplicas", 0) == desired
    assert status["observedGeneration"] == it.deployment["metadata"]["generation"]
    progressing = find(status["conditions"], "Progressing")
    assert progressing is not None
    assert progressing["reason"] == "NewReplicaSetAvailable"
    old = [s for s in it.sets.values() if s is not new]
    assert len(old) <= it.deployment["spec"]["revisionHistoryLimit"]
    revision = "deployment.kubernetes.io/revision"
    numbers = [int(s["metadata"]["annotations"][revision]) for s in it.sets.values()]
    assert max(numbers) == int(new["metadata"]["annotations"][revision])
    assert it.deployment["metadata"]["annotations"][revision] == str(max(numbers))
    it.tick()
    assert not it.roll()
    assert not any(it.replicate(name) for name in list(it.sets))
