"""The external dispatcher: for each Workload that waits in a manager, who may have it.

One task looks at everything whenever there is news – of managers, of the copies in workers, of room
– and decides about all that wait together; writes go out beside it, one for each Workload at a
time, each on the very revision it was decided on. A Workload that is being written keeps the room
it was promised. After a restart the nominations are read off the managers.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adapters.kueue import objects, standing
from adapters.kueue.fleet import Ask, NoSeat, Promised, Seat
from adapters.kueue.tally import Tally
from adapters.kueue.telling import Telling
from adapters.kueue.writing import write
from fleet.errors import ApiError, FleetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adapters.kueue.fleet import Fleet
    from adapters.kueue.objects import Key, Worker, Workload
    from adapters.kueue.standing import Choice, Standing
    from fleet.kube.resources import GroupVersionResource

log = logging.getLogger(__name__)

Object = dict[str, Any]

SETTLE_S: Final = 0.1
ANSWER_S: Final = 30.0
"""How long a nominated cluster may say nothing before another is asked as well."""
LEFT_S: Final = 60.0
"""How long one that a Workload was put out of is not asked again."""
APPEAR_S: Final = 300.0
"""How long room is kept for the pods of what a cluster has admitted."""
_AFTER_TROUBLE_S: Final = 10.0
_AFTER_FAULT_S: Final = 60.0
_WRITES: Final = 32
_AT_ONCE: Final = 32
_FORBIDDEN: Final = 403


class _Id(NamedTuple):
    manager: str
    namespace: str
    name: str


class _Manager:
    """What is known of one manager."""

    def __init__(self) -> None:
        self.gangs: dict[Key, Object] = {}
        self.checks: dict[str, str] = {}
        """Name of the MultiKueueConfig, by admission check."""
        self.configs: dict[str, tuple[str, ...]] = {}
        self.workers: dict[str, Worker] = {}
        self.complaint = ""
        """Why it cannot be served, as it was last said."""


class _Waiting(NamedTuple):
    """A Workload that another cluster is wanted for."""

    id: _Id
    workload: Workload
    choice: Choice
    stands: Standing


class Dispatcher:
    def __init__(
        self,
        fleet: Fleet,
        managers: Sequence[str],
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        """`managers` are members by name; `clock` is steady, `now` is seconds since the epoch."""
        self._fleet = fleet
        self._managers = {name: _Manager() for name in managers}
        self._clock = clock
        self._now = now
        self._telling = Telling(fleet, clock=clock, now=now)
        self._tally = Tally(clock=clock)
        self._workloads: dict[str, dict[Key, Workload]] = {}
        """By member, what is not over."""
        self._since: dict[_Id, tuple[tuple[str, ...], float]] = {}
        """Since when its present nomination stands."""
        self._left: dict[str, dict[str, float]] = {}
        """Members that a Workload, by UID, was put out of: until when."""
        self._admitted: dict[str, float] = {}
        """When a Workload, by UID, was first seen to be some cluster's."""
        self._appeared: set[str] = set()
        """UIDs of Workloads whose pods have all been seen."""
        self._writing: dict[_Id, str] = {}
        """What is being written, and the member that is to have it, or "" for none."""
        self._later: dict[_Id, float] = {}
        self._promised: dict[str, Promised] = {}
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Answer, until cancelled."""
        self._turns = asyncio.Semaphore(_WRITES)
        ends = [self._fleet.follow(objects.RESOURCES, self.seen), self._fleet.on_change(self._stir)]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._telling.run(), name="events of MultiKueue")
                self._news.set()
                again_s: float | None = None
                while True:
                    try:
                        async with asyncio.timeout(again_s):
                            await self._news.wait()
                    except TimeoutError:
                        pass
                    await asyncio.sleep(SETTLE_S)
                    self._news.clear()
                    try:
                        again_s = await self._round(group)
                    except Exception:
                        log.exception("nothing could be nominated")
                        again_s = _AFTER_FAULT_S
        finally:
            for end in ends:
                end()

    def _stir(self) -> None:
        self._news.set()

    # -- what is seen

    def seen(self, member: str, gvr: GroupVersionResource, obj: Object, gone: bool) -> None:
        """An object of `objects.RESOURCES` in a member, as it is now."""
        manager = self._managers.get(member)
        if gvr == objects.WORKLOADS:
            self._workload(member, obj, gone=gone)
        elif manager is None:
            return
        elif gvr == objects.CHECKS:
            config = None if gone else objects.config_of(obj)
            _put(manager.checks, obj["metadata"]["name"], config)
        elif gvr == objects.CONFIGS:
            _put(
                manager.configs, obj["metadata"]["name"], None if gone else objects.clusters_of(obj)
            )
        elif gvr == objects.CLUSTERS:
            worker = None if gone else objects.read_worker(obj)
            _put(manager.workers, obj["metadata"]["name"], worker)
        self._news.set()

    def _workload(self, member: str, obj: Object, *, gone: bool) -> None:
        found = objects.read_workload(obj)
        known = self._workloads.setdefault(member, {})
        before = known.get(found.key)
        if (
            not gone
            and before is not None
            and before.uid == found.uid
            and before.revision > found.revision
        ):
            return  # our own write was answered before it was seen
        manager = self._managers.get(member)
        if gone or found.over:
            if before is not None:
                self._forget(_Id(member, *found.key), before)
            return
        known[found.key] = found
        if manager is None:
            return
        manager.gangs[found.key] = objects.gang_of(obj)
        if before is not None and before.uid == found.uid and found.cluster and not before.cluster:
            self._tally.admitted(member, found.uid, found.cluster)
        if before is not None and before.uid == found.uid and before.cluster and not found.cluster:
            self._put_out(member, manager, before)
        elif before is not None and before.uid != found.uid:
            self._forget_uid(before.uid)

    def _put_out(self, name: str, manager: _Manager, before: Workload) -> None:
        worker = manager.workers.get(before.cluster)
        if worker is not None:
            self._left.setdefault(before.uid, {})[worker.member] = self._clock() + LEFT_S
        self._admitted.pop(before.uid, None)
        self._appeared.discard(before.uid)
        self._tally.put_out(name, before.uid, before.cluster)

    def _forget(self, id: _Id, workload: Workload) -> None:
        self._workloads[id.manager].pop(workload.key, None)
        manager = self._managers.get(id.manager)
        if manager is not None:
            manager.gangs.pop(workload.key, None)
            self._since.pop(id, None)
            self._later.pop(id, None)
            self._forget_uid(workload.uid)

    def _forget_uid(self, uid: str) -> None:
        self._left.pop(uid, None)
        self._admitted.pop(uid, None)
        self._appeared.discard(uid)
        self._telling.forget(uid)
        self._tally.forget(uid)
        self._promise(uid, None)

    # -- what is decided

    async def _round(self, group: asyncio.TaskGroup) -> float | None:
        """Look at everything once. Returns when to look again though nothing happens."""
        times: list[float] = []
        waiting: list[_Waiting] = []
        choices: dict[tuple[str, str], Choice] = {}
        self._complain()
        lines = {name: [0, 0] for name in self._managers}
        for id, workload in self._all():
            manager = self._managers[id.manager]
            check = next((name for name in workload.checks if name in manager.checks), None)
            if check is None:
                continue
            key = id.manager, manager.checks[check]
            choice = choices.get(key)
            if choice is None:
                choice = choices[key] = self._choice(manager, manager.checks[check])
                self._report_unknown(id.manager, manager, choice)
            if workload.cluster:
                times += self._follow_pods(id, workload, choice)
            elif standing.waits(workload, check) or id in self._writing:
                lines[id.manager][0 if workload.nominated else 1] += 1
                found = self._look(id, workload, choice, times)
                if found is not None:
                    waiting.append(found)
            else:
                self._promise(workload.uid, None)
        for name, (nominated, unseated) in lines.items():
            self._tally.waiting(name, nominated=nominated, unseated=unseated)
        waiting.sort(key=lambda each: (-each.workload.priority, each.workload.reserved_at))
        for at in range(0, len(waiting), _AT_ONCE):
            times += self._nominate(filter(self._holds, waiting[at : at + _AT_ONCE]), group)
            await asyncio.sleep(0)  # others have their turn, and may change what waits
        now_s = self._clock()
        return max(0.0, min(times) - now_s) if times else None

    def _all(self) -> Iterator[tuple[_Id, Workload]]:
        for name in self._managers:
            for key, workload in list(self._workloads.get(name, {}).items()):
                yield _Id(name, *key), workload

    def _choice(self, manager: _Manager, config: str) -> Choice:
        clusters = manager.configs.get(config, ())
        return standing.choice_of(config, clusters, manager.workers, self._fleet.members)

    def _look(
        self, id: _Id, workload: Workload, choice: Choice, times: list[float]
    ) -> _Waiting | None:
        """How it stands; None unless another cluster is wanted for it now."""
        now_s = self._clock()
        if id in self._writing:
            return None  # its promise stands
        named, since_s = self._since.get(id, ((), now_s))
        if named != workload.nominated:
            since_s = now_s
        self._since[id] = workload.nominated, since_s
        mute = workload.nominated if now_s >= since_s + ANSWER_S else ()
        stands = standing.standing_of(
            workload, choice, lambda member: self._workloads.get(member, {}).get(workload.key),
            mute=mute,
        )  # fmt: skip
        self._tally.refused(id.manager, workload.uid, stands.refused)
        there = next(iter((*stands.held, *stands.open)), None)
        gang = self._managers[id.manager].gangs[workload.key]
        room = Promised(gang, choice.members[there]) if there is not None else None
        self._promise(workload.uid, room)
        if stands.open:
            times.append(since_s + ANSWER_S)
        later_s = self._later.get(id, now_s)
        if later_s > now_s:
            times.append(later_s)
            return None
        if stands.settled and standing.nominated(workload, stands, choice) == workload.nominated:
            return None
        return _Waiting(id, workload, choice, stands)

    def _follow_pods(self, id: _Id, workload: Workload, choice: Choice) -> list[float]:
        """Keep room for the pods of what a cluster has until they are on nodes."""
        self._telling.forget(workload.uid)
        self._since.pop(id, None)
        if workload.uid in self._appeared:
            return []
        member = choice.members.get(workload.cluster)
        left_s = APPEAR_S - self._age_s(workload)
        seen = workload.pods
        if member is not None and left_s > 0:
            mine = partial(objects.has_pod, workload)
            seen = self._fleet.bound(member, workload.namespace, mine)
        if member is None or seen >= workload.pods:
            self._appeared.add(workload.uid)
            self._promise(workload.uid, None)
            return []
        gang = self._managers[id.manager].gangs[workload.key]
        self._promise(workload.uid, Promised(gang, member, seen))
        return [self._clock() + left_s]

    def _age_s(self, workload: Workload) -> float:
        """How long a cluster has had it: since that was seen here, or, after a restart, since its
        manager says."""
        now_s = self._clock()
        age_s = now_s - self._admitted.setdefault(workload.uid, now_s)
        if workload.admitted_at:
            admitted_s = datetime.fromisoformat(workload.admitted_at).timestamp()
            age_s = max(age_s, self._now() - admitted_s)
        return age_s

    def _holds(self, each: _Waiting) -> bool:
        """Whether it is still as it was looked at."""
        known = self._workloads.get(each.id.manager, {}).get(each.workload.key)
        return known is each.workload and each.id not in self._writing

    def _nominate(self, waiting: Iterable[_Waiting], group: asyncio.TaskGroup) -> list[float]:
        times, now_s = list[float](), self._clock()
        asks = []
        for each in waiting:
            if each.stands.settled:
                self._start(each, each.choice, None, group)
                continue
            left = self._left.get(each.workload.uid, {})
            until = {member: at for member, at in left.items() if at > now_s}
            times += until.values()
            why = dict.fromkeys(until, "it was put out of there a moment ago")
            bars = standing.barred(each.choice, each.stands, self._fleet.members, why)
            gang = self._managers[each.id.manager].gangs[each.workload.key]
            asks.append((each, Ask(each.workload.uid, gang, each.workload.reserved_at, bars)))
        if not asks:
            return times
        answers = self._fleet.seat([ask for _, ask in asks])
        for each, ask in asks:
            answer = answers[ask.uid]
            if isinstance(answer, Seat):
                self._promise(ask.uid, Promised(ask.gang, answer.member))
            elif answer.again_s is not None:
                times.append(now_s + answer.again_s)
            self._start(each, each.choice, answer, group)
        return times

    def _start(
        self, each: _Waiting, choice: Choice, answer: Seat | NoSeat | None, group: asyncio.TaskGroup
    ) -> None:
        """Begin to write what is to stand there, where that is something else."""
        more = choice.cluster_of(answer.member) if isinstance(answer, Seat) else ""
        shut = answer.shut if answer is not None else frozenset[str]()
        names = standing.nominated(each.workload, each.stands, choice, more=more, shut=shut)
        if isinstance(answer, NoSeat):
            self._tell_unseated(each, answer, names)
        if names == each.workload.nominated:
            return
        self._writing[each.id] = answer.member if isinstance(answer, Seat) else ""
        group.create_task(
            self._write(each, names, answer), name=f"nominate for {'/'.join(each.id)}"
        )

    async def _write(
        self, each: _Waiting, names: tuple[str, ...], answer: Seat | NoSeat | None
    ) -> None:
        id, workload = each.id, each.workload
        try:
            async with self._turns:
                written = await write(self._fleet, id.manager, workload, names)
            known = self._workloads.get(id.manager, {}).get(workload.key)
            if written.obj is not None and known is not None and known.uid == workload.uid:
                self.seen(id.manager, objects.WORKLOADS, written.obj, False)
            if written.done:
                self._tally.nominated(id.manager, workload.uid, names)
            if written.done and isinstance(answer, Seat):
                self._telling.tell(id.manager, workload, "Normal", "Nominated", answer.message)
        except ApiError as error:
            self._tally.failed(id.manager)
            forbidden = error.http_code == _FORBIDDEN
            self._put_off(id, error, _AFTER_FAULT_S if forbidden else _AFTER_TROUBLE_S)
        except FleetError as error:
            self._tally.failed(id.manager)
            self._put_off(id, error, _AFTER_TROUBLE_S)
        except Exception:
            log.exception("%s: workload %s: nothing was nominated", id.manager, workload.key)
            self._later[id] = self._clock() + _AFTER_FAULT_S
        finally:
            self._writing.pop(id, None)
            self._news.set()

    def _put_off(self, id: _Id, error: FleetError, wait_s: float) -> None:
        log.warning(
            "%s: workload %s/%s: no nomination was written, it is tried again in %g s: %s",
            *id, wait_s, error,
        )  # fmt: skip
        self._later[id] = self._clock() + wait_s

    # -- what is promised and told

    def _promise(self, uid: str, promised: Promised | None) -> None:
        if self._promised.get(uid) == promised:
            return
        _put(self._promised, uid, promised)
        self._fleet.promise(uid, promised)

    def _tell_unseated(self, each: _Waiting, answer: NoSeat, names: tuple[str, ...]) -> None:
        if not names:
            reason, message = answer.reason, answer.message
        else:
            lines = (f"{name} ({each.stands.refused.get(name, '')})" for name in names)
            reason, message = "WaitsInLine", f"waits in line at {', '.join(lines)}"
        self._telling.tell(each.id.manager, each.workload, "Warning", reason, message)

    def _complain(self) -> None:
        """Say once of each manager why it cannot be served, if it cannot."""
        for name, manager in self._managers.items():
            complaint = ""
            if name not in self._fleet.members:
                complaint = "it is no member of the fleet yet"
            elif self._fleet.serves(name, objects.WORKLOADS) is False:
                complaint = f"it does not serve {objects.API_VERSION} (Kueue 0.15 or newer does)"
            if complaint and complaint != manager.complaint:
                log.warning("%s: nothing is nominated there: %s", name, complaint)
            manager.complaint = complaint

    def _report_unknown(self, name: str, manager: _Manager, choice: Choice) -> None:
        for cluster in choice.unknown:
            self._telling.unknown(name, manager.workers[cluster])


def _put(known: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        known.pop(name, None)
    else:
        known[name] = value
