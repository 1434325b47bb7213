"""ReplicaSets as a rollout changes them, and the bounds it keeps to. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from virtualnode.deployments import templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Object = dict[str, Any]

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many pods a Deployment wants; `surge` more and `unavailable` fewer are all right."""

    desired: int
    surge: int = 0
    unavailable: int = 0

    @classmethod
    def of(cls, deployment: Object) -> Self:
        """As upstream's ResolveFenceposts: surge rounds up, unavailable down, and when both come
        to nothing one pod may be missing, or nothing would ever move."""
        replicas = deployment["spec"].get("replicas")
        desired = 1 if replicas is None else int(replicas)
        if not is_rolling(deployment):
            return cls(desired)
        rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", 0), desired, up=True)
        unavailable = scaled(rolling.get("maxUnavailable", 0), desired, up=False)
        if not surge and not unavailable:
            unavailable = 1
        return cls(desired, surge, min(unavailable, desired))

    @property
    def most(self) -> int:
        return self.desired + self.surge

    @property
    def least(self) -> int:
        """Pods that must be available."""
        return self.desired - self.unavailable

    @property
    def annotations(self) -> Mapping[str, str]:
        """What every set with pods says of them, to tell scaling from a rollout."""
        return {DESIRED: str(self.desired), MOST: str(self.most)}


def is_rolling(deployment: Object) -> bool:
    strategy: Object = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type") != "Recreate")


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """A number, or a percentage of `total` rounded `up` or down. Raises ValueError."""
    if isinstance(value, str):
        share = int(value.removesuffix("%")) * total
        return -(-share // 100) if up else share // 100
    return value


@dataclass(frozen=True, slots=True)
class Sized:
    """A ReplicaSet as it was `seen`, and what of it is to be."""

    seen: Object
    replicas: int
    annotations: Mapping[str, str]
    min_ready_s: int

    @classmethod
    def of(cls, replica_set: Object) -> Self:
        spec = replica_set["spec"]
        return cls(
            replica_set,
            int(spec.get("replicas", 1)),
            replica_set["metadata"].get("annotations") or {},
            int(spec.get("minReadySeconds") or 0),
        )

    @property
    def name(self) -> str:
        return str(self.seen["metadata"]["name"])

    @property
    def actual(self) -> int:
        """Pods it has."""
        return self.count("replicas")

    @property
    def room(self) -> int:
        """Pods it may have at any time until it has the number it is to have."""
        return max(self.replicas, self.actual)

    @property
    def available(self) -> int:
        """Pods of it that are available and stay so: it deletes others first."""
        return min(self.replicas, self.count("availableReplicas"))

    @property
    def changed(self) -> bool:
        return self != Sized.of(self.seen)

    def count(self, field: str) -> int:
        return int((self.seen.get("status") or {}).get(field) or 0)

    def number(self, annotation: str) -> int | None:
        """An annotation that holds a number of pods; None when it does not."""
        text = self.annotations.get(annotation, "")
        return int(text) if text.isascii() and text.isdigit() and int(text) < 2**31 else None

    def resized(self, replicas: int, bounds: Bounds) -> Self:
        """With another number of pods."""
        if replicas == self.replicas:
            return self
        return replace(self, replicas=replicas).noted(bounds)

    def noted(self, bounds: Bounds) -> Self:
        """Saying for which number of the Deployment's pods it has its own."""
        return replace(self, annotations={**self.annotations, **bounds.annotations})

    def applied(self, fresh: Object) -> Object:
        """`fresh`, the object as seen, with what is to be."""
        spec = {**fresh["spec"], "replicas": self.replicas}
        if self.min_ready_s != int(spec.get("minReadySeconds") or 0):
            spec["minReadySeconds"] = self.min_ready_s
        metadata = {**fresh["metadata"], "annotations": dict(self.annotations)}
        return {**fresh, "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of a Deployment: the one with its template, if there is one, and the older ones,
    the oldest first."""

    new: Sized | None
    old: tuple[Sized, ...] = ()

    @classmethod
    def of(cls, deployment: Object, replica_sets: Sequence[Object]) -> Self:
        new = templates.current(deployment, replica_sets)
        old = sorted((s for s in replica_sets if s is not new), key=templates.age)
        return cls(None if new is None else Sized.of(new), tuple(map(Sized.of, old)))

    def __iter__(self) -> Iterator[Sized]:
        yield from self.old
        if self.new is not None:
            yield self.new

    @property
    def active(self) -> list[Sized]:
        """Those that are to have pods."""
        return [each for each in self if each.replicas > 0]

    @property
    def replicas(self) -> int:
        return sum(each.replicas for each in self)

    @property
    def room(self) -> int:
        """Pods there may be at any time until every set has its number."""
        return sum(each.room for each in self)

    @property
    def available(self) -> int:
        return sum(each.available for each in self)

    def put(self, *changed: Sized) -> Self:
        """With some sets in the place of what they were."""
        by_name = {each.name: each for each in changed}
        new = None if self.new is None else by_name.get(self.new.name, self.new)
        return replace(self, new=new, old=tuple(by_name.get(s.name, s) for s in self.old))

    def count(self, field: str) -> int:
        """The sum of a count in their statuses."""
        return sum(each.count(field) for each in self)
