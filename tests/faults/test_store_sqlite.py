"""SQLite under what happens to files: a killed process, a lost tail, a full disk, flipped bits."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import StoreError
from fleet.gateway.state import StateDirectory
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

MAPS = Resource(GroupVersionResource("", "v1", "configmaps"), "ConfigMap", True, ("list",))


def config(name: str, value: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "payments"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"v": value}}


@asynccontextmanager
async def opened(path: Path, *, epoch: int = 1) -> AsyncIterator[ObjectStore]:
    async with ObjectStore(SqliteBackend(path), Sequencer(epoch=epoch)) as store:
        yield store


async def values(path: Path, *, epoch: int = 99) -> dict[str, str]:
    async with opened(path, epoch=epoch) as store:
        entries = store.collection(MAPS).snapshot().entries()
        return {entry.name: entry.parse()["data"]["v"] for entry in entries}


async def run(*arguments: str) -> str:
    """What a program says where errors go."""
    process = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.PIPE)
    _, told = await process.communicate()
    return told.decode()


# -- a process killed in the middle of a stream of writes

WRITER = """
import asyncio, json, sys
from pathlib import Path
from fleet.gateway.state import StateDirectory
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend

MAPS = Resource(GroupVersionResource("", "v1", "configmaps"), "ConfigMap", True, ("list",))

def say(**what):
    sys.stdout.write(json.dumps(what) + "\\n")
    sys.stdout.flush()

async def stream(store, worker, epoch):
    for number in range(10**9):
        name = f"w{worker}-{number % 7}"
        value = f"{epoch}:{worker}:{number}"
        obj = {"kind": "ConfigMap", "apiVersion": "v1",
               "metadata": {"name": name, "namespace": "payments"}, "data": {"v": value}}
        present = store.get(MAPS, "payments", name)
        say(begin=name, value=value)
        if present is None:
            entry = await store.create(MAPS, obj)
        elif number % 5 == 0:
            entry = await store.delete(
                MAPS, namespace="payments", name=name, expected=present.revision)
            value = None
        else:
            entry = await store.update(MAPS, obj, expected=present.revision)
        say(done=name, value=value, revision=entry.revision)

async def main():
    with StateDirectory.open(Path(sys.argv[1])) as state:
        epoch = state.next_epoch()
        async with ObjectStore(SqliteBackend(state.objects), Sequencer(epoch=epoch)) as store:
            say(ready=epoch)
            async with asyncio.TaskGroup() as group:
                for worker in range(8):
                    group.create_task(stream(store, worker, epoch))

asyncio.run(main())
"""


def test_killed_while_writing_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    rng = random.Random(20240501)
    directory = tmp_path / "state"
    acknowledged: dict[str, str | None] = {}
    revisions: set[int] = set()
    for _ in range(12):
        begun: dict[str, str | None] = {}
        for told in killed_after(rng.randint(1, 400), directory):
            if "begin" in told:
                begun[told["begin"]] = told["value"]
            elif "done" in told:
                begun.pop(told["done"])
                acknowledged[told["done"]] = told["value"]
                assert told["revision"] not in revisions
                revisions.add(told["revision"])
        with StateDirectory.open(directory) as state:
            found = asyncio.run(values(state.objects, epoch=state.next_epoch()))
        for name in {*acknowledged, *found}:
            possible = {acknowledged.get(name)}
            if name in begun:  # made or not, but never half: a removal, or the value begun
                possible |= {begun[name], None}
            assert found.get(name) in possible
        # what is found is from here on what was promised
        acknowledged = dict(found)
    assert len(revisions) > 1000


def killed_after(lines: int, directory: Path) -> list[dict[str, Any]]:
    """What a writer told until it was killed, some time after that many lines."""
    told = []
    arguments = [sys.executable, "-c", WRITER, str(directory)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for number, line in enumerate(writer.stdout):
            if number == lines:
                writer.send_signal(signal.SIGKILL)
            told.append(json.loads(line))  # what had reached the pipe counts as told
    assert writer.returncode == -signal.SIGKILL
    return told


# -- the machine lost power: the log ends anywhere after what was acknowledged


async def test_a_log_cut_off_anywhere_keeps_each_commit_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    live, copies = tmp_path / "objects.db", tmp_path / "copies"
    rng = random.Random(7)
    names = ("objects.db", "objects.db-wal")
    async with opened(live) as store:
        await store.create(MAPS, config("first", "1"))
        copies.mkdir()
        acknowledged = (tmp_path / names[1]).stat().st_size
        # one commit of several objects, not acknowledged when power fails
        await asyncio.gather(*(store.create(MAPS, config(f"m{n}", "x" * 900)) for n in range(9)))
        for name in names:
            shutil.copy(tmp_path / name, copies / name)
    whole = (copies / names[1]).read_bytes()
    assert len(whole) > acknowledged + 8 * 900
    together = {"first", *(f"m{n}" for n in range(9))}
    seen = set()
    cuts = [acknowledged, len(whole), *(rng.randint(acknowledged, len(whole)) for _ in range(40))]
    for cut in cuts:
        for tail in (b"", rng.randbytes(len(whole) - cut)):
            case = tmp_path / "case"
            shutil.rmtree(case, ignore_errors=True)
            shutil.copytree(copies, case)
            (case / names[1]).write_bytes(whole[:cut] + tail)
            found = set(await values(case / names[0]))
            assert found in ({"first"}, together, {"first", "m0"})
            seen.add(len(found))
    assert {1, 10} <= seen


# -- no room, no permission


FILLER = """
import asyncio, resource, sys
from pathlib import Path
from fleet.errors import StoreError
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend
sys.path.insert(0, sys.argv[2])
from test_store_sqlite import MAPS, config

