"""Finding and building, with a Go that is a shell script."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from fleet.errors import TestbedError
from fleet.testbed import binaries

if TYPE_CHECKING:
    from pathlib import Path

# Stands for Go: counts its builds, and builds a program that states the version of its ldflags.
GO = """#!/bin/sh
case "$1" in
build)
    echo "$PWD $CGO_ENABLED $*" >>"$BUILT"
    [ ! -e "$BUILT.fail" ] || { echo "no such module" >&2; exit 1; }
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho made\\n' >"$2"
    chmod +x "$2" ;;
mod) printf '{"Dir": "%s"}' "$MODULE" ;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """A machine with a Go and nothing else: empty cache, empty PATH but for the usual tools."""
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "go", GO)
    source = tmp_path / "module" / "pkg/utils/exec"
    source.mkdir(parents=True)
    (source / "exec.go").write_text("a\n_, _ = io.Copy(inPipe, opt.In)\nb\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    monkeypatch.setenv("MODULE", str(tmp_path / "module"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def stating(path: Path, words: str) -> Path:
    return script(path, f"#!/bin/sh\necho '{words}'\n")


def builds(machine: Path) -> list[str]:
    built = machine / "built"
    return built.read_text().splitlines() if built.exists() else []


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (None, binaries.KUBERNETES),
        ("1.36", binaries.KUBERNETES),
        ("1.32", binaries.KUBERNETES_OLD),
        (binaries.KUBERNETES_OLD, binaries.KUBERNETES_OLD),
    ],
)
def test_a_version_may_leave_the_patch_out(asked, version):
    assert binaries.program("kubectl", asked).version == version


@pytest.mark.parametrize("asked", ["1.3", "1.31", "2", "1.36.30"])
def test_a_version_that_is_not_pinned_is_refused_with_those_that_are(asked):
    with pytest.raises(TestbedError, match=r"has 1\.36\.\d+ and 1\.32\.\d+"):
        binaries.program("kubectl", asked)


def test_an_unknown_program_is_refused_with_the_known_ones():
    with pytest.raises(TestbedError, match="no program 'kubelet'; it has etcd, kube-apiserver"):
        binaries.program("kubelet")


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("Kubernetes v1.36.3", "1.36.3"),
        ("etcd Version: 3.6.16\nGit SHA: Not provided\nGo Version: go1.26.8", "3.6.16"),
        ("kwok version v0.7.0-fleet.1 go1.26.8 (linux/amd64)", "0.7.0-fleet.1"),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", "1.32.4-dispatcher"),
        ("no idea", None),
    ],
)
def test_the_stated_version_is_read(tmp_path, words, version):
    path = stating(tmp_path / "program", words)

    assert binaries.version_of(path, binaries.program("etcd")) == version


def test_what_cannot_run_states_nothing(tmp_path):
    broken = script(tmp_path / "program", "#!/no/such/shell\n")

    assert binaries.version_of(broken, binaries.program("etcd")) is None


@pytest.mark.usefixtures("machine")
def test_nothing_is_found_on_a_fresh_machine():
    assert [binaries.find(program) for program in binaries.PROGRAMS] == [None] * 8


def test_assets_come_before_the_cache_and_the_cache_before_path(machine, monkeypatch):
    wanted = binaries.program("etcd")
    right = f"etcd Version: {binaries.ETCD}"
    on_path = stating(machine / "bin" / "etcd", right)
    assert binaries.find(wanted) == on_path

    cached = stating(binaries.cache_home() / f"etcd-{binaries.ETCD}" / "etcd", "any")
    assert binaries.find(wanted) == cached

    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    assert binaries.find(wanted) == cached
    asset = stating(machine / "assets" / "etcd", right)
    assert binaries.find(wanted) == asset


def test_another_version_is_never_taken(machine, monkeypatch):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    stating(machine / "assets" / "kubectl", "Client Version: v1.30.0")
    stating(machine / "bin" / "kubectl", f"Client Version: v{binaries.KUBERNETES_OLD}")

    assert binaries.find(binaries.program("kubectl")) is None
    assert binaries.find(binaries.program("kubectl", "1.32")) == machine / "bin" / "kubectl"


async def test_what_builds_that_were_killed_left_is_deleted_by_the_next(machine):
    home = binaries.cache_home() / f"etcd-{binaries.ETCD}"
    copied = home / "build-x7k2p" / "mended" / "pkg"
    copied.mkdir(parents=True)
    (copied / "a.go").write_text("package a")
    copied.chmod(0o500)
    copied.parent.chmod(0o500)

    path = await binaries.ensure("etcd", progress=lambda _: None)
    assert sorted(each.name for each in home.iterdir()) == ["etcd", "lock"]
    assert path == home / "etcd"


async def test_a_missing_program_is_built_once_and_then_found(machine):
    said: list[str] = []
    path = await binaries.ensure("etcd", progress=said.append)

    assert path == binaries.cache_home() / f"etcd-{binaries.ETCD}" / "etcd"
    assert os.access(path, os.X_OK)
    building, built = said
    assert building == f"building etcd {binaries.ETCD} with Go (once, about 1 min)"
    assert built.startswith(f"built etcd {binaries.ETCD} in ")
    assert await binaries.ensure("etcd", progress=said.append) == path
    assert len(said) == 2
    (line,) = builds(machine)
    assert line.startswith(f"{binaries.BUILDS / 'etcd'} 0 build -trimpath")
    assert "-mod=readonly" in line


