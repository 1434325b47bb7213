"""Pods of a trace on machines: who gets a place, how full it becomes, and who gets none and why.

Played as it was, pods arrive and leave by their times; who finds no room waits, and is tried again,
in the order of arrival, when somebody leaves. Filled, as fragmentation is measured by (Weng et al.,
ATC 2023), pods are drawn in random order, then more of them drawn from the same list, until so much
was asked for; nobody leaves, and who finds no room is turned away. Next step: `told`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from fleet.scheduling.nodelevel.chooser import Chooser
from fleet.scheduling.nodelevel.machines import Request

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from fleet.scheduling.nodelevel.chooser import Choice
    from fleet.scheduling.nodelevel.machines import Machine
    from fleet.scheduling.nodelevel.rules import Rule
    from fleet.scheduling.nodelevel.trace import Trace

_LEAVES: Final = 0
_ARRIVES: Final = 1
Kind = tuple[str, int]
"""Model of the devices of a machine, and how many it has."""


@dataclass(slots=True)
class Use:
    """Thousandths of devices in use on some machines."""

    whole: int = 0
    now: int = 0
    peak: int = 0
    _sum: float = 0
    """Thousandths × seconds."""
    _since_s: float = 0

    def change(self, by: int, at_s: float) -> None:
        self._sum += self.now * (at_s - self._since_s)
        self._since_s = at_s
        self.now += by
        self.peak = max(self.peak, self.now)

    def mean(self, until_s: float) -> float:
        """Over all the time from 0; at the end where no time has passed."""
        spent = self._sum + self.now * (until_s - self._since_s)
        return spent / until_s if until_s > 0 else self.now


@dataclass(slots=True)
class Filled:
    """What became of it."""

    machines: tuple[Machine, ...]
    """As they are at the end."""
    use: dict[Kind, Use]
    total: Use
    asked: int = 0
    """Thousandths of devices, of all that came."""
    arrived: int = 0
    placed: int = 0
    waits_s: list[float] = field(default_factory=list)
    """Of those who were placed and had to wait."""
    turned_away: Counter[tuple[str, Request]] = field(default_factory=Counter)
    """Those without a place at the end, by reason and what they ask for."""
    lasted_s: float = 0


class _Floor:
    """The machines with the counts that are kept of them."""

    def __init__(self, trace: Trace, rule: Rule) -> None:
        self.empty = trace.machines
        self.chooser = Chooser(trace.machines, rule)
        self._kinds = {each.name: kind_of(each) for each in trace.machines}
        self.use: dict[Kind, Use] = {}
        self.total = Use(trace.thousandths)
        for each in trace.machines:
            self.use.setdefault(kind_of(each), Use()).whole += sum(each.left)

    def put(self, request: Request, at_s: float) -> Choice | None:
        choice = self.chooser.choose(request)
        if choice is not None:
            self.chooser.take(request, choice)
            self._change(choice, request.taken, at_s)
        return choice

    def leave(self, request: Request, choice: Choice, at_s: float) -> None:
        self.chooser.give(request, choice)
        self._change(choice, -request.taken, at_s)

    def _change(self, choice: Choice, by: int, at_s: float) -> None:
        for use in (self.total, self.use[self._kinds[choice.machine]]):
            use.change(by, at_s)

    def why_not(self, request: Request) -> str:
        return why_not(request, self.chooser.machines, self.empty)


def kind_of(machine: Machine) -> Kind:
    return machine.model if machine.left else "", len(machine.left)


def filled(trace: Trace, rule: Rule, *, asked: float, chance: random.Random) -> Filled:
    """Until `asked` times the devices there are was asked for. Draws for ever where no pod asks for
    any: to be refused before."""
    floor = _Floor(trace, rule)
    out = Filled(trace.machines, floor.use, floor.total)
    arriving, most = chance.sample(trace.pods, len(trace.pods)), asked * trace.thousandths
    while out.asked < most:
        request = (arriving.pop() if arriving else chance.choice(trace.pods)).request
        out.arrived += 1
        out.asked += request.taken
        if floor.put(request, 0) is not None:
            out.placed += 1
        else:
            out.turned_away[floor.why_not(request), request] += 1
    out.machines = tuple(floor.chooser.machines)
    return out


def played(trace: Trace, rule: Rule, *, until_s: float | None = None) -> Filled:
    """By the times of the pods, from the first arrival on."""
    floor = _Floor(trace, rule)
    out = Filled(trace.machines, floor.use, floor.total)
    began_s = min(pod.arrives_s for pod in trace.pods)
    events: list[tuple[float, int, int]] = []
    for number, pod in enumerate(trace.pods):
        heappush(events, (pod.arrives_s - began_s, _ARRIVES, number))
    waiting: dict[int, None] = {}
    places: dict[int, Choice] = {}

    def start(number: int, at_s: float) -> bool:
        pod = trace.pods[number]
        choice = floor.put(pod.request, at_s)
        if choice is None:
            return False
        out.placed += 1
        places[number] = choice
        if pod.runs_s is not None:
            heappush(events, (at_s + pod.runs_s, _LEAVES, number))
        return True

    while events and (until_s is None or events[0][0] <= until_s):
        now_s = out.lasted_s = events[0][0]
        left = False
        while events and events[0][:2] == (now_s, _LEAVES):
            number = heappop(events)[2]
            floor.leave(trace.pods[number].request, places.pop(number), now_s)
            left = True
        hopeless: set[Request] = set()
        for number in [*waiting] if left else []:
            pod = trace.pods[number]
            if pod.request in hopeless:
                continue
            if start(number, now_s):
                del waiting[number]
                out.waits_s.append(now_s + began_s - pod.arrives_s)
            else:
                hopeless.add(pod.request)
        while events and events[0][:2] == (now_s, _ARRIVES):
            number = heappop(events)[2]
            out.arrived += 1
            out.asked += trace.pods[number].request.taken
            if not start(number, now_s):
                waiting[number] = None
    if until_s is not None and events:
        out.lasted_s = until_s
    for number in waiting:
        request = trace.pods[number].request
        out.turned_away[floor.why_not(request), request] += 1
    out.machines = tuple(floor.chooser.machines)
    return out


def why_not(request: Request, machines: Sequence[Machine], empty: Sequence[Machine]) -> str:
    """One word for why none of the machines, as they are, has room. `empty` are all of them with
    nothing on them."""
    if not any(not request.models or each.model in request.models for each in empty):
        return "NoSuchModel"
    if not any(each.options(request) for each in empty):
        return "TooLarge"
    devices = Request(0, 0, request.devices, request.share, request.models)
    able = [each for each in machines if each.options(devices)]
    if able:
        cores = sum(each.cpu < request.cpu for each in able)
        return "NoCores" if 2 * cores >= len(able) else "NoMemory"
    allowed = [each for each in machines if not request.models or each.model in request.models]
    free = sum(sum(each.left) for each in allowed)
    return "InParts" if free >= request.taken else "Full"
