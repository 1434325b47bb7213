"""What others may add to placement: filters, scores and price sources, found as entry points.

An installed distribution names a class in one of the groups `fleet.scheduling.filters`, `.scores`
and `.prices`; `load`, called once by the composition root, makes one of each. A class that cannot
be used stops the gateway: a filter that is silently missing lets work go where it must not. What
goes wrong later stays with the one who did it: a filter that fails keeps the cluster out, a
score that fails counts nothing, a price source that fails says nothing new, and what it said is
unknown once it is too old; each says so by name. examples/extension has one of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from fleet.errors import ConfigError, Invalid
from policies import PRICE_BOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand

Object = dict[str, Any]
T = TypeVar("T")

FILTERS: Final = "fleet.scheduling.filters"
SCORES: Final = "fleet.scheduling.scores"
PRICES: Final = "fleet.scheduling.prices"


class Filter(Protocol):
    """Keeps clusters out."""

    def why_not(self, demand: Demand, cluster: Cluster) -> str:
        """Why the workload may not go there, as its user shall read it; "" where it may. The same
        question has the same answer: placement asks once per decision."""


class Score(Protocol):
    """Prefers some clusters to others where the policy and the price do not."""

    def score(self, demand: Demand, cluster: Cluster) -> int:
        """Larger is better. Compared among choices of equal tier, number of clusters and price."""


class PriceSource(Protocol):
    """Knows prices, e.g. of a cloud's spot market."""

    def prices(self) -> Mapping[str, Any]:
        """The spec of a PriceBook, as one would write it in a file; it may take its time, and is
        called in a thread of its own."""


@dataclass(frozen=True, slots=True)
class Extension(Generic[T]):
    """One that was found, by the name of its entry point and the distribution it comes from."""

    name: str
    distribution: str
    made: T

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution})"


@dataclass(frozen=True, slots=True)
class Scored:
    """The sum of all scores, and what went wrong with some."""

    value: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Books:
    """PriceBooks as objects, sound and with defaults, and what went wrong with some."""

    objects: tuple[Object, ...] = ()
    warnings: tuple[str, ...] = ()


def _nobody(kind: str, name: str, error: str) -> None:
    """Until somebody listens."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """Everything that was found, each group by name. Without any, nothing is different.

    `failed` is told (`filter`, `score` or `price source`, the extension, what went wrong) of each
    that fails.
    """

    filters: tuple[Extension[Filter], ...] = ()
    scores: tuple[Extension[Score], ...] = ()
    prices: tuple[Extension[PriceSource], ...] = ()
    failed: Callable[[str, str, str], None] = _nobody

    @property
    def decide(self) -> bool:
        """Whether any has a say in where work goes."""
        return bool(self.filters or self.scores)

    def applied(
        self, demand: Demand, clusters: Iterable[Cluster]
    ) -> tuple[tuple[Cluster, ...], dict[str, int]]:
        """The clusters with what filters say of them for a workload, and the scores of those that
        are let in. Each extension is asked once for each cluster."""
        if not self.decide:
            return tuple(clusters), {}
        found, scores = [], {}
        for cluster in clusters:
            why = self.why_not(demand, cluster)
            found.append(replace(cluster, filtered_because=why) if why else cluster)
            if not why:
                scores[cluster.name] = self.score(demand, cluster).value
        return tuple(found), scores

    def why_not(self, demand: Demand, cluster: Cluster) -> str:
        """Why a filter keeps the cluster out, the first by name; "" where none does."""
        for each in self.filters:
            try:
                why = each.made.why_not(demand, cluster)
                if not isinstance(why, str):
                    raise TypeError(f"its answer is {type(why).__name__}, not a text")
            except Exception as error:  # whatever others' code may raise
                self.failed("filter", str(each), _said(error))
                return f"filter {each} failed, so it is not known to allow it: {_said(error)}"
            if why:
                return f"{why} (filter {each.name})"
        return ""

    def score(self, demand: Demand, cluster: Cluster) -> Scored:
        """The sum of what all scores say of a cluster."""
        value, warnings = 0, list[str]()
        for each in self.scores:
            try:
                said = each.made.score(demand, cluster)
                if not isinstance(said, int):
                    raise TypeError(f"its answer is {type(said).__name__}, not a whole number")
            except Exception as error:  # whatever others' code may raise
                self.failed("score", str(each), _said(error))
                warnings.append(f"score {each} failed and counts nothing: {_said(error)}")
                continue
            value += said
        return Scored(value, tuple(warnings))

    def read_prices(self) -> Books:
        """What all price sources say now. It takes as long as they do: not for the event loop.

        Each becomes a PriceBook of the source's name.
        """
        objects, warnings = list[Object](), list[str]()
        for each in self.prices:
            try:
                book = {
                    "apiVersion": "fleet.dev/v1alpha1",
                    "kind": "PriceBook",
                    "metadata": {"name": each.name},
                    "spec": dict(each.made.prices()),
                }
                PRICE_BOOK.rules.default(book)
                PRICE_BOOK.rules.validate(book, None)
            except Invalid as error:
                self.failed("price source", str(each), error.message)
                warnings.append(f"price source {each} says what no PriceBook can: {error.message}")
            except Exception as error:  # whatever others' code may raise
                self.failed("price source", str(each), _said(error))
                warnings.append(f"price source {each} failed: {_said(error)}")
            else:
                objects.append(book)
        return Books(tuple(objects), tuple(warnings))


NONE: Final = Extensions()


def load(
    find: Callable[..., Iterable[metadata.EntryPoint]] = metadata.entry_points,
    *,
    failed: Callable[[str, str, str], None] = _nobody,
) -> Extensions:
    """Everything that is installed; `failed` as there. Raises ConfigError naming each that cannot
    be used."""
    faults: list[str] = []
    found = Extensions(
        filters=_loaded(FILTERS, "why_not", find, faults),
        scores=_loaded(SCORES, "score", find, faults),
        prices=_loaded(PRICES, "prices", find, faults),
        failed=failed,
    )
    if faults:
        raise ConfigError("; ".join(faults))
    return found


def _loaded(
    group: str,
    method: str,
    find: Callable[..., Iterable[metadata.EntryPoint]],
    faults: list[str],
) -> tuple[Extension[Any], ...]:
    made: dict[str, Extension[Any]] = {}
    for point in sorted(find(group=group), key=lambda each: (each.name, each.value)):
        where = point.dist.name if point.dist is not None else point.value
        what = f"{group} has {point.name} of {where}"
        if point.name in made:
            faults.append(f"{what}, and one of {made[point.name].distribution}: uninstall one")
            continue
        try:
            extension = point.load()()
        except Exception as error:  # whatever others' code may raise
            faults.append(f"{what}, which cannot be made: {_said(error)}; mend it or uninstall it")
            continue
        if not callable(getattr(extension, method, None)):
            faults.append(f"{what}, which lacks the method `{method}`; mend it or uninstall it")
            continue
        made[point.name] = Extension(point.name, where, extension)
    return tuple(made.values())


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
