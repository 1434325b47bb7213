"""The fleet revision: one counter an epoch, one number a change.

Members' events are numbered the moment they arrive. A store that must make a write durable first
*reserves* the next number; changes that arrive meanwhile wait in order, so numbers are published
in the order in which they were given and a reader at revision R never misses one below R.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet.kube import revision as revisions
from fleet.kube.revision import Revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Sequencer:
    """Gives out revisions of one epoch. Not thread-safe: one event loop owns it."""

    def __init__(self, *, epoch: int) -> None:
        self.epoch = epoch
        self._current = revisions.make(epoch=epoch, sequence=1)
        self._reserved = False
        self._waiting: deque[Callable[[Revision], None]] = deque()

    @property
    def current(self) -> Revision:
        """The newest published revision: everything up to it has been applied."""
        return self._current

    @property
    def first(self) -> Revision:
        """The oldest revision of this epoch; anything below is of another sequencer."""
        return revisions.make(epoch=self.epoch, sequence=1)

    def next(self) -> Revision:
        """Take and publish the next number; the caller applies its change before it yields.

        Raises RuntimeError while a number is reserved: use `submit`.
        """
        if self._reserved:
            raise RuntimeError("a revision is reserved; changes must be submitted")
        self._current = Revision(self._current + 1)
        return self._current

    def submit(self, apply: Callable[[Revision], None]) -> None:
        """Number a change and apply it: at once, or after the reservation under way."""
        if self._reserved:
            self._waiting.append(apply)
        else:
            apply(self.next())

    @contextmanager
    def reserve(self) -> Iterator[Revision]:
        """Hold back publication while the change numbered here is made durable.

        The block applies its change before it leaves; an exception gives the number up (a gap is
        harmless, a re-used number is not). Reservations do not nest.
        """
        if self._reserved:
            raise RuntimeError("a revision is reserved already")
        self._reserved = True
        number = Revision(self._current + 1)
        try:
            yield number
        finally:
            self._current = number
            self._reserved = False
            while self._waiting and not self._reserved:
                self._waiting.popleft()(self.next())
