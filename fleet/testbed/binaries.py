"""The programs of a control plane: found on this machine, else built once from pinned modules.

Looked for in `KUBEBUILDER_ASSETS`, then the user's cache, then PATH; a program of another version
than the one asked for is never taken. `builds/` holds one Go module per source, with go.sum, so a
build is the same bytes everywhere. Two processes that want the same program build it once.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import TestbedError
from fleet.testbed.locking import locked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

KUBERNETES = "1.36.3"
KUBERNETES_OLD = "1.32.13"
ETCD = "3.6.16"
KWOK = "0.7.0-fleet.1"
KUEUE = "0.17.1-fleet.1"

BUILDS = Path(__file__).parent / "builds"
MANIFESTS = "manifests"
_SCRATCH = "build-"
_TELL_EVERY_S = 30.0
_GO_HINT = "install Go 1.26 or newer (go.dev/dl), or point KUBEBUILDER_ASSETS at a folder with it"


@dataclass(frozen=True, slots=True)
class Patch:
    """A fault mended while building: in `file` of the Go module `source`, `old` becomes `new`.

    One patch per module.
    """

    source: str
    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Program:
    """One program: where its source is, and what it answers when asked for its version."""

    name: str
    version: str
    module: str
    package: str
    minutes: int
    ldflags: str = "-s -w"
    version_args: tuple[str, ...] = ("--version",)
    patches: tuple[Patch, ...] = ()
    manifests: tuple[str, ...] = ()
    """Files and folders of `source` that go with it, into `manifests/` beside the program."""
    source: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


def _kubernetes(name: str, version: str, module: str, minutes: int) -> Program:
    """Without the linker's stamp kubectl calls itself v0.0.0-master and `kubectl version` fails."""
    major, minor, _ = version.split(".")
    stamp = "k8s.io/component-base/version"
    return Program(
        name=name,
        version=version,
        module=module,
        package=f"k8s.io/kubernetes/cmd/{name}",
        minutes=minutes,
        ldflags=(
            f"-s -w -X {stamp}.gitVersion=v{version}"
            f" -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
        ),
        version_args=("version", "--client") if name == "kubectl" else ("--version",),
    )


# kwok leaves the input of an exec open when the client's has ended, so `kubectl cp` into a pod and
# `kubectl exec -i -- cat` never come back. A kwok without this patch states another version.
_CLOSE_STDIN = Patch(
    source="sigs.k8s.io/kwok",
    file="pkg/utils/exec/exec.go",
    old="_, _ = io.Copy(inPipe, opt.In)\n",
    new="_, _ = io.Copy(inPipe, opt.In)\n_ = inPipe.Close()\n",
)

# Kueue insists on a certificate for its metrics at a place that only root may write. It states no
# version, so no other one than this is ever taken.
_CERTIFICATES = Patch(
    source="sigs.k8s.io/kueue",
    file="cmd/kueue/main.go",
    old='metricsCertPath := "/etc/kueue/metrics/certs"\n',
    new='metricsCertPath := os.Getenv("KUEUE_METRICS_CERTS")\n',
)

PROGRAMS = (
    Program("etcd", ETCD, "etcd", "go.etcd.io/etcd/server/v3", minutes=1),
    _kubernetes("kube-apiserver", KUBERNETES, "kube", minutes=4),
    _kubernetes("kube-controller-manager", KUBERNETES, "kube", minutes=1),
    _kubernetes("kube-scheduler", KUBERNETES, "kube", minutes=1),
    _kubernetes("kubectl", KUBERNETES, "kube", minutes=1),
    _kubernetes("kubectl", KUBERNETES_OLD, "kubectl", minutes=2),
    Program(
        "kwok",
        KWOK,
        "kwok",
        "sigs.k8s.io/kwok/cmd/kwok",
        minutes=3,
        ldflags=f"-s -w -X sigs.k8s.io/kwok/pkg/consts.Version={KWOK}",
        patches=(_CLOSE_STDIN,),
    ),
    Program(
        "kueue",
        KUEUE,
        "kueue",
        "sigs.k8s.io/kueue/cmd/kueue",
        minutes=5,
        ldflags=f"-s -w -X sigs.k8s.io/kueue/pkg/version.GitVersion=v{KUEUE}",
        patches=(_CERTIFICATES,),
        source="sigs.k8s.io/kueue",
        manifests=("config/components/crd/bases", "config/components/webhook/manifests.yaml"),
    ),
)


