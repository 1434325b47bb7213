"""Kubeconfigs on disk: private, whole, and followed."""

from __future__ import annotations

import os
import stat

import pytest
import yaml

from fleet.errors import ConfigError, JoinError, StoreError
from fleet.members.credentials import CredentialStore

KUBECONFIG = b"apiVersion: v1\nkind: Config\nextensions: [{name: other, extension: 1}]\n"


@pytest.fixture
def store(tmp_path) -> CredentialStore:
    made = CredentialStore(tmp_path / "state" / "credentials")
    made.open()
    return made


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read(store, tmp_path):
    directory = tmp_path / "state" / "credentials"
    store.save("east", KUBECONFIG, uid="u1")
    assert mode(directory) == 0o700
    assert mode(directory / "east.kubeconfig") == 0o600
    directory.chmod(0o755)
    store.open()
    assert mode(directory) == 0o700


def test_what_is_saved_is_a_kubeconfig_that_knows_its_cluster(store):
    store.save("east", KUBECONFIG, uid="u1")
    store.save("east", store.load("east").kubeconfig, uid="u2")
    stored = store.load("east")
    assert stored.uid == "u2"
    document = yaml.safe_load(stored.kubeconfig)
    assert document["kind"] == "Config"
    assert [entry["name"] for entry in document["extensions"]] == ["other", "fleet.dev/member"]


def test_names_and_deletion(store, tmp_path):
    for name in ("west", "east"):
        store.save(name, KUBECONFIG, uid=name)
    (tmp_path / "state" / "credentials" / "notes.txt").touch()
    assert store.names() == ["east", "west"]
    store.delete("east")
    store.delete("east")
    assert store.names() == ["west"]
    with pytest.raises(StoreError):
        store.load("east")


def test_a_save_that_fails_leaves_what_was_there(store, tmp_path, monkeypatch):
    store.save("east", KUBECONFIG, uid="u1")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.save("east", KUBECONFIG, uid="u2")
    assert store.load("east").uid == "u1"
    assert os.listdir(tmp_path / "state" / "credentials") == ["east.kubeconfig"]


@pytest.mark.parametrize("name", ["../east", "a.b", "East", ""])
def test_a_name_is_never_a_path(store, name):
    with pytest.raises(JoinError):
        store.save(name, KUBECONFIG, uid="u")


@pytest.mark.parametrize("content", [b"[", b"- a", b"\xff\xfe\x00"])
def test_what_is_no_kubeconfig_is_not_kept(store, content):
    with pytest.raises(ConfigError):
        store.save("east", content, uid="u")
    assert store.names() == []


def test_files_replaced_from_outside_are_noticed_once(store, tmp_path):
    store.save("east", KUBECONFIG, uid="u1")
    assert store.replaced() == []
    path = tmp_path / "state" / "credentials" / "east.kubeconfig"
    path.with_suffix(".new").write_bytes(KUBECONFIG + b"current-context: x\n")
    path.with_suffix(".new").replace(path)
    assert store.replaced() == ["east"]
    assert store.replaced() == []
    assert store.load("east").uid == ""


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot keep credentials"):
        CredentialStore(tmp_path / "file" / "x").open()
