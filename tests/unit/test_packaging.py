"""The wheel carries everything the packages need, and the project's files agree with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fleet", "adapters", "virtualnode", "policies")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
# Read by shipped code with importlib.resources or beside its module; a wheel without it imports
# well and fails later.
DATA = {
    "fleet/py.typed",
    "adapters/py.typed",
    "virtualnode/py.typed",
    "policies/py.typed",
    "fleet/kube/data/builtin.json",
    "fleet/kube/protobuf/descriptors.binpb.gz",
    "fleet/kube/protobuf/presence.json.gz",
    "fleet/kube/schema/data/apps__v1.json.gz",
    "fleet/kube/schema/data/go-fields.json.gz",
    "fleet/kube/schema/data/v1.json.gz",
    "fleet/kube/tables/descriptions.json",
    "fleet/testbed/builds/etcd/go.mod",
    "fleet/testbed/builds/etcd/go.sum",
    "fleet/testbed/builds/kube/go.mod",
    "fleet/testbed/builds/kube/go.sum",
    "fleet/testbed/builds/kubectl/go.mod",
    "fleet/testbed/builds/kubectl/go.sum",
    "fleet/testbed/builds/kueue/go.mod",
    "fleet/testbed/builds/kueue/go.sum",
    "fleet/testbed/builds/kwok/go.mod",
    "fleet/testbed/builds/kwok/go.sum",
    "fleet/testbed/stages.yaml",
    "policies/builtin/default.yaml",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from the working tree by the pinned back end; nothing is downloaded."""
    target = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_has_every_file_of_the_packages_and_no_other(wheel):
    here = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == here


def test_the_wheel_has_the_data(wheel):
    assert set(wheel.namelist()) >= DATA


def test_data_beside_the_modules_is_listed_here(wheel):
    """So that a file that is lost is missed, not only one that is not packed."""
    kinds = {name for name in wheel.namelist() if not name.endswith(".py")}
    grouped = {"fleet/kube/schema/data/"}
    unlisted = {
        name
        for name in kinds - DATA
        if ".dist-info/" not in name and not any(name.startswith(group) for group in grouped)
    }
    assert unlisted == set()


def test_both_commands_are_installed(wheel):
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    lines = wheel.read(entry_points).decode().splitlines()
    assert lines[0] == "[console_scripts]"
    assert set(lines[1:]) - {""} == {
        "fleet = fleet.cli.main:main",
        "kubectl-fleet = fleet.cli.main:main",
    }


def test_what_is_in_the_wheel_works_without_the_checkout(wheel, tmp_path):
    """Data is found beside the modules, wherever they are installed."""
    wheel.extractall(tmp_path)
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import fleet, policies
from policies import builtin as policy_files
from fleet.cli.main import cli
from fleet.kube import builtin
from fleet.kube.schema import document, group_versions
from fleet.testbed import binaries
assert fleet.__file__.startswith({str(tmp_path)!r}), fleet.__file__
assert builtin.release() and policies.kinds() and policies.openapi_document()
assert all(document(group_version) for group_version in group_versions())
assert list(policy_files.objects())
cli(["--help"])
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "fleet join" in done.stdout


def test_metadata_names_licence_readme_and_version(wheel):
    (metadata,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    text = wheel.read(metadata).decode()
    head, _, readme = text.partition("\n\n")
    assert "License-Expression: Apache-2.0" in head
    assert "License-File: LICENSE" in head
    assert f"Requires-Python: {PROJECT['project']['requires-python']}" in head
    assert f"\nVersion: {fleet.__version__}\n" in head
    assert readme.strip() == (ROOT / "README.md").read_text("utf-8").strip()
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert version(PROJECT["project"]["name"]) == fleet.__version__


def locked() -> dict[str, str]:
    """Versions by name, of requirements.lock."""
    found = {}
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            name, _, rest = line.partition("==")
            found[canonicalize_name(name.partition("[")[0])] = rest.split()[0].rstrip(";")
    return found


def test_the_lock_file_has_every_dependency_at_a_version_that_is_allowed():
    project = PROJECT["project"]
    declared = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for group in project["optional-dependencies"].values():
        declared += group
    lock = locked()
    for text in declared:
        wanted = Requirement(text)
        if canonicalize_name(wanted.name) == project["name"]:
            continue
        assert wanted.specifier.contains(lock[canonicalize_name(wanted.name)]), text


def run_part() -> set[str]:
    """Names in the first part of requirements.lock, as scripts/environment cuts it."""
    (cut,) = re.findall(r"sed '/\^(.*)/,\$d'", (ROOT / "scripts" / "environment").read_text())
    head, found, _ = (ROOT / "requirements.lock").read_text("utf-8").partition(f"\n{cut}")
    assert found
    return {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", head, re.MULTILINE)}


def needed(texts: Iterable[str]) -> set[str]:
    """All that these requirements need here, by the metadata of what is installed."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in texts]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = ("", *wanted.extras)
        if name not in found:
            found.add(name)
            more = map(Requirement, requires(name) or ())
            waiting += [
                each for each in more
                if not each.marker or any(each.marker.evaluate({"extra": e}) for e in extras)
            ]  # fmt: skip
    return found


def test_the_demo_installs_what_a_gateway_needs_and_what_installs_it_and_no_more() -> None:
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    locked_first = run_part()
    assert needed([*wanted, "editables"]) <= locked_first
    assert not locked_first & {"kubernetes", "mypy", "numpy", "ortools", "pytest", "ruff"}
    assert locked_first < locked().keys()


def test_every_dependency_has_a_lower_bound():
    project = PROJECT["project"]
    for text in (*project["dependencies"], *project["optional-dependencies"]["test"]):
        assert any(each.operator == ">=" for each in Requirement(text).specifier), text


def test_every_package_of_the_gateway_is_in_the_import_contracts():
    """What adapters, policies and virtual nodes must not know is listed by name."""
    packages = {
        f"fleet.{path.stem}"
        for path in (ROOT / "fleet").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    } - {"fleet.__init__"}
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        if contract["type"] != "forbidden" or contract["source_modules"] == ["fleet.kube"]:
            continue
        allowed = {"fleet.errors", "fleet.kube"}
        if contract["source_modules"] == ["virtualnode"]:
            allowed |= {"fleet.store", "fleet.apiserver"}
        assert packages - allowed <= set(contract["forbidden_modules"]), contract["name"]