def cache_home() -> Path:
    """Where built programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fleet" / "testbed"


def program(name: str, version: str | None = None) -> Program:
    """The pinned program; `version` may leave the patch out (`1.32`). The first pin is the default.

    Raises TestbedError for a name or a version that is not pinned.
    """
    pinned = [p for p in PROGRAMS if p.name == name]
    if not pinned:
        known = ", ".join(dict.fromkeys(p.name for p in PROGRAMS))
        raise TestbedError(f"the testbed has no program {name!r}; it has {known}")
    for candidate in pinned:
        if version is None or f"{candidate.version}.".startswith(f"{version}."):
            return candidate
    raise TestbedError(
        f"{name} {version} is not pinned; the testbed has "
        + " and ".join(p.version for p in pinned)
    )


def find(wanted: Program) -> Path | None:
    """The program where it is already on this machine, else None. Builds nothing."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        path = Path(assets) / wanted.name
        if path.is_file() and version_of(path, wanted) == wanted.version:
            return path
    cached = _cached(wanted)
    if cached.is_file():
        return cached
    on_path = shutil.which(wanted.name)
    if on_path and version_of(Path(on_path), wanted) == wanted.version:
        return Path(on_path)
    return None


def version_of(path: Path, wanted: Program) -> str | None:
    """The version that the program at `path` states, without the v; None if it states none."""
    try:
        done = subprocess.run(
            [path, *wanted.version_args],
            capture_output=True,
            text=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    stated = re.search(r"\bv?(\d+\.\d+\.\d+[-+.\w]*)", done.stdout)
    return stated[1] if stated else None


async def ensure(
    name: str, *, version: str | None = None, progress: Callable[[str], None] | None = None
) -> Path:
    """The path of the program, which is built first if this machine has none.

    `progress` takes lines for a person to read; by default they go to standard error.
    Raises TestbedError when it has to be built and Go is missing or fails.
    """
    wanted = program(name, version)
    found = await asyncio.to_thread(find, wanted)
    if found:
        return found
    tell = progress or _to_stderr
    cached = _cached(wanted)
    waiting = f"waiting for another process that builds {wanted.label}"
    async with locked(cached.parent / "lock", waiting=waiting, tell=tell):
        if not cached.is_file():
            await _build(wanted, cached, tell)
    return cached


def binary(
    name: str, *, version: str | None = None, progress: Callable[[str], None] | None = None
) -> Path:
    """`ensure` for code without an event loop."""
    return asyncio.run(ensure(name, version=version, progress=progress))


def go() -> str | None:
    """The Go command, if there is one; the installer's folder is looked at as well as PATH."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


async def _build(wanted: Program, target: Path, tell: Callable[[str], None]) -> None:
    """Build into a scratch folder beside `target`, then rename: a program is whole or not there.

    Whoever builds holds the lock of the folder, so other scratch folders in it are of builds that
    were killed.
    """
    for left in target.parent.glob(f"{_SCRATCH}*"):
        await asyncio.to_thread(_discard, left)
    command = go()
    if command is None:
        raise TestbedError(f"{wanted.label} is not on this machine and Go is missing: {_GO_HINT}")
    tell(f"building {wanted.label} with Go (once, about {wanted.minutes} min)")
    async with _telling(tell, wanted.label):
        await _build_with(command, wanted, target)


@asynccontextmanager
async def _telling(tell: Callable[[str], None], label: str) -> AsyncIterator[None]:
    """Say every now and then that it goes on, and at the end that it is done."""
    clock = asyncio.get_running_loop().time
    began_s = clock()

    async def go_on() -> None:
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            tell(f"still building {label}, for {_shown(clock() - began_s)}")

    going_on = asyncio.create_task(go_on(), name=f"telling of {label}")
    try:
        yield
    finally:
        going_on.cancel()
        await asyncio.wait({going_on})
    tell(f"built {label} in {_shown(clock() - began_s)}")


def _shown(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


async def _build_with(command: str, wanted: Program, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=target.parent) as folder:
        scratch = Path(folder)
        result = scratch / wanted.name
        modfile = await _patched(command, wanted, scratch)
        await _go(
            command,
            wanted,
            *("build", "-trimpath", "-buildvcs=false", "-mod=readonly", f"-modfile={modfile}"),
            *("-ldflags", wanted.ldflags, "-o", str(result), wanted.package),
        )
        if wanted.manifests:
            await _take_manifests(command, wanted, target.parent / MANIFESTS)
        result.replace(target)


async def _take_manifests(command: str, wanted: Program, folder: Path) -> None:
    """Put what goes with a program beside it."""
    downloaded = await _go(command, wanted, "mod", "download", "-json", wanted.source)
    await asyncio.to_thread(_copy, Path(json.loads(downloaded)["Dir"]), wanted.manifests, folder)


def _copy(module: Path, names: Sequence[str], folder: Path) -> None:
    if folder.exists():  # left by a build that failed
        _discard(folder)
    folder.mkdir()
    for name in names:
        found = module / name
        for file in sorted(found.glob("*.yaml")) if found.is_dir() else [found]:
            shutil.copyfile(file, folder / file.name)


def _discard(folder: Path) -> None:
    """Delete a scratch folder; what was copied from the module cache may be read-only."""
    for path in (folder, *folder.rglob("*/")):
        path.chmod(0o700)
    shutil.rmtree(folder)


async def _patched(command: str, wanted: Program, scratch: Path) -> Path:
    """The go.mod to build with: the pinned one, with a mended copy in place of a patched module."""
    modfile = Path(shutil.copy(BUILDS / wanted.module / "go.mod", scratch))
    shutil.copy(BUILDS / wanted.module / "go.sum", scratch)
    for patch in wanted.patches:
        downloaded = await _go(command, wanted, "mod", "download", "-json", patch.source)
        _mend(patch, Path(json.loads(downloaded)["Dir"]), scratch, modfile)
    return modfile


def _mend(patch: Patch, original: Path, scratch: Path, modfile: Path) -> None:
    """Copy the module, change the file, and point `modfile` at the copy.

    A build overlay would need no copy, but Go refuses overlays of its module cache.
    """
    mended = scratch / "mended" / patch.source
    shutil.copytree(original, mended, copy_function=shutil.copyfile)
    for path in (mended, *mended.rglob("*/")):
        path.chmod(0o755)  # folders of the module cache are read-only
    file = mended / patch.file
    text = file.read_text()
    if text.count(patch.old) != 1:
        raise TestbedError(f"the patch of {patch.source} does not fit its {patch.file}")
    file.write_text(text.replace(patch.old, patch.new))
    with modfile.open("a") as lines:
        lines.write(f"\nreplace {patch.source} => {mended}\n")


async def _go(command: str, wanted: Program, *arguments: str) -> str:
    """Run Go in the program's pinned module; its output. It ends when this task is cancelled."""
    process = await asyncio.create_subprocess_exec(
        command,
        *arguments,
        cwd=BUILDS / wanted.module,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        tail = "\n  ".join(errors.decode(errors="replace").strip().splitlines()[-15:])
        raise TestbedError(
            f"building {wanted.label} failed (go {arguments[0]}, exit code {process.returncode}):\n"
            f"  {tail}\nIt needs a Go module proxy (GOPROXY) and Go 1.26 or newer; "
            "run the command again when that is mended."
        )
    return output.decode()


def _cached(wanted: Program) -> Path:
    return cache_home() / f"{wanted.name}-{wanted.version}" / wanted.name


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
