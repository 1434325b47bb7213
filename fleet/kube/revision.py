"""Fleet revisions: one unsigned decimal integer, `epoch << 40 | sequence`.

Clients compare revisions of one resource as integers (k8s.io/apimachinery
`util/resourceversion`, 1.35): positive, decimal, no leading zero. An epoch begins whenever a new
sequencer takes over, so a number of an earlier epoch is told from a present one by its high bits.
"""

from __future__ import annotations

from typing import NewType

from fleet.errors import BadRequest

Revision = NewType("Revision", int)

SEQUENCE_BITS = 40
_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
_MAX_DIGITS = 20


def make(*, epoch: int, sequence: int) -> Revision:
    """The revision number `sequence` of `epoch`. Both start at 1."""
    if epoch < 1 or not 0 <= sequence <= _SEQUENCE_MASK:
        raise ValueError(f"no such revision: epoch {epoch}, sequence {sequence}")
    return Revision(epoch << SEQUENCE_BITS | sequence)


def epoch_of(revision: Revision) -> int:
    return revision >> SEQUENCE_BITS


def sequence_of(revision: Revision) -> int:
    return revision & _SEQUENCE_MASK


def parse(text: str) -> Revision:
    """The revision in a client's `resourceVersion`; "" and "0" both give 0.

    Raises BadRequest for anything but a decimal integer without sign or leading zero.
    """
    if text in ("", "0"):
        return Revision(0)
    if (
        not (text.isascii() and text.isdigit())
        or text[0] == "0"
        or len(text) > _MAX_DIGITS
        or int(text) >= 1 << 64
    ):
        raise BadRequest(f"invalid resource version {text[:64]!r}: not an unsigned integer")
    return Revision(int(text))
