"""Which gateway a command speaks to, where nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fleet.cli.finding import MARK, find_kubeconfig
from fleet.errors import ConfigError
from fleet.gateway import kubeconfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """The kubeconfig of the gateway on this machine."""
    file = tmp_path / "state" / "fleet" / "fleet.kubeconfig"
    file.parent.mkdir(parents=True)
    return gateways(file)


def written(file: Path, document: dict[str, Any]) -> Path:
    file.write_text(yaml.safe_dump(document))
    return file


def gateways(file: Path, *, members: tuple[str, ...] = ("east",), current: str = "fleet") -> Path:
    """What a gateway writes."""
    names = ["fleet", "fleet-objects", *members]
    entries = {
        "clusters": [{"name": n, "cluster": {"server": f"https://{n}"}} for n in names],
        "contexts": [{"name": n, "context": {"cluster": n, "user": "admin"}} for n in names],
        "users": [{"name": "admin", "user": {}}],
    }
    return written(file, kubeconfig.merged({"current-context": current}, entries))


def clusters(file: Path, **more: Any) -> Path:
    """What any cluster gives its users; it may be called as a gateway's context is."""
    contexts = [{"name": "fleet", "context": {"cluster": "c", "user": "u"}}]
    return written(file, {"current-context": "fleet", "contexts": contexts, **more})


def test_the_mark_is_the_one_that_gateways_write() -> None:
    assert MARK == kubeconfig._MARK


def test_one_that_is_given_is_taken(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["KUBECONFIG"] = str(gateways(tmp_path / "other"))
    assert find_kubeconfig(tmp_path / "given", environment) == tmp_path / "given"


def test_an_exported_gateway_wins_over_the_one_on_this_machine(
    tmp_path: Path, environment: dict[str, str], local: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_kubeconfig(None, environment) == local
    environment["KUBECONFIG"] = str(gateways(tmp_path / "other"))
    assert find_kubeconfig(None, environment) == tmp_path / "other"
    environment["KUBECONFIG"] = str(gateways(tmp_path / "other", current="east"))
    assert find_kubeconfig(None, environment) == tmp_path / "other"
    assert capsys.readouterr().err == ""


def test_what_leads_elsewhere_does_not_and_that_is_said(
    tmp_path: Path, environment: dict[str, str], local: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"{a: [\xff")
    for file in (clusters(tmp_path / "cluster"), wrong, tmp_path / "missing"):
        environment["KUBECONFIG"] = str(file)
        assert find_kubeconfig(None, environment) == local
        (line,) = capsys.readouterr().err.splitlines()
        assert str(local) in line and str(file) in line


def test_of_several_files_the_first_that_says_counts(
    tmp_path: Path, environment: dict[str, str], local: Path
) -> None:
    gateway, cluster = gateways(tmp_path / "gateway"), clusters(tmp_path / "cluster")
    environment["KUBECONFIG"] = f"{tmp_path}/none:{gateway}:{cluster}"
    assert find_kubeconfig(None, environment) == gateway
    environment["KUBECONFIG"] = f"{cluster}:{gateway}"
    assert find_kubeconfig(None, environment) == local
    only = written(tmp_path / "only", {"current-context": "east"})
    environment["KUBECONFIG"] = f"{only}:{gateway}"
    assert find_kubeconfig(None, environment) == gateway


def test_a_gateway_that_is_named_is_meant(
    tmp_path: Path, environment: dict[str, str], local: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment["KUBECONFIG"] = str(gateways(tmp_path / "other"))
    directory = tmp_path / "mine"
    environment["FLEET_STATE_DIRECTORY"] = str(directory)
    assert find_kubeconfig(None, environment) == tmp_path / "other"  # it never ran
    directory.mkdir()
    mine = gateways(directory / "fleet.kubeconfig")
    assert find_kubeconfig(None, environment) == mine
    environment["FLEET_KUBECONFIG"] = str(tmp_path / "own")
    assert find_kubeconfig(None, environment) == tmp_path / "own"
    assert capsys.readouterr().err == ""


def test_without_a_gateway_here_any_kubeconfig_is_tried(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    cluster = clusters(tmp_path / "cluster")
    environment["KUBECONFIG"] = f"{tmp_path}/none:{cluster}"
    assert find_kubeconfig(None, environment) == cluster
    environment["KUBECONFIG"] = ""
    with pytest.raises(ConfigError, match="start a gateway with `fleet run`"):
        find_kubeconfig(None, environment)
