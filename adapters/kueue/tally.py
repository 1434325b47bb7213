"""What the dispatcher counts: who was nominated, what came of it, and after how long.

What one nomination came to is counted once: what the worker's Kueue said of it, or that it said
nothing in time; and, whatever it had said before, that it has the Workload. Nothing is read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import Counter, Gauge, Histogram

from adapters.kueue.standing import KUEUE_SAYS, SILENT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Answer = Literal["Admitted", "Refused", "Silent", "NotReached", "PutOut"]

WAITING: Final = Gauge(
    "fleet_multikueue_waiting",
    "Workloads of a manager that wait for the fleet or for the clusters that it nominated.",
    ["manager", "nominated"],
)
NOMINATIONS: Final = Counter(
    "fleet_multikueue_nominations_total", "Clusters that were nominated.", ["manager", "cluster"]
)
ANSWERS: Final = Counter(
    "fleet_multikueue_answers_total",
    "What nominations came to.",
    ["manager", "cluster", "answer"],
)
ANSWER_S: Final = Histogram(
    "fleet_multikueue_answer_duration_seconds",
    "From a nomination until its cluster had the Workload, or refused it.",
    ["manager", "answer"],
    buckets=(0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000),
)
FAILURES: Final = Counter(
    "fleet_multikueue_write_failures_total",
    "Nominations that could not be written.",
    ["manager"],
)


class Tally:
    """Of what was nominated since the gateway began."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: dict[str, dict[str, float | None]] = {}
        """By UID of the Workload, since when each cluster is to answer; None once it has."""

    def nominated(self, manager: str, workload: str, clusters: Collection[str]) -> None:
        """These stand there as of now."""
        before = self._asked.get(workload, {})
        for name in clusters:
            if name not in before:
                NOMINATIONS.labels(manager, name).inc()
        now_s = self._clock()
        self._asked[workload] = {name: before.get(name, now_s) for name in clusters}

    def refused(self, manager: str, workload: str, why: Mapping[str, str]) -> None:
        """Those clusters do not take it now."""
        for name, message in why.items():
            if message == SILENT:
                answer: Answer = "Silent"
            else:
                answer = "Refused" if message.startswith(KUEUE_SAYS) else "NotReached"
            since_s = self._asked.get(workload, {}).get(name)
            if since_s is not None:
                self._answer(manager, workload, name, answer)
                if answer == "Refused":
                    ANSWER_S.labels(manager, answer).observe(self._clock() - since_s)

    def admitted(self, manager: str, workload: str, cluster: str) -> None:
        since_s = self._asked.get(workload, {}).get(cluster)
        self._answer(manager, workload, cluster, "Admitted")
        if since_s is not None:
            ANSWER_S.labels(manager, "Admitted").observe(self._clock() - since_s)
        self.forget(workload)

    def put_out(self, manager: str, workload: str, cluster: str) -> None:
        self._answer(manager, workload, cluster, "PutOut")

    def failed(self, manager: str) -> None:
        FAILURES.labels(manager).inc()

    def waiting(self, manager: str, *, nominated: int, unseated: int) -> None:
        WAITING.labels(manager, "true").set(nominated)
        WAITING.labels(manager, "false").set(unseated)

    def forget(self, workload: str) -> None:
        self._asked.pop(workload, None)

    def _answer(self, manager: str, workload: str, cluster: str, answer: Answer) -> None:
        ANSWERS.labels(manager, cluster, answer).inc()
        asked = self._asked.get(workload, {})
        if cluster in asked:
            asked[cluster] = None
