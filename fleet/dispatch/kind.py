"""What dispatch has to know of a kind of workload: the seam between the protocol and its objects.

The protocol – look, decide, store, act, fold – is the same for every kind and asks a `Kind` for all
that differs. A kind is a package beside this module, listed in `kinds`; nothing else of dispatch
names one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.shape import Terms, Workload
    from fleet.dispatch.sight import PodView, ShardView, Sight
    from fleet.kube.resources import GroupVersionResource

Object = dict[str, Any]
Propagation = Literal["Foreground", "Background"]


class Kind(Protocol):
    """A kind of workload, at the gateway and in members."""

    @property
    def name(self) -> str:
        """As an object says it: `Job`."""

    @property
    def gvr(self) -> GroupVersionResource:
        """Of the fleet's objects, and of their shards in members."""

    @property
    def lapses(self) -> bool:
        """Whether a member can hold a lease of a shard: a deadline that it keeps itself, and that
        can be moved further away. Where it cannot, only a shard that was seen gone is gone."""

    @property
    def propagation(self) -> Propagation:
        """How shards are deleted."""

    # -- the fleet's object

    def read(self, obj: Object) -> Workload:
        """The fleet's object."""

    def stub(self, metadata: Object) -> Workload:
        """One that is there no more, as far as its record remembers it."""

    def fold(
        self, workload: Workload, record: Record, sights: Mapping[str, Sight], *, now: float
    ) -> Object:
        """The fleet's object as it is to be, made of its record and of what is seen of its shards;
        equal to what is there when nothing changed. `sights` are by cluster."""

    # -- the shard's object

    def gate_name(self, shard: str) -> str:
        """The ConfigMap that lets a shard's pods start."""

    def shape(self, workload: Workload, shard: Shard, terms: Terms) -> Object:
        """The shard's object as it is created."""

    def view(self, obj: Mapping[str, Any]) -> ShardView:
        """The shard's object as decisions see it."""

    def pods_in(self, obj: Mapping[str, Any]) -> tuple[PodView, ...] | None:
        """The pods of a shard, where its object tells of all; None where they are to be listed."""

    def deadline(self, seconds: int) -> Object:
        """A merge patch that ends a shard so long after its start. Asked only where it `lapses`,
        or to stop a shard."""

    def unleased(self, workload: Workload) -> Object:
        """A merge patch that leaves a shard without a lease, with the user's own limits."""

    def sized(self, workload: Workload, count: int) -> Object:
        """A merge patch that makes a shard be of so many pods. Asked only where it can be."""

    def followed(self, workload: Workload, view: ShardView) -> Object | None:
        """A merge patch that brings to a shard what was changed at the fleet's object since; None
        where there is nothing to bring."""