async def main():
    backend = SqliteBackend(Path(sys.argv[1]))
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
        number = 0
        while True:
            try:
                await store.create(MAPS, config(f"m{number:03}", "x" * 20_000))
            except StoreError as error:
                print("refused", number, error, flush=True)
                break
            number += 1
        for small in range(3):
            try:
                await store.create(MAPS, config(f"small{small}"))
            except StoreError:
                pass
        shown = [e.name for e in store.collection(MAPS).snapshot().entries()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        await store.create(MAPS, config("later"))
        print(*shown, "later", flush=True)

asyncio.run(main())
"""


def test_a_file_that_cannot_grow_refuses_writes_and_goes_on_when_it_can(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILLER, str(tmp_path / "objects.db"), os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    refused, shown = done.stdout.splitlines()
    assert int(refused.split()[1]) > 5
    assert "nothing was changed" in refused
    found = asyncio.run(values(tmp_path / "objects.db"))
    assert sorted(found) == sorted(shown.split())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a full disk needs a small file system: run as root, where mounting is allowed")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


async def test_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "objects.db"
    async with opened(path) as store:
        with pytest.raises(StoreError, match=r"disk is full.*SQLITE_FULL"):
            for number in range(100):
                await store.create(MAPS, config(f"m{number:03}", "x" * 20_000))
        shown = [entry.name for entry in store.collection(MAPS).snapshot().entries()]
        assert len(shown) > 3
        # room is made by others, and writes go on
        await run("mount", "-o", "remount,size=4m", str(small_disk))
        await store.create(MAPS, config("later"))
    assert sorted(await values(path)) == sorted([*shown, "later"])


async def test_a_read_only_file_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as store:
        await store.create(MAPS, config("one"))
    backend = SqliteBackend(path)
    async with ObjectStore(backend, Sequencer(epoch=2)) as store:
        connection = backend._connection
        assert connection is not None
        await asyncio.get_running_loop().run_in_executor(
            backend._thread, connection.execute, "PRAGMA query_only = ON"
        )
        with pytest.raises(StoreError, match=r"cannot be written; see to .*SQLITE_READONLY"):
            await store.create(MAPS, config("two"))
        assert len(store.collection(MAPS)) == 1


async def test_a_failure_in_the_middle_of_a_commit_undoes_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    backend = SqliteBackend(path)
    async with ObjectStore(backend, Sequencer(epoch=1)) as store:
        await store.create(MAPS, config("one"))
        connection = backend._connection
        assert connection is not None

        def limit() -> None:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)

        await asyncio.get_running_loop().run_in_executor(backend._thread, limit)
        outcomes = await asyncio.gather(
            *(store.create(MAPS, config(f"m{n}", "x" * size)) for n, size in enumerate((1, 5000))),
            return_exceptions=True,
        )
        assert not isinstance(outcomes[0], BaseException)
        assert isinstance(outcomes[1], StoreError)
        assert "larger than a record" in str(outcomes[1])
    assert sorted(await values(path)) == ["m0", "one"]


async def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as store:
        await store.create(MAPS, config("one"))
        with pytest.raises(StoreError, match=r"another process uses it.*SQLITE_BUSY"):
            await values(path)
        connect = f"import sqlite3; db = sqlite3.connect({str(path)!r}, timeout=0.1)"
        tool = f"{connect}; db.execute('DELETE FROM objects')"
        assert "locked" in await run(sys.executable, "-c", tool)
        await store.create(MAPS, config("two"))
    assert sorted(await values(path)) == ["one", "two"]


async def test_a_commit_is_on_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    """What cannot be seen without pulling the plug is at least asked for."""
    backend = SqliteBackend(tmp_path / "objects.db")
    async with ObjectStore(backend, Sequencer(epoch=1)):
        connection = backend._connection
        assert connection is not None

        def settings() -> list[Any]:
            return [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("synchronous", "journal_mode", "locking_mode")
            ]

        found = await asyncio.get_running_loop().run_in_executor(backend._thread, settings)
    full = 2
    assert found == [full, "wal", "exclusive"]


# -- a file that is not what it was


async def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    path.touch(0o644)
    async with opened(path) as store:
        await store.create(MAPS, config("one"))
        for file in (path, tmp_path / "objects.db-wal"):
            assert file.stat().st_mode & 0o777 == 0o600


async def test_a_flipped_bit_in_an_object_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as store:
        await store.create(MAPS, config("one", "precious"))
    raw = path.read_bytes()
    assert raw.count(b"precious") == 1
    path.write_bytes(raw.replace(b"precious", b"previous"))
    with pytest.raises(StoreError, match="configmaps one in payments is not as it was written"):
        await values(path)


@pytest.mark.parametrize("seed", range(25))
async def test_garbage_in_the_file_is_noticed_or_harmless(tmp_path: Path, seed: int) -> None:
    """Whatever page is hit: an error that says so, or every object as it was."""
    path = tmp_path / "objects.db"
    async with opened(path) as store:
        for number in range(60):
            await store.create(MAPS, config(f"m{number}", "x" * 700))
    expected = await values(path, epoch=2)
    rng = random.Random(seed)
    raw = bytearray(path.read_bytes())
    at = rng.randrange(len(raw))
    length = rng.choice([1, 16, 4096])
    raw[at : at + length] = rng.randbytes(len(raw[at : at + length]))
    path.write_bytes(raw)
    try:
        found = await values(path)
    except StoreError as error:
        assert str(path) in str(error)
    else:
        assert found == expected


async def test_an_index_that_does_not_fit_its_table_is_noticed(tmp_path: Path) -> None:
    """Reading goes by the table alone; the next write would make a second object of one key."""
    path = tmp_path / "objects.db"
    async with opened(path) as store:
        await store.create(MAPS, config("precious"))
    with sqlite3.connect(path) as tool:
        (root,) = tool.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'index'").fetchone()
        (size,) = tool.execute("PRAGMA page_size").fetchone()
    tool.close()
    raw = path.read_bytes()
    start, end = (root - 1) * size, root * size
    page = raw[start:end]
    assert page.count(b"precious") == 1
    path.write_bytes(raw[:start] + page.replace(b"precious", b"previous") + raw[end:])
    with pytest.raises(StoreError, match="is damaged"):
        await values(path)


async def test_no_database_at_all(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    path.write_bytes(b"certainly not a database\n" * 200)
    with pytest.raises(StoreError, match="no database; restore it"):
        await values(path)


async def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE objects (kind TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="of another program"):
        await values(path)
    assert path.read_bytes() == before


async def test_a_file_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as store:
        await store.create(MAPS, config("one"))
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 2")
    later.close()
    with pytest.raises(StoreError, match="later release"):
        await values(path)


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened: No such file or directory"):
        await values(tmp_path / "nowhere" / "objects.db")
