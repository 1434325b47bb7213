"""What `fleet testbed up|down|status` does, without a command line: values in, values out.

`up` and `down` are idempotent and take turns between processes. A member is a folder in the state
home (`layout.state_home`); one that is there with all its processes alive is left as it is.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fleet.errors import TestbedError
from fleet.testbed import admin, binaries, components, embedded, layout, processes, shape
from fleet.testbed.hosted import HostedCluster
from fleet.testbed.local import LocalCluster
from fleet.testbed.locking import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from fleet.testbed.shape import NodeShape

T = TypeVar("T")

PROVIDERS = ("local", embedded.COMPONENT)
_NAMES = ("east", "west", "north", "south")
_LOCAL_HINTS = (
    "Pods are played by kwok: a Job's pods complete after a second, unless annotated",
    "  testbed.fleet.dev/run-for: forever   (or a time, e.g. 30s)",
    "An exec in a pod runs on this machine, as nobody if you are root, else as you.",
)
_EMBEDDED_HINTS = (
    "Pods are processes of yours on this machine, without any isolation; images are names only,",
    "  so that a container has to say its command.",
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member as it was seen. `lacking` is empty when its API server is ready, else says why."""

    name: str
    server: str
    kubeconfig: Path
    components: Mapping[str, str]
    lacking: str

    @property
    def ready(self) -> bool:
        return not self.lacking and all(state == "running" for state in self.components.values())

    @property
    def summary(self) -> str:
        """`ready`, or what is wrong."""
        wrong = [f"{name} {state}" for name, state in self.components.items() if state != "running"]
        return "ready" if self.ready else ", ".join(wrong) or self.lacking


