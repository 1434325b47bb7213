"""Which classes use which nodes, of one moment: where exclusive work may not go.

Made at the beginning of a round, of the pods that are seen; what is decided in the round is added
by `fleet.scheduling.rooms`. Work of no class goes anywhere. Next step: `rooms` shuts nodes for the
others, `spare` counts what is left to a donor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class User(NamedTuple):
    """Something that runs on a node."""

    uid: str
    """Of the workload; "" for what is not the fleet's."""
    work: str
    """Its class, "" for none."""
    labelled: bool = True
    """Whether its pods carry the class, so that they keep others away themselves."""


Users = dict[str, dict[str, set[User]]]
"""By cluster and node."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    classes: Mapping[str, str] = field(default_factory=dict)
    """The class of each workload that has one, by uid."""
    users: Users = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.classes)

    def work_of(self, uid: str) -> str:
        return self.classes.get(uid, "")

    def copy(self) -> Occupancy:
        """The same, for a round that adds to it what it decides."""
        users = {
            cluster: {node: set(there) for node, there in nodes.items()}
            for cluster, nodes in self.users.items()
        }
        return Occupancy(self.classes, users)

    def add(self, cluster: str, nodes: Iterable[str], user: User) -> None:
        there = self.users.setdefault(cluster, {})
        for node in nodes:
            there.setdefault(node, set()).add(user)

    def remove(self, uid: str) -> None:
        for nodes in self.users.values():
            for users in nodes.values():
                users.difference_update([each for each in users if each.uid == uid])

    def shut(
        self, cluster: str, work: str, *, gone: Collection[str] = (), to_fleet: bool = True
    ) -> frozenset[str]:
        """Nodes that work of a class may not use, once some uids are gone. `to_fleet`: pods that
        the fleet puts there, which keep away from whatever carries no class."""
        if not work:
            return frozenset()

        def keeps_away(user: User) -> bool:
            if user.uid and user.uid in gone:
                return False
            return user.work != work or (to_fleet and not user.labelled)

        nodes = self.users.get(cluster, {})
        return frozenset(name for name, users in nodes.items() if any(map(keeps_away, users)))
