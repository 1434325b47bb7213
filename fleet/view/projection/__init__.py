"""The bijection between a member's objects and the merged world's.

`Projector` does one resource of one member: objects there and back, Status, patches. The way it
walks is the closed table in `fleet.view.references`; the rule and what follows from it are in
docs/projection.md. `PartProjector` does the same for objects of a shard, which appear under the
fleet's names.

Invariant: `unproject(project(x)) = x`, and what a body says is either carried to the member
exactly or refused. Next step: `fleet.view.intake` projects what members tell;
`fleet.view.selectors` translates what selects it.
"""

from __future__ import annotations

from fleet.view.projection.parts import ObjectKey, Part, PartProjector
from fleet.view.projection.projector import Projector

__all__ = ["ObjectKey", "Part", "PartProjector", "Projector"]