async def up(
    provider: str,
    *,
    count: int = 3,
    names: Sequence[str] = (),
    nodes: Sequence[NodeShape] | None = None,
    home: Path | None = None,
    progress: Callable[[str], None],
) -> list[MemberStatus]:
    """Make and start members; those that run already are left alone. They outlive this program.

    `names` says which; without it they are the first `count` of east, west, north, south, m5, ….
    Raises TestbedError when one of them does not come up; the members started here are stopped.
    """
    _check_provider(provider)
    chosen = list(names) or default_names(count)
    for name in chosen:
        _check_name(name)
    home = (home or layout.state_home()).absolute()
    for program in components.ALL if provider == "local" else ():
        if program != components.GATEKEEPER:
            await binaries.ensure(program, progress=progress)
    async with _turn(home, progress):
        _check_kinds(provider, chosen, home)
        networks = _networks(chosen, home)
        there = [name for name in chosen if shape.remembered(home / name) is not None]
        if nodes is not None and there:
            progress(f"{', '.join(there)}: there already, with the nodes that it was made with")
        members = [
            _member(provider, name, nodes, home / name, networks[name], progress) for name in chosen
        ]
        # An API server's first seconds fill a core; more at once than cores only delays them all.
        turn = asyncio.Semaphore(max(1, (os.cpu_count() or 1) // 2))
        await _together([_start(member, turn, progress) for member in members])
    return await status(provider, names=chosen, home=home)


def _member(
    provider: str,
    name: str,
    nodes: Sequence[NodeShape] | None,
    root: Path,
    network: int,
    progress: Callable[[str], None],
) -> LocalCluster | HostedCluster:
    if provider == embedded.COMPONENT:
        return HostedCluster(
            name, root=root, nodes=nodes or shape.DEFAULT, network=network, progress=progress
        )
    return LocalCluster(
        name, root=root, nodes=nodes, network=network, outlive=True, progress=progress
    )


async def build(provider: str, *, progress: Callable[[str], None]) -> list[Path]:
    """Have every program of the testbed and its tests here, built if need be; where they are.

    An embedded member needs none.
    """
    _check_provider(provider)
    if provider == embedded.COMPONENT:
        return []
    return [
        await binaries.ensure(program.name, version=program.version, progress=progress)
        for program in binaries.PROGRAMS
    ]


async def down(
    provider: str | None,
    *,
    names: Sequence[str] = (),
    home: Path | None = None,
    progress: Callable[[str], None],
) -> list[str]:
    """Stop members (all without `names`) and delete their folders; the names of those there were.
    With a `provider` only those that it made.

    Raises TestbedError, before anything is stopped, for a name that no member has.
    """
    _check_provider(provider)
    for name in names:
        _check_name(name)
    home = (home or layout.state_home()).absolute()
    if not home.exists():
        _check_known(names, [], home, provider)
        return []
    async with _turn(home, progress):
        found = _chosen(provider, names, home)
        await _together([_remove(home / name, progress) for name in found])
    return found


async def status(
    provider: str | None, *, names: Sequence[str] = (), home: Path | None = None
) -> list[MemberStatus]:
    """What members there are and how they are; `provider` and `names` narrow it. Raises
    TestbedError for a name that no such member has."""
    _check_provider(provider)
    home = (home or layout.state_home()).absolute()
    found = _chosen(provider, names, home)
    return await _together([_look(home / name) for name in found])


def default_names(count: int) -> list[str]:
    """`count` member names. Raises TestbedError for a count that makes no sense here."""
    if not 1 <= count <= layout.NETWORKS:
        raise TestbedError(f"-n {count}: a testbed has 1 to {layout.NETWORKS} members")
    return [*_NAMES, *(f"m{number}" for number in range(len(_NAMES) + 1, count + 1))][:count]


def up_text(members: Sequence[MemberStatus], *, home: Path | None = None) -> str:
    """What a person wants to know after `up`: what there is, and what to try. `home` is the one
    that was asked for, None for that which every command looks at.

    Commands in it begin two spaces behind what is before them, as those of `status_text` do.
    """
    there = _there(home)
    kubeconfigs = ":".join(str(member.kubeconfig) for member in members)
    first = members[0].name
    is_embedded = embedded.COMPONENT in members[0].components
    lines = [
        *_rows((member.name, member.server, str(member.kubeconfig)) for member in members),
        "",
        f"Try:  export KUBECONFIG={kubeconfigs}",
        f"      {_kubectl()} --context {first} get nodes",
        f"      {_kubectl()} --context {first} create job hello --image=any"
        + (" -- echo hello" if is_embedded else ""),
        f"      fleet testbed status{there}      fleet testbed down{there}",
        *(_EMBEDDED_HINTS if is_embedded else _LOCAL_HINTS),
        "To take them into a fleet, beside a gateway (`fleet run`):",
        *(f"  fleet join {member.kubeconfig} --name {member.name}" for member in members),
    ]
    return "\n".join(lines) + "\n"


def status_text(members: Sequence[MemberStatus], *, home: Path | None = None) -> str:
    if not members:
        return f"no members; start some with:  fleet testbed up -n 3{_there(home)}\n"
    lines = _rows(
        (member.name, member.summary, member.server, str(member.kubeconfig)) for member in members
    )
    if not all(member.ready for member in members):
        lines.append("start what is missing with:  fleet testbed up NAME" + _there(home))
    return "\n".join(lines) + "\n"


def _there(home: Path | None) -> str:
    """How a command says that it means members in another home."""
    return f" --home {shlex.quote(str(home))}" if home is not None else ""


def _rows(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Lines with the columns aligned."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _kubectl() -> str:
    """The command as it can be typed here."""
    if shutil.which("kubectl"):
        return "kubectl"
    found = binaries.find(binaries.program("kubectl"))
    return str(found) if found else "kubectl"


def _check_provider(provider: str | None) -> None:
    if provider is not None and provider not in PROVIDERS:
        raise TestbedError(
            f"the testbed has no provider {provider!r}; it has: {', '.join(PROVIDERS)}"
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise TestbedError(
            f"{name!r} cannot name a member: use at most 30 of a-z, 0-9 and -, e.g. east"
        )


def _chosen(provider: str | None, names: Sequence[str], home: Path) -> list[str]:
    """The members of these names, all without any; those of a provider, where one is given. Raises
    TestbedError for one that is missing."""
    present = layout.members(home)
    if provider is not None:
        present = [name for name in present if _provider_of(home / name) in (provider, None)]
    _check_known(names, present, home, provider)
    return [name for name in present if not names or name in names]


def _provider_of(root: Path) -> str | None:
    """What made the member that lives there; None where there is none."""
    found = layout.load(root)
    if found is None:
        return None
    return embedded.COMPONENT if embedded.COMPONENT in found.components else "local"


def _check_known(
    names: Sequence[str], present: Sequence[str], home: Path, provider: str | None
) -> None:
    unknown = [name for name in names if name not in present]
    if unknown:
        made = f" of the provider {provider}" if provider is not None else ""
        raise TestbedError(
            f"the testbed in {home} has no member {', '.join(unknown)}{made}; it has: "
            f"{', '.join(present) or 'none'}"
        )


def _check_kinds(provider: str, names: Sequence[str], home: Path) -> None:
    """A member stays of the kind that it was made."""
    for name in names:
        other = _provider_of(home / name)
        if other not in (provider, None):
            raise TestbedError(
                f"{name} is a member of the provider {other}: take it down first "
                f"(`fleet testbed down {name}`), or choose another name"
            )


def _turn(home: Path, progress: Callable[[str], None]) -> AbstractAsyncContextManager[None]:
    """Only one process at a time changes the members of a home."""
    return locked(home / ".lock", waiting=f"waiting for another process in {home}", tell=progress)


def _networks(names: Sequence[str], home: Path) -> dict[str, int]:
    """A number for each name: that of a member which exists, else the lowest free one."""
    known: dict[str, int] = {}
    for name in layout.members(home):
        stored = layout.load(home / name)
        if stored is not None:
            known[name] = stored.network
    free = (number for number in range(layout.NETWORKS) if number not in known.values())
    for name in names:
        if name not in known:
            number = next(free, None)
            if number is None:
                raise TestbedError(f"{home} holds {layout.NETWORKS} members already, the most")
            known[name] = number
    return known


async def _together(work: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Do all at once; one failure stops the others and is raised as itself, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(part, name=f"testbed {number}")
                for number, part in enumerate(work)
            ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


async def _start(
    member: LocalCluster | HostedCluster, turn: asyncio.Semaphore, progress: Callable[[str], None]
) -> None:
    progress(f"starting {member.name}, or what it lacks")
    await member.start(turn=turn)
    progress(f"{member.name} is ready")


async def _remove(root: Path, progress: Callable[[str], None]) -> None:
    member = layout.load(root)
    if member is not None:
        await LocalCluster(member.name, root=root).stop()
        layout.delete(root)
        progress(f"{member.name} is gone")


async def _look(root: Path) -> MemberStatus:
    member = layout.load(root)
    if member is None:
        raise TestbedError(f"{root} went away while it was looked at; ask again")
    recorded = processes.recorded(member.run)
    states = {name: _state(recorded.get(name)) for name in member.components}
    api = embedded.COMPONENT if embedded.COMPONENT in states else components.API_SERVER
    lacking = f"{api} does not run"
    if states.get(api) == "running":
        tls = admin.ssl_context(ca=member.ca, cert=member.cert("admin"), key=member.key("admin"))
        async with admin.AdminClient.connect(member.server, tls, timeout_s=3) as client:
            lacking = await client.ready()
    return MemberStatus(
        name=member.name,
        server=member.server,
        kubeconfig=member.kubeconfig,
        components=states,
        lacking=lacking,
    )


def _state(process: processes.Process | None) -> str:
    if process is None or not process.alive:
        return "gone"
    return "paused" if process.paused else "running"
