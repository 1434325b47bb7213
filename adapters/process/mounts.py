"""Linux calls for processes of a pod: namespaces, bind mounts, and whom to die with.

Where the kernel lets us, a process gets a mount namespace of its own (inside a user namespace when
we are not privileged) in which the pod's volumes appear at their mount paths. A path that does not
exist on this machine is made on a fresh root, a small tmpfs into which everything else is bound, so
that nothing of the machine's is ever changed.

Standard library alone; called in a forked child, before exec. Source: mount_namespaces(7),
user_namespaces(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
from pathlib import Path
from typing import Any, Final, TypedDict

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUTS: Final = 0x04000000
_CLONE_NEWUSER: Final = 0x10000000
_MS_RDONLY: Final = 1
_MS_REMOUNT: Final = 32
_MS_BIND: Final = 4096
_MS_REC: Final = 16384
_MS_UNBINDABLE: Final = 1 << 17
_MS_PRIVATE: Final = 1 << 18
_KEPT_FLAGS: Final = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime

MODES: Final = ("mount", "user")
"""Ways into a mount namespace, the plainer first: privileged, or inside a user namespace."""


class Space(TypedDict):
    """What a process of a pod sees. `mode` "" leaves everything as it is.

    `binds` are (source, target, read-only); `root` is an empty folder for a fresh root.
    """

    mode: str
    root: str
    hostname: str
    binds: list[tuple[str, str, bool]]


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind."""
    _call(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with(parent: int) -> None:
    """Be killed when the parent dies; at once when it is dead already."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(137)


def enter(space: Space) -> None:
    """Put this process into the pod's view of the file system. Raises OSError."""
    if not space["mode"]:
        return
    _unshare(space["mode"])
    if space["hostname"]:
        name = space["hostname"].encode()[:63]
        _call(_libc.sethostname(name, len(name)), "sethostname")
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    binds = [(source, _resolved(target), locked) for source, target, locked in space["binds"]]
    if all(os.path.lexists(target) for _, target, _ in binds):
        _bind_all(binds, root="")
        return
    root = space["root"]
    _mount("tmpfs", root, "tmpfs", 0, "size=1m,mode=755")
    _mount(None, root, None, _MS_UNBINDABLE)  # the folder it lies in is bound below it
    _fresh_root(root, [target for _, target, _ in binds])
    _bind_all(binds, root=root)
    os.chroot(root)


def probe(directory: str) -> str:
    """The first of MODES that works here, "" when none does. Runs `enter` in children."""
    source, root = os.path.join(directory, "probe"), os.path.join(directory, "root")
    os.makedirs(source, exist_ok=True)
    os.makedirs(root, exist_ok=True)
    for mode in MODES:
        pid = os.fork()
        if pid == 0:
            try:
                binds = [(source, "/fleet-probe/of/mounts", True), (source, root, False)]
                enter({"mode": mode, "root": root, "hostname": "probe", "binds": binds})
                os._exit(0 if os.path.isdir("/fleet-probe/of/mounts") else 1)
            except OSError:
                os._exit(1)
            finally:
                os._exit(2)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0:
            return mode
    return ""


def _unshare(mode: str) -> None:
    flags = _CLONE_NEWNS | _CLONE_NEWUTS
    if mode == "user":
        uid, gid = os.geteuid(), os.getegid()
        _call(_libc.unshare(flags | _CLONE_NEWUSER), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    else:
        _call(_libc.unshare(flags), "unshare")


def _resolved(target: str) -> str:
    """`target` with the symbolic links of this machine followed, as far as it exists."""
    return os.path.realpath(target)


def _fresh_root(root: str, targets: list[str]) -> None:
    """Fill `root` with everything there is, so that missing `targets` can be made in it.

    A folder that gets something new is made anew and its entries are bound one by one; any other
    is bound as a whole.
    """
    opened = {"/"}
    for target in targets:
        if not os.path.lexists(target):
            opened |= {parent for parent in _parents(target) if os.path.isdir(parent)}
    for folder in sorted(opened):
        copy = root + folder.rstrip("/")
        os.makedirs(copy or root, exist_ok=True)
        for entry in os.scandir(folder):
            if entry.path in opened or entry.path == root:
                continue
            try:
                _mirror(entry, os.path.join(copy, entry.name))
            except OSError:
                continue  # gone meanwhile, or not ours to show


def _mirror(entry: os.DirEntry[str], place: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), place)
        return
    if entry.is_dir():
        os.mkdir(place)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
    _mount(entry.path, place, None, _MS_BIND | _MS_REC)


def _bind_all(binds: list[tuple[str, str, bool]], *, root: str) -> None:
    for source, target, locked in sorted(binds, key=lambda bind: bind[1].count("/")):
        place = root + target
        if not os.path.lexists(place):
            _make_place(source, place)
        _mount(source, place, None, _MS_BIND | _MS_REC)
        if locked:
            flags = os.statvfs(place).f_flag & _KEPT_FLAGS
            _mount(None, place, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)


def _make_place(source: str, place: str) -> None:
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.makedirs(place)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))


def _parents(path: str) -> list[str]:
    return [str(parent) for parent in Path(path).parents]


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    arguments: list[Any] = [
        None if text is None else os.fsencode(text) for text in (source, target, kind)
    ]
    done = _libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) if data else None)
    _call(done, f"mount {target}")


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
