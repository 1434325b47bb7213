"""The kubeconfig: one context for each root, and what the user chose in it stays."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fleet.gateway.kubeconfig import KubeconfigFile, context_of, url_of
from fleet.gateway.pki import KeyPair

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> KubeconfigFile:
    return KubeconfigFile(
        tmp_path / "fleet.kubeconfig",
        "https://127.0.0.1:7443",
        b"CA",
        lambda: KeyPair(b"CERTIFICATE", b"KEY"),
    )


def read(file: KubeconfigFile) -> dict[str, Any]:
    return yaml.safe_load(file.path.read_bytes())


def servers(file: KubeconfigFile) -> dict[str, str]:
    return {entry["name"]: entry["cluster"]["server"] for entry in read(file)["clusters"]}


def test_each_root_has_a_context(file: KubeconfigFile) -> None:
    assert file.write(["west", "east"])
    assert servers(file) == {
        "fleet": "https://127.0.0.1:7443",
        "fleet-objects": "https://127.0.0.1:7443/fleet",
        "east": "https://127.0.0.1:7443/clusters/east",
        "west": "https://127.0.0.1:7443/clusters/west",
    }
    document = read(file)
    assert document["current-context"] == "fleet"
    assert [entry["name"] for entry in document["contexts"]] == list(servers(file))
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == b"KEY"
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_writing_the_same_again_changes_nothing(file: KubeconfigFile) -> None:
    file.write(["east"])
    before = file.path.stat().st_mtime_ns
    assert not file.write(["east"])
    assert file.path.stat().st_mtime_ns == before


def test_members_come_and_go(file: KubeconfigFile) -> None:
    file.write(["east"])
    file.write(["west"])
    assert set(servers(file)) == {"fleet", "fleet-objects", "west"}
    file.write([])
    assert set(servers(file)) == {"fleet", "fleet-objects"}


def test_what_the_user_chose_stays(file: KubeconfigFile) -> None:
    file.write(["east"])
    document = read(file)
    document["current-context"] = "east"
    document["contexts"][0]["context"]["namespace"] = "payments"
    document["contexts"].append(
        {"name": "mine", "context": {"cluster": "other", "user": "me", "namespace": "x"}}
    )
    document["clusters"].append({"name": "other", "cluster": {"server": "https://other"}})
    document["users"].append({"name": "me", "user": {"token": "t"}})
    document["preferences"] = {"colors": True}
    file.path.write_text(yaml.safe_dump(document))
    file.write(["east", "west"])
    after = read(file)
    assert after["current-context"] == "east"
    assert after["contexts"][0]["context"]["namespace"] == "payments"
    assert after["preferences"] == {"colors": True}
    assert {"mine", "west"} <= {entry["name"] for entry in after["contexts"]}
    assert {"name": "me", "user": {"token": "t"}} in after["users"]
    assert servers(file)["other"] == "https://other"


def test_a_current_context_that_left_gives_way(file: KubeconfigFile) -> None:
    file.write(["east"])
    document = read(file)
    document["current-context"] = "east"
    file.path.write_text(yaml.safe_dump(document))
    file.write([])
    assert read(file)["current-context"] == "fleet"


def test_a_new_port_moves_every_entry(file: KubeconfigFile) -> None:
    file.write(["east", "west"])
    moved = KubeconfigFile(file.path, "https://127.0.0.1:9000", file.authority, file.admin)
    moved.write(["east"])
    assert set(servers(moved)) == {"fleet", "fleet-objects", "east"}
    assert all(":9000" in server for server in servers(moved).values())


def test_a_certificate_signed_anew_is_written(file: KubeconfigFile) -> None:
    file.write(["east"])
    renewed = replace(file, admin=lambda: KeyPair(b"NEXT", b"KEY"))
    assert renewed.write(["east"])
    [user] = read(file)["users"]
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"NEXT"


@pytest.mark.parametrize("content", [b"", b"[1, 2", b"- a", b"\xff", b"contexts: 5\nclusters: [x]"])
def test_a_file_that_is_no_kubeconfig_is_written_anew(file: KubeconfigFile, content: bytes) -> None:
    file.path.write_bytes(content)
    file.write(["east"])
    assert "east" in servers(file)


@pytest.mark.parametrize("name", ["fleet", "fleet-objects"])
def test_a_member_named_like_a_root_keeps_out_of_its_way(file: KubeconfigFile, name: str) -> None:
    file.write([name])
    assert servers(file)[context_of(name)].endswith(f"/clusters/{name}")
    assert servers(file)["fleet"] == "https://127.0.0.1:7443"


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:1"),
        ("0.0.0.0", "https://127.0.0.1:1"),
        ("::", "https://127.0.0.1:1"),
        ("::1", "https://[::1]:1"),
        ("fleet.example", "https://fleet.example:1"),
    ],
)
def test_where_clients_reach_it(address: str, url: str) -> None:
    assert url_of(address, 1) == url
