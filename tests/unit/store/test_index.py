"""The ordered index: order, replacement, immutability of what was read before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.revision import Revision
from fleet.store.entry import Entry
from fleet.store.index import RUN_LIMIT, Index, between

names = st.sampled_from([f"n{i}" for i in range(40)])
keys = st.tuples(st.sampled_from(["", "a", "a.east", "a-b", "b"]), names)


def entry(namespace: str, name: str, revision: int = 1) -> Entry:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    obj = {"kind": "T", "apiVersion": "v1", "metadata": metadata}
    return Entry(obj, revision=Revision(revision))


@given(st.lists(st.tuples(st.booleans(), keys), max_size=400))
def test_behaves_like_a_sorted_dict(steps: list[tuple[bool, tuple[str, str]]]) -> None:
    index, model = Index(), {}
    for number, (put, key) in enumerate(steps):
        if put:
            new = entry(*key, number)
            assert index.put(new) is model.get(key)
            model[key] = new
        else:
            assert index.remove(key) is model.pop(key, None)
        assert len(index) == len(model)
    assert [e.key for e in index.entries()] == sorted(model)
    assert all(index.get(k) is model[k] for k in model)
    assert all(0 < len(run.entries) <= RUN_LIMIT for run in index.runs())


@given(st.sets(keys), keys, keys)
def test_between_is_a_half_open_interval(
    present: set[tuple[str, str]], start: tuple[str, str], end: tuple[str, str]
) -> None:
    index = Index(entry(*key) for key in present)
    found = [e.key for run in between(index.runs(), start=start, end=end) for e in run.entries]
    assert found == [key for key in sorted(present) if start <= key < end]


def test_runs_read_before_a_change_do_not_change() -> None:
    index = Index(entry("a", f"n{i:04}") for i in range(1000))
    before = index.runs()
    names = [e.name for run in before for e in run.entries]
    for i in range(0, 1000, 3):
        index.remove(("a", f"n{i:04}"))
    index.put(entry("a", "n0000x"))
    assert [e.name for run in before for e in run.entries] == names


def test_untouched_runs_are_shared_between_snapshots() -> None:
    index = Index(entry("a", f"n{i:04}") for i in range(1000))
    before = index.runs()
    index.put(entry("a", "n0500", 2))
    after = index.runs()
    assert sum(a is not b for a, b in zip(before, after, strict=True)) == 1
