"""Kubeconfigs of the members, on disk where only the owner can read them.

One file a member, complete in itself, with the cluster's UID as a kubeconfig extension, so that
a member that is down when the gateway starts is still known for the cluster it is – and the file
serves kubectl as it stands. A file is replaced in one step; one replaced from outside is noticed.
A member that leaves has an empty file of another name until everybody has taken it.
Blocking: call it from a worker thread.
"""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from fleet.errors import ConfigError, StoreError
from fleet.members.identity import check_name

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

_SUFFIX = ".kubeconfig"
_LEAVING = ".leaving"
_EXTENSION = "fleet.dev/member"


@dataclass(frozen=True, slots=True)
class Stored:
    """What is kept of a member. `uid` is "" in a file that somebody else wrote."""

    kubeconfig: bytes
    uid: str


class CredentialStore:
    """The files in one directory, made with mode 0700 when it is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[str, object] = {}

    def open(self) -> None:
        """Make the directory and see that nobody else can look in. Raises StoreError."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._directory.stat().st_mode & 0o077:
                self._directory.chmod(0o700)
        except OSError as error:
            raise StoreError(
                f"{self._directory}: cannot keep credentials there: {error.strerror}"
            ) from error

    def names(self) -> list[str]:
        """The members that have credentials here, by name."""
        return self._named(_SUFFIX)

    def leaving(self) -> list[str]:
        """The members whose leave was begun and not ended, by name."""
        return sorted(set(self._named(_LEAVING)) - set(self.names()))

    def load(self, name: str) -> Stored:
        """The stored kubeconfig of a member. Raises StoreError when it cannot be read."""
        path = self._path(name)
        try:
            self._seen[name] = _mark(path)
            raw = path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error
        return Stored(raw, _uid_in(raw))

    def save(self, name: str, kubeconfig: bytes, *, uid: str) -> None:
        """Keep a kubeconfig, durably, in one step. Raises ConfigError for one that is none, and
        StoreError when it cannot be written."""
        check_name(name)
        content = _with_uid(kubeconfig, uid)
        path = self._path(name)
        try:
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=self._directory)
            try:
                with os.fdopen(handle, "wb") as file:  # mkstemp gives mode 0600
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
            self._path(name, _LEAVING).unlink(missing_ok=True)
            self._sync_directory()
            self._seen[name] = _mark(path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror}") from error

    def delete(self, name: str) -> None:
        """Forget a member's credentials; nothing happens when there are none. Raises StoreError."""
        self._remove(self._path(name))
        self._seen.pop(name, None)

    def retire(self, name: str) -> None:
        """Begin a leave: in one step the credentials are no member's any more, then they are
        forgotten; `end` follows. Raises StoreError, and the member is one still."""
        path, leaving = self._path(name), self._path(name, _LEAVING)
        try:
            os.replace(path, leaving)
            self._sync_directory()
        except OSError as error:
            raise StoreError(f"{path}: cannot be removed: {error.strerror}") from error
        self._seen.pop(name, None)
        try:
            os.truncate(leaving, 0)
        except OSError as error:
            log.warning("%s: still holds credentials: %s", leaving, error.strerror)

    def end(self, name: str) -> None:
        """A leave has been taken by everybody. Raises StoreError."""
        self._remove(self._path(name, _LEAVING))

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
            self._sync_directory()
        except OSError as error:
            raise StoreError(f"{path}: cannot be removed: {error.strerror}") from error

    def replaced(self) -> list[str]:
        """Members whose file is another one than when it was last loaded, saved or named here."""
        found = []
        for name in self.names():
            try:
                mark = _mark(self._path(name))
            except OSError:
                continue
            if self._seen.get(name) != mark:
                self._seen[name] = mark
                found.append(name)
        return found

    def _named(self, suffix: str) -> list[str]:
        return sorted(path.name.removesuffix(suffix) for path in self._directory.glob("*" + suffix))

    def _path(self, name: str, suffix: str = _SUFFIX) -> Path:
        return self._directory / f"{name}{suffix}"

    def _sync_directory(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mark(path: Path) -> object:
    found = path.stat()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _document(kubeconfig: bytes) -> dict[str, Any]:
    try:
        document = yaml.load(kubeconfig, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError("the kubeconfig is not YAML") from error
    if not isinstance(document, dict):
        raise ConfigError("the kubeconfig is no mapping")
    return document


def _with_uid(kubeconfig: bytes, uid: str) -> bytes:
    document = _document(kubeconfig)
    others = [
        entry
        for entry in document.get("extensions") or ()
        if isinstance(entry, dict) and entry.get("name") != _EXTENSION
    ]
    document["extensions"] = [*others, {"name": _EXTENSION, "extension": {"uid": uid}}]
    return yaml.safe_dump(document, sort_keys=False).encode()


def _uid_in(kubeconfig: bytes) -> str:
    try:
        document = _document(kubeconfig)
    except ConfigError:
        return ""  # whoever connects with it says what is wrong with it
    for entry in document.get("extensions") or ():
        if isinstance(entry, dict) and entry.get("name") == _EXTENSION:
            return str((entry.get("extension") or {}).get("uid") or "")
    return ""
