"""What a reflector feeds.

The view implements it: it projects the objects, numbers the changes and keeps them. All methods
are called in order from one task, so an implementation needs no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Sink(Protocol):
    """The receiving end of one (member, resource).

    Objects are parsed JSON with `apiVersion` and `kind`; the sink may keep or change them.
    """

    def replace(self, objects: Iterable[dict[str, Any]], revision: int) -> Iterator[None] | None:
        """The whole list at a member revision; what is not in it is gone. The sink makes the diff.

        `objects` is parsed as it is iterated, once, and nothing of it is kept here: working
        through it piece by piece never holds all parsed objects. An implementation may be a
        generator that yields after each portion of work: the reflector runs it to its end and
        gives the event loop a turn at every `yield`; no other call comes in between. If the task
        ends meanwhile the generator is closed, and a whole list comes again before anything else.
        """

    def upsert(self, obj: dict[str, Any]) -> None:
        """An object was made or changed."""

    def remove(self, obj: dict[str, Any]) -> None:
        """An object is gone. Its last state; `metadata.resourceVersion` is the deletion's."""

    def progress(self, revision: int) -> None:
        """Everything up to this member revision has been given."""
