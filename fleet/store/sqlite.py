"""Records in one SQLite file: the store of a single gateway.

Write-ahead log, `synchronous=FULL`: a commit is on disk before it is acknowledged. The file is
used by one thread of its own and held exclusively, so no second process can change it under a
running gateway. Each record carries a checksum, because SQLite itself does not notice a flipped
bit in a value; the highest revision ever committed is kept beside the records, so that numbers of
removed objects are not given out again.

https://www.sqlite.org/wal.html, https://www.sqlite.org/pragma.html
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from zlib import crc32

from fleet.errors import StoreError
from fleet.kube.revision import Revision
from fleet.store.backend import Record, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeVar

    T = TypeVar("T")

VERSION = 1
_APPLICATION = 0x666C6565  # "flee": tells our file from any other database
_BUSY_S = 2.0
_WAL_KEPT_BYTES = 64 << 20

_SCHEMA = (
    """CREATE TABLE objects (
        kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        revision INTEGER NOT NULL, checksum INTEGER NOT NULL, raw BLOB NOT NULL,
        PRIMARY KEY (kind, namespace, name)
    )""",
    "CREATE TABLE high_water (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL)",
    "INSERT INTO high_water VALUES (1, 0)",
)
_PUT = (
    "INSERT INTO objects (kind, namespace, name, revision, checksum, raw) "
    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "revision = excluded.revision, checksum = excluded.checksum, raw = excluded.raw"
)
_DELETE = "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
_HIGH_WATER = "UPDATE high_water SET revision = max(revision, ?)"

# What to do about a failure, by the start of SQLite's name for it.
_ADVICE = {
    "SQLITE_FULL": "the disk is full; free space there and try again",
    "SQLITE_READONLY": "it cannot be written; see to its owner and to how the disk is mounted",
    "SQLITE_BUSY": "another process uses it; stop that process",
    "SQLITE_LOCKED": "another process uses it; stop that process",
    "SQLITE_CORRUPT": "it is damaged; restore it from a backup",
    "SQLITE_NOTADB": "it is no database; restore it from a backup, or move it away",
    "SQLITE_CANTOPEN": "it cannot be opened; see to its owner and to its directory",
    "SQLITE_IOERR": "the disk failed; see the system's log",
    "SQLITE_TOOBIG": "the object is larger than a record may be",
}


class SqliteBackend:
    """Records in the file `path`, made at the first `open`, readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> Stored:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._path.name)
        return await self._in_thread(self._thread, self._open)

    def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
        if self._thread is None:
            raise StoreError(f"{self._path} is not open")
        return self._in_thread(self._thread, self._commit, changes)

    async def prove(self) -> None:
        if self._thread is None:
            raise StoreError(f"{self._path} is not open")
        await self._in_thread(self._thread, self._prove)

    @property
    def broken(self) -> str:
        return self._out_of_use if self._thread is not None and self._connection is None else ""

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                await self._in_thread(thread, self._close)
            finally:
                thread.shutdown(wait=False)

    @staticmethod
    def _in_thread(
        thread: ThreadPoolExecutor, call: Callable[..., T], *arguments: Any
    ) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(thread, call, *arguments)

    # -- in the thread

    def _open(self) -> Stored:
        try:
            _make_private(self._path)
            # the file is there: without `mode=rw` a read-only one would be opened for reading
            uri = f"file:{quote(str(self._path.absolute()))}?mode=rw"
            connection = self._connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, timeout=_BUSY_S
            )
            self._set_up(connection)
            rows = connection.execute(
                "SELECT kind, namespace, name, revision, checksum, raw FROM objects"
            ).fetchall()
            (revision,) = connection.execute("SELECT revision FROM high_water").fetchone()
        except sqlite3.Error as error:
            raise self._failed("cannot be opened", error) from error
        except OSError as error:
            raise StoreError(f"{self._path} cannot be opened: {error.strerror}") from error
        return Stored([self._record(*row) for row in rows], Revision(revision))

    def _set_up(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if (version or tables) and application != _APPLICATION:
            raise StoreError(f"{self._path} is a database of another program; move it away")
        if version > VERSION:
            raise StoreError(
                f"{self._path} was written by a later release (format {version}, this one knows "
                f"{VERSION}): run that release, or restore a backup from before"
            )
        (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise StoreError(f"{self._path} is damaged ({problem}); restore it from a backup")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"{self._path} lies on a file system without write-ahead log (mode {mode}); "
                "use a local disk"
            )
        connection.execute("BEGIN EXCLUSIVE")
        if not version:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")

    def _record(
        self, kind: str, namespace: str, name: str, revision: int, checksum: int, raw: bytes
    ) -> Record:
        if crc32(raw) != checksum:
            where = f" in {namespace}" if namespace else ""
            raise StoreError(
                f"{self._path} is damaged: {kind} {name}{where} is not as it was written; restore "
                "the file from a backup"
            )
        return Record(kind, namespace, name, Revision(revision), raw)

    def _commit(self, changes: Sequence[Record]) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError(self._out_of_use)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for change in changes:
                if change.deleted:
                    connection.execute(_DELETE, change.key)
                else:
                    checksum = crc32(change.raw)
                    row = (*change.key, change.revision, checksum, change.raw)
                    connection.execute(_PUT, row)
            connection.execute(_HIGH_WATER, (max(change.revision for change in changes),))
            connection.execute("COMMIT")
        except (sqlite3.Error, ValueError, OverflowError) as error:
            self._roll_back(connection)
            raise self._failed("was not written, nothing was changed", error) from error

    def _prove(self) -> None:
        connection = self._connection
        if connection is None:
            raise StoreError(self._out_of_use)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_HIGH_WATER, (0,))  # it never falls; its page is written anew
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(connection)
            raise self._failed("cannot be written", error) from error

    @property
    def _out_of_use(self) -> str:
        return (
            f"{self._path} is out of use since a failure that could not be undone; "
            "restart the gateway"
        )

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """Some failures end the transaction by themselves."""
        if not connection.in_transaction:
            return
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            # what the connection would show next is not known: use it no more
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _failed(self, what: str, error: Exception) -> StoreError:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        advice = next((text for start, text in _ADVICE.items() if name.startswith(start)), "")
        return StoreError(f"{self._path} {what}: {advice or error} ({name})")


def _make_private(path: Path) -> None:
    """An empty file that nobody else can read, unless there is a file, which is made so.

    A file that is there is not opened here: closing it again would let go of every lock that this
    process has on it (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        return
    os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
