"""The state directory: private, one gateway at a time, an epoch that never repeats."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fleet.errors import ConfigError, StoreError
from fleet.gateway.state import StateDirectory, write_private

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_directory_is_its_owners_alone(tmp_path: Path) -> None:
    with StateDirectory.open(tmp_path / "a" / "b") as state:
        assert state.path.stat().st_mode & 0o777 == 0o700
        state.next_epoch()
        assert all(file.stat().st_mode & 0o077 == 0 for file in state.path.iterdir())


def test_an_empty_or_own_directory_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir(mode=0o755)
    StateDirectory.open(path).close()
    path.chmod(0o755)
    StateDirectory.open(path).close()
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_directory_of_other_things_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.mkdir(mode=0o755)
    (path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="other users can read it"):
        StateDirectory.open(path)
    assert path.stat().st_mode & 0o777 == 0o755
    assert [file.name for file in path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="not a directory; give another with --state-directory"):
        StateDirectory.open(tmp_path / "file")


def test_a_second_gateway_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from fleet.gateway.state import StateDirectory;"
        "state = StateDirectory.open(pathlib.Path(sys.argv[1]));"
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(ConfigError, match=rf"another gateway \(process {holder.pid}\) runs"):
            StateDirectory.open(tmp_path / "s")
        holder.kill()
    # the lock goes with its holder, however that ended
    StateDirectory.open(tmp_path / "s").close()


def test_epochs_count_up_over_restarts(tmp_path: Path) -> None:
    seen = []
    for _ in range(3):
        with StateDirectory.open(tmp_path / "s") as state:
            seen += [state.next_epoch(), state.next_epoch()]
    assert seen == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("content", [b"", b"seven", b"-1", b"\xff\xfe"])
def test_an_epoch_that_cannot_be_read_stops_the_start(tmp_path: Path, content: bytes) -> None:
    with StateDirectory.open(tmp_path / "s") as state:
        (state.path / "epoch").write_bytes(content)
        with pytest.raises(StoreError, match="epoch"):
            state.next_epoch()
        assert (state.path / "epoch").read_bytes() == content


def test_a_replaced_file_is_whole_or_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    write_private(file, b"before")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_private(file, b"after")
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]
