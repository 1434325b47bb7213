"""The list and watch loop against a member that follows a script."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from fleet.errors import Expired, TransportError
from tests.unit.members.conftest import (
    FAST,
    PODS,
    Recorder,
    Stream,
    bookmark,
    failed,
    frame,
    ok,
    pod,
    refusal,
)

FAR = float("inf")


def opening(*names: str, revision: int = 10) -> Stream:
    """A WatchList that has sent its initial events."""
    frames = [frame("ADDED", pod(name, at)) for at, name in enumerate(names, start=1)]
    return Stream(*frames, bookmark(revision, ends=True))


async def test_initial_events_become_one_whole_list(script, sink, reflect):
    stream = opening("a", "b")
    script.then(ok(stream))
    reflector = reflect()
    await sink.saw("replace", (["a", "b"], 10))
    await reflector.synced.wait()
    assert script.requests[0].path == "/api/v1/pods"
    assert script.query(1)["sendInitialEvents"] == "true"
    assert script.query(1)["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in script.query(1)
    assert 300 <= int(script.query(1)["timeoutSeconds"]) <= 600
    stream.send(frame("MODIFIED", pod("b", 11)), frame("DELETED", pod("a", 12)), bookmark(20))
    await sink.saw("progress", 20)
    assert sink.calls[1:] == [("upsert", "b"), ("remove", "a"), ("progress", 20)]
    assert reflector.last_revision == 20
    assert reflector.failure == ""


async def test_changes_among_the_initial_events_count(script, sink, reflect):
    script.then(
        ok(
            Stream(
                frame("ADDED", pod("a", 1)),
                frame("ADDED", pod("b", 2)),
                frame("DELETED", pod("a", 3)),
                frame("MODIFIED", pod("b", 4)),
                bookmark(3),
                bookmark(5, ends=True),
            )
        )
    )
    reflect()
    await sink.saw("replace", (["b"], 5))
    assert sink.objects["b"]["metadata"]["resourceVersion"] == "4"
    assert len(sink.calls) == 1


async def test_equal_names_in_two_namespaces_are_two_objects(script, reflect):
    class Keys(Recorder):
        def replace(self, objects, revision):
            self._note("replace", sorted(o["metadata"]["namespace"] for o in objects))

    sink = Keys()
    script.then(
        ok(Stream(frame("ADDED", pod("a", 1, "x")), frame("ADDED", pod("a", 2, "y")),
                  bookmark(2, ends=True)))
    )  # fmt: skip
    reflect(into=sink)
    await sink.saw("replace", ["x", "y"])


async def test_a_clean_end_is_resumed_at_the_last_bookmark(script, sink, reflect):
    second = Stream()
    script.then(ok(opening("a").send(bookmark(42)).end()), ok(second))
    reflector = reflect()
    await script.asked(2)
    assert script.query(2)["resourceVersion"] == "42"
    assert script.query(2)["allowWatchBookmarks"] == "true"
    assert "sendInitialEvents" not in script.query(2)
    second.send(frame("ADDED", pod("b", 43)))
    await sink.saw("upsert", "b")
    assert [call for call, _ in sink.calls].count("replace") == 1
    assert reflector.failure == ""


async def test_a_broken_watch_is_resumed_at_the_last_event(script, sink, reflect):
    broken = opening("a").send(frame("MODIFIED", pod("a", 11))).fail(TransportError("cut"))
    script.then(ok(broken), ok(Stream(frame("ADDED", pod("b", 12)))))
    reflect()
    await sink.saw("upsert", "b")
    assert script.query(2)["resourceVersion"] == "11"
    assert broken.closed


@pytest.mark.parametrize(
    "gone",
    [
        failed(410, "Expired"),
        Expired("too old resource version"),
        ok(Stream(frame("ERROR", refusal(410, "Expired")))),
        ok(Stream(frame("ERROR", {"kind": "Status", "reason": "Gone"}))),
    ],
    ids=["status", "raised", "frame", "frame-without-code"],
)
async def test_a_revision_that_is_gone_is_listed_anew_at_once(script, sink, reflect, gone):
    script.then(ok(opening("a", "b").end()), gone, ok(opening("b", "c", revision=30)))
    reflector = reflect(pace=replace(FAST, first_wait_s=3600, longest_wait_s=3600))
    await sink.saw("replace", (["b", "c"], 30))
    assert script.query(3)["sendInitialEvents"] == "true"
    assert reflector.last_revision == 30
    assert reflector.failure == ""


async def test_gone_again_and_again_waits_between(script, sink, reflect):
    script.then(
        ok(opening("a").end()), failed(410), ok(opening("a").end()), failed(410, message="no luck")
    )
    reflector = reflect(pace=replace(FAST, first_wait_s=3600, longest_wait_s=3600))
    await script.asked(4)
    assert not await reflector.confirm(FAR)
    assert reflector.failure == "no luck"


async def test_a_watch_that_ends_at_once_is_a_failure(script, sink, reflect):
    script.then(ok(opening("a").end()), ok(Stream().end()), ok(Stream()))
    reflector = reflect(pace=replace(FAST, first_wait_s=3600, longest_wait_s=3600))
    await script.asked(2)
    assert not await reflector.confirm(FAR)
    assert "without a word" in reflector.failure
    await script.asked(3)


@pytest.mark.parametrize("code", [400, 405, 406, 415, 422])
async def test_watchlist_refused_falls_back_to_pages_for_good(script, sink, reflect, code):
    page = {"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []}
    first = {**page, "metadata": {"resourceVersion": "7", "continue": "t1"},
             "items": [{"metadata": {"name": "a"}}]}  # fmt: skip
    last = {**page, "items": [{"metadata": {"name": "b"}}]}
    script.then(
        failed(code),
        ok(first),
        ok(last),
        failed(410),
        ok(page),
        ok(Stream(frame("ADDED", pod("c", 9)))),
    )
    reflect()
    await sink.saw("replace", (["a", "b"], 7))
    await sink.saw("replace", ([], 7))
    await sink.saw("upsert", "c")
    assert script.query(2) == {"limit": "500"}
    assert script.query(3) == {"limit": "500", "continue": "t1"}
    assert script.query(4)["resourceVersion"] == "7"
    assert all("sendInitialEvents" not in script.query(n) for n in range(2, 7))


async def test_items_of_a_list_get_the_kind_they_lack(script, sink, reflect):
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "kind": "Odd"}]
    script.then(
        failed(422),
        ok({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": items}),
        ok(Stream()),
    )
    reflect()
    await sink.saw("replace", (["a", "b"], 7))
    assert list(sink.objects["a"])[:2] == ["kind", "apiVersion"]
    assert sink.objects["a"]["kind"] == "Pod"
    assert sink.objects["b"]["kind"] == "Odd"


async def test_a_page_token_that_expired_is_answered_by_an_unpaged_list(script, sink, reflect):
    first = {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "t"}, "items": []}
    whole = {"kind": "PodList", "metadata": {"resourceVersion": "9"},
             "items": [{"metadata": {"name": "a"}}]}  # fmt: skip
    script.then(failed(422), ok(first), failed(410), ok(whole), ok(Stream()))
    reflect()
    await sink.saw("replace", (["a"], 9))
    assert script.query(4) == {}


@pytest.mark.parametrize(
    "answer",
    [
        lambda: ok({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []}),
        lambda: ok(Stream(b'{"kind":"PodList","metadata":{},"items":[]}\n').end()),
        lambda: ok(Stream(frame("ADDED", pod("a", 1))).end()),
        lambda: ok(Stream(frame("ERROR", refusal(500, "InternalError")))),
        lambda: ok(Stream(frame("ADDED", pod("a", 1)), bookmark(3))),
    ],
    ids=["a-list", "a-list-as-stream", "ends-early", "error-frame", "never-ends"],
)
async def test_a_member_that_does_not_know_watchlist_is_listed(script, sink, reflect, answer):
    script.then(
        answer(),
        ok({"kind": "PodList", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a"}}]}),
        ok(Stream()),
    )  # fmt: skip
    reflect(pace=replace(FAST, initial_silence_s=0.01))
    await sink.saw("replace", (["a"], 7))
    assert len(sink.calls) == 1


async def test_a_moments_failure_does_not_cost_watchlist_for_ever(script, sink, reflect):
    script.then(
        ok(Stream(frame("ADDED", pod("a", 1))).end()), TransportError("down"), ok(opening("a"))
    )
    reflect()
    await sink.saw("replace", (["a"], 10))
    assert script.query(2) == {"limit": "500"}
    assert script.query(3)["sendInitialEvents"] == "true"


async def test_down_during_the_list_keeps_what_was_known(script, sink, reflect):
    first = {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "t"},
             "items": [{"metadata": {"name": "a"}}]}  # fmt: skip
    whole = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []}
    script.then(
        failed(422), ok(whole), failed(410), ok(first), TransportError("down"), ok(first),
        ok({**whole, "metadata": {"resourceVersion": "11"}}), ok(Stream()),
    )  # fmt: skip
    reflect()
    await sink.saw("replace", (["a"], 11))
    assert sink.calls == [("replace", ([], 9)), ("replace", (["a"], 11))]


async def test_down_during_initial_events_keeps_what_was_known(script, sink, reflect):
    script.then(
        ok(opening("a", "b").end()),
        failed(410),
        ok(Stream(frame("ADDED", pod("b", 3))).fail(TransportError("down"))),
        ok(opening("b", "c", revision=30)),
    )
    reflect()
    await sink.saw("replace", (["b", "c"], 30))
    assert [call for call, _ in sink.calls] == ["replace", "replace"]


@pytest.mark.parametrize("code", [401, 403, 404, 429, 503])
async def test_an_error_that_is_not_about_watchlist_is_tried_again(script, sink, reflect, code):
    script.then(failed(code, message="not today"), ok(opening("a")))
    pace = replace(FAST, first_wait_s=3600, longest_wait_s=3600)
    reflector = reflect(pace=pace)
    assert not await reflector.confirm(FAR)
    assert reflector.failure == "not today"
    assert not reflector.synced.is_set()
    await sink.saw("replace", (["a"], 10))
    assert script.query(2)["sendInitialEvents"] == "true"
    assert reflector.failure == ""


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("within", [False, True], ids=["at-its-opening", "within-a-watch"])
async def test_a_watch_goes_on_once_credentials_are_good_again(script, sink, reflect, code, within):
    refused = failed(code, message="not you")
    if within:
        refused = ok(Stream(frame("ERROR", refusal(code, message="not you"))))
    script.then(
        ok(opening("a").send(frame("ADDED", pod("b", 11))).end()),
        refused,
        failed(code, message="not you"),
        ok(Stream(frame("ADDED", pod("c", 12)))),
    )
    reflect()
    await sink.saw("upsert", "c")
    assert [call for call, _ in sink.calls].count("replace") == 1
    assert [script.query(n)["resourceVersion"] for n in (2, 3, 4)] == ["11", "11", "11"]
    assert set(sink.objects) == {"a", "b", "c"}


async def test_a_watch_that_was_refused_too_long_is_listed_anew(script, sink, reflect):
    script.then(ok(opening("a").end()), failed(401), failed(410), ok(opening("b", revision=30)))
    reflect()
    await sink.saw("replace", (["b"], 30))
    assert script.query(3)["resourceVersion"] == "10"
    assert script.query(4)["sendInitialEvents"] == "true"


async def test_a_line_of_megabytes_arrives(script, sink, reflect):
    big = frame("ADDED", pod("big", 11, data="y" * 1_400_000))
    stream = opening("a").send(*(big[at : at + 4096] for at in range(0, len(big), 4096)))
    script.then(ok(stream))
    reflect()
    await sink.saw("upsert", "big")
    assert len(sink.objects["big"]["data"]) == 1_400_000


@pytest.mark.parametrize(
    "garbage",
    [b"nonsense\n", b'{"type":"ADDED"}\n', b"[1]\n", b'{"type":"ADDED","object":{}}\n', b"\xff\n"],
)
async def test_garbage_is_asked_for_again(script, sink, reflect, garbage, caplog):
    script.then(
        ok(opening("a").send(frame("ADDED", pod("b", 11)), garbage)),
        ok(Stream(frame("ADDED", pod("c", 12)))),
    )
    reflect()
    await sink.saw("upsert", "c")
    assert script.query(2)["resourceVersion"] == "11"
    assert "nonsense" not in caplog.text


async def test_garbage_at_the_same_place_three_times_is_listed_over(script, sink, reflect):
    script.then(
        ok(opening("a").send(b"garbage\n")),
        ok(Stream(b"garbage\n")),
        ok(Stream(b"garbage\n")),
        ok(opening("a", "b", revision=30)),
    )
    reflect()
    await sink.saw("replace", (["a", "b"], 30))
    assert script.query(3)["resourceVersion"] == "10"
    assert script.query(4)["sendInitialEvents"] == "true"


async def test_an_end_within_a_line_loses_nothing(script, sink, reflect):
    half = frame("ADDED", pod("b", 11))[:30]
    script.then(ok(opening("a").send(half).end()), ok(Stream(frame("ADDED", pod("b", 11)))))
    reflect()
    await sink.saw("upsert", "b")
    assert script.query(2)["resourceVersion"] == "10"


async def test_unknown_events_are_told_and_passed_over(script, sink, reflect, caplog):
    script.then(
        ok(opening("a").send(frame("SURPRISE", pod("x", 99)), frame("ADDED", pod("b", 11))))
    )
    reflector = reflect()
    await sink.saw("upsert", "b")
    assert "SURPRISE" in caplog.text
    assert reflector.last_revision == 11


async def test_a_fault_in_the_sink_starts_from_a_whole_list(script, reflect, caplog):
    class Faulty(Recorder):
        def upsert(self, obj):
            if not any(call == "fault" for call, _ in self.calls):
                self._note("fault", None)
                raise KeyError("spec")
            super().upsert(obj)

    sink = Faulty()
    script.then(ok(opening("a").send(frame("ADDED", pod("b", 11)))), ok(opening("b", revision=12)))
    with caplog.at_level(logging.ERROR):
        reflect(into=sink)
        await sink.saw("replace", (["b"], 12))
    assert "cannot take in" in caplog.text


async def test_silence_ends_a_watch_and_resumes_it(script, sink, reflect):
    silent = opening("a")
    script.then(ok(silent), ok(Stream(frame("ADDED", pod("b", 11)))))
    reflect(pace=replace(FAST, silence_s=0.01))
    await sink.saw("upsert", "b")
    assert silent.closed
    assert script.query(2)["resourceVersion"] == "10"


async def test_a_sink_may_work_through_a_list_in_portions(script, reflect):
    turns: list[int] = []

    class Portions(Recorder):
        def replace(self, objects, revision):
            seen = []
            for obj in objects:
                seen.append(obj["metadata"]["name"])
                turns.append(len(seen))
                yield
            self._note("replace", (seen, revision))

    async def neighbour() -> None:
        while len(turns) < 3:
            others.append(len(turns))
            await asyncio.sleep(0)

    others: list[int] = []
    sink = Portions()
    script.then(ok(opening("a", "b", "c").send(frame("ADDED", pod("d", 11)))))
    reflect(into=sink)
    await asyncio.gather(sink.saw("upsert", "d"), neighbour())
    assert [call for call, _ in sink.calls] == ["replace", "upsert"]
    assert {1, 2} <= set(others)


async def test_a_burst_leaves_turns_to_others(script, sink, reflect):
    burst = b"".join(frame("ADDED", pod(f"p{n}", 11 + n)) for n in range(2000))
    stream = opening("a")
    script.then(ok(stream))
    reflect()
    await sink.saw("replace", (["a"], 10))
    stream.send(burst)
    seen: set[int] = set()
    while len(sink.objects) < 2001:
        seen.add(len(sink.objects))
        await asyncio.sleep(0)
    assert len(seen) > 5


async def test_pieces_that_wait_already_leave_turns_to_others(script, sink, reflect):
    stream = opening("a")
    script.then(ok(stream))
    reflect()
    await sink.saw("replace", (["a"], 10))
    stream.send(*(frame("ADDED", pod(f"p{n}", 11 + n)) for n in range(300)))
    seen: set[int] = set()
    while len(sink.objects) < 301:
        seen.add(len(sink.objects))
        await asyncio.sleep(0)
    assert len(seen) > 100


async def test_stopping_closes_the_stream(script, sink):
    from random import Random

    from fleet.members.reflector import Reflector

    stream = opening("a")
    script.then(ok(stream))
    reflector = Reflector(
        member="east", handler=script, resource=PODS, sink=sink, random=Random(1), pace=FAST
    )
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.closed
    assert not reflector.freshness.live
