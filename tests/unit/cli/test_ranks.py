"""Logs of all ranks of a Job, as they come: nothing is held in memory but a piece of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet.cli import ranks
from fleet.cli.ranks import Gap, Line, written
from fleet.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOB = {
    "metadata": {"name": "train", "namespace": "shop"},
    "spec": {"completionMode": "Indexed", "completions": 2},
}
STAMP = b"2026-11-29T12:00:%02dZ "


class Client:
    """A gateway with a pod for each of two ranks; `logs` gives the log of each, in pieces."""

    def __init__(self, *logs: Callable[[], Iterator[bytes]]) -> None:
        self.logs = logs
        self.open = self.most_open = 0

    def get(self, path: str, query: Any = ()) -> Any:
        index = "batch.kubernetes.io/job-completion-index"
        return {
            "items": [
                {"metadata": {"name": f"p{n}", "annotations": {index: str(n)}}}
                for n in range(len(self.logs))
            ]
        }

    def stream(self, path: str, query: Any = ()) -> Iterator[bytes]:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        yield from self.logs[int(path.split("/")[-2][1:])]()
        self.open -= 1


def texts(found: Iterator[Line | Gap]) -> list[bytes | Gap]:
    return [each.text if isinstance(each, Line) else each for each in found]


def pieces(*data: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter(data)


@pytest.mark.parametrize("timed", [False, True])
def test_lines_are_whole_however_the_log_comes(timed):
    log = STAMP % 1 + b"one\n" + STAMP % 2 + b"10%\r20%\n\n" + STAMP % 3 + b"end"
    cut = Client(pieces(*(log[at : at + 3] for at in range(0, len(log), 3))), pieces())
    whole = Client(pieces(log), pieces())
    assert texts(written(cut, JOB, (), timed=timed)) == texts(written(whole, JOB, (), timed=timed))
    assert texts(written(whole, JOB, (), timed=timed)) == [
        b"[0] " + line + b"\n" for line in log.split(b"\n")
    ]


def test_a_line_is_shown_before_the_log_has_ended():
    def endless() -> Iterator[bytes]:
        yield b"first\nsec"
        raise AssertionError("the first line was there already")

    assert next(written(Client(endless, pieces()), JOB, (), timed=False)) == Line(b"[0] first\n")


def test_a_line_without_an_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(ranks, "_LONGEST", 10)
    client = Client(pieces(*[b"x" * 8] * 3), pieces())
    assert texts(written(client, JOB, (), timed=False)) == [
        b"[0] " + b"x" * 16 + b"\n", b"[0] " + b"x" * 8 + b"\n",
    ]  # fmt: skip


@pytest.mark.parametrize("timed", [False, True])
def test_what_came_before_a_log_broke_off_is_shown(timed):
    def breaks() -> Iterator[bytes]:
        yield STAMP % 1 + b"one\nhalf"
        raise Unavailable("east is away")

    found = texts(written(Client(breaks, pieces(STAMP % 0 + b"zero\n")), JOB, (), timed=timed))
    assert Gap(0, "east is away") in found
    zero, one = b"[1] " + STAMP % 0 + b"zero\n", b"[0] " + STAMP % 1 + b"one\n"
    assert [each for each in found if isinstance(each, bytes)] == (
        [zero, one] if timed else [one, zero]
    )


def test_ranks_are_merged_by_time_with_one_log_open_at_a_time(monkeypatch):
    monkeypatch.setattr(ranks, "_PIECE", 7)
    logs = [b"".join(STAMP % at + b"%d\n" % at for at in range(first, 40, 2)) for first in (0, 1)]
    client = Client(*map(pieces, logs))
    found = texts(written(client, JOB, (), timed=True))
    assert [int(line.split()[-1]) for line in found] == list(range(40))
    assert client.most_open == 1
