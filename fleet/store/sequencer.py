"""The fleet revision: one counter an epoch, one number a change.

Members' events are numbered the moment they arrive. A store that must make writes durable first
*reserves* the next numbers; changes that arrive meanwhile wait in order, so numbers are published
in the order in which they were given and a reader at revision R never misses one below R.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet.kube import revision as revisions
from fleet.kube.revision import Revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)


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
    def reserve(self, count: int = 1) -> Iterator[Revision]:
        """Hold back publication while up to `count` changes are made durable, numbered from the
        one given on; at least one number is taken.

        The block applies its changes, in order and without yielding to the event loop in between,
        before it leaves. Numbers it does not use are given up, and all of them when it raises: a
        gap is harmless, a re-used number is not. Reservations do not nest.
        """
        if self._reserved:
            raise RuntimeError("a revision is reserved already")
        self._reserved = True
        first = Revision(self._current + 1)
        try:
            yield first
        finally:
            self._current = Revision(self._current + max(count, 1))
            self._reserved = False
            self._apply_waiting()

    def _apply_waiting(self) -> None:
        while self._waiting and not self._reserved:
            apply = self._waiting.popleft()
            try:
                apply(self.next())
            except Exception:
                # it must neither pass for a failure of the write it waited for, nor hold up the
                # changes behind it
                log.exception("a change that waited for a write could not be applied")