async def test_a_build_says_that_it_goes_on_and_how_long_it_took(machine, monkeypatch):
    monkeypatch.setattr(binaries, "_TELL_EVERY_S", 0)
    slow = GO.replace("build)", 'build)\n    while [ ! -e "$BUILT.go" ]; do :; done', 1)
    script(machine / "bin" / "go", slow)
    told = []

    def tell(line):
        told.append(line)
        if len(told) == 3:
            (machine / "built.go").touch()

    await binaries.ensure("etcd", progress=tell)
    label = binaries.program("etcd").label
    assert told[0] == f"building {label} with Go (once, about 1 min)"
    assert told[1].startswith(f"still building {label}, for ")
    assert told[-1].startswith(f"built {label} in ")
    assert not [each for each in asyncio.all_tasks() if each.get_name().startswith("telling")]


async def test_two_at_the_same_time_build_once(machine):
    said: list[str] = []
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(binaries.ensure("etcd", progress=said.append)) for _ in range(2)]

    assert both[0].result() == both[1].result()
    assert len(builds(machine)) == 1


async def test_a_failed_build_tells_what_go_said_and_leaves_nothing(machine):
    (machine / "built.fail").touch()
    with pytest.raises(TestbedError, match=r"(?s)building etcd .*no such module.*Go 1\.26"):
        await binaries.ensure("etcd", progress=lambda _: None)

    assert binaries.find(binaries.program("etcd")) is None
    (machine / "built.fail").unlink()
    assert await binaries.ensure("etcd", progress=lambda _: None)


async def test_without_go_the_message_says_what_to_install(machine, monkeypatch):
    monkeypatch.setattr(binaries, "go", lambda: None)
    with pytest.raises(TestbedError, match=r"Go is missing: install Go 1\.26.*KUBEBUILDER_ASSETS"):
        await binaries.ensure("etcd", progress=lambda _: None)


def test_code_without_a_loop_gets_the_same(machine):
    assert binaries.binary("etcd", progress=lambda _: None).is_file()


async def test_kwok_is_built_from_a_mended_copy(machine):
    """The copy is gone after the build; the module file that named it shows what was built."""
    keep = machine / "kept"
    keeping = GO.replace(
        "shift; done",
        f"case $1 in -modfile=*) cp -r $(dirname ${{1#*=}}) {keep};; esac; shift; done",
    )
    script(machine / "bin" / "go", keeping)
    await binaries.ensure("kwok", progress=lambda _: None)

    mended = (keep / "mended/sigs.k8s.io/kwok/pkg/utils/exec/exec.go").read_text()
    assert "_, _ = io.Copy(inPipe, opt.In)\n_ = inPipe.Close()\n" in mended
    assert (keep / "go.mod").read_text().count("replace sigs.k8s.io/kwok => ") == 1
    assert (keep / "go.sum").read_text() == (binaries.BUILDS / "kwok" / "go.sum").read_text()


async def test_manifests_go_with_the_program_and_those_of_a_failed_build_are_replaced(machine):
    module = machine / "module"
    (module / "cmd/kueue").mkdir(parents=True)
    (module / "cmd/kueue/main.go").write_text('metricsCertPath := "/etc/kueue/metrics/certs"\n')
    for name in ("crd/bases/a.yaml", "crd/bases/a.txt", "webhook/manifests.yaml"):
        file = module / "config/components" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    beside = binaries.cache_home() / f"kueue-{binaries.KUEUE}" / binaries.MANIFESTS
    beside.mkdir(parents=True)
    (beside / "of-a-failed-build.yaml").touch()

    program = await binaries.ensure("kueue", progress=lambda _: None)
    assert program.parent == beside.parent
    assert {each.name: each.read_text() for each in beside.iterdir()} == {
        "a.yaml": "crd/bases/a.yaml",
        "manifests.yaml": "webhook/manifests.yaml",
    }


async def test_a_patch_that_does_not_fit_stops_the_build(machine):
    (machine / "module/pkg/utils/exec/exec.go").write_text("changed upstream\n")

    with pytest.raises(TestbedError, match=r"patch of sigs\.k8s\.io/kwok does not fit"):
        await binaries.ensure("kwok", progress=lambda _: None)
    assert builds(machine) == []


@pytest.mark.parametrize("wanted", binaries.PROGRAMS, ids=lambda program: program.label)
def test_every_program_is_pinned_by_a_shipped_module(wanted):
    folder = binaries.BUILDS / wanted.module
    source, version = {
        "etcd": ("go.etcd.io/etcd/server/v3", wanted.version),
        "kwok": ("sigs.k8s.io/kwok", wanted.version.partition("-")[0]),
        "kueue": ("sigs.k8s.io/kueue", wanted.version.partition("-")[0]),
    }.get(wanted.module, ("k8s.io/kubernetes", wanted.version))

    assert f"{source} v{version}" in (folder / "go.mod").read_text()
    assert f"{source} v{version} h1:" in (folder / "go.sum").read_text()
    assert wanted.package in (folder / "go.mod").read_text()
