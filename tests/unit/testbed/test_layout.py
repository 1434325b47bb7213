from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest
import yaml

from fleet.errors import TestbedError
from fleet.gateway import pki
from fleet.testbed import components, layout


@pytest.fixture
def member(tmp_path) -> layout.Layout:
    return layout.create("east", root=tmp_path / "east", network=3, components=components.ALL)


def test_a_layout_is_read_again_as_it_was_made(member):
    assert layout.load(member.root) == member
    assert layout.members(member.root.parent) == ["east"]


def test_a_folder_without_a_layout_was_never_finished(tmp_path, member):
    (member.root / "member.json").unlink()

    assert layout.load(member.root) is None
    assert layout.members(tmp_path) == []
    assert layout.load(tmp_path / "nowhere") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"name": "east", "ports": {"api": 1}}'])
def test_a_damaged_layout_is_named_with_what_to_do(member, content):
    (member.root / "member.json").write_text(content)

    with pytest.raises(TestbedError, match=r"member\.json cannot be read .* delete"):
        layout.load(member.root)


def test_only_the_owner_reads_keys_and_kubeconfig(member):
    private = [member.kubeconfig, *(member.root / "pki").glob("*.key")]

    assert len(private) > 5
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
    assert stat.S_IMODE(member.root.stat().st_mode) == 0o700


def test_the_kubeconfig_stands_alone_and_mixes_with_those_of_other_members(member):
    text = member.kubeconfig.read_text()
    config = yaml.safe_load(text)

    assert str(member.root) not in text
    assert config["current-context"] == "east"
    assert [user["name"] for user in config["users"]] == ["east-admin"]
    assert config["contexts"] == [
        {"name": "east", "context": {"cluster": "east", "user": "east-admin"}}
    ]
    assert config["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{member.ports.api}"


def test_members_of_different_numbers_share_no_addresses(member, tmp_path):
    other = layout.create("west", root=tmp_path / "west", network=4, components=components.ALL)

    assert member.pod_cidr == "10.67.0.0/16"
    assert {member.pod_cidr, member.service_cidr}.isdisjoint({other.pod_cidr, other.service_cidr})
    assert member.service_ip.rpartition(".")[0] == member.service_cidr.removesuffix(".0/16")


@pytest.mark.parametrize("network", [0, layout.NETWORKS - 1])
def test_pods_and_services_never_meet(tmp_path, network):
    made = layout.Layout("m", tmp_path, network, layout.Ports(1, 2, 3, 4))
    pods, services = (int(cidr.split(".")[1]) for cidr in (made.pod_cidr, made.service_cidr))

    assert 64 <= pods < 128 <= services < 192


def test_free_ports_are_distinct_and_leave_out_what_is_taken(monkeypatch):
    first = layout.free_ports(1)[0]
    monkeypatch.setattr(layout, "_PORTS", range(first, first + 1))
    assert layout.free_ports(1) == [first]

    with socket.socket() as taken:
        taken.bind((layout.LOOPBACK, first))
        with pytest.raises(TestbedError, match=f"1 free ports are needed .* {first} to {first}"):
            layout.free_ports(1)


def test_ports_are_outside_the_range_of_outgoing_connections():
    low, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()

    assert max(layout._PORTS) < max(int(low), 32768)
    assert len(set(layout.free_ports(20))) == 20


def test_no_client_of_the_api_server_is_one_of_etcd(member):
    """Two authorities: an admin's certificate opens the API, not the store below it."""
    admin, store = (
        pki.Authority.load(pki.KeyPair(member.cert(n).read_bytes(), member.key(n).read_bytes()))
        for n in ("ca", "etcd-ca")
    )
    assert admin.pair.certificate != store.pair.certificate
    flags = components.arguments(components.ETCD, member)
    assert f"--trusted-ca-file={member.cert('etcd-ca')}" in flags
    assert "--client-cert-auth" in flags


@pytest.mark.parametrize("component", [c for c in components.ALL if c != components.GATEKEEPER])
def test_every_component_binds_loopback_only(member, component):
    flags = components.arguments(component, member)

    assert not any("0.0.0.0" in flag for flag in flags)
    bound = {
        components.ETCD: (
            "--listen-client-urls=https://127.0.0.1:",
            "--listen-peer-urls=https://127.0.0.1:",
        ),
        components.KWOK: ("--server-address=127.0.0.1:",),
    }.get(component, ("--bind-address=127.0.0.1",))
    for start in bound:
        assert sum(flag.startswith(start) for flag in flags) == 1


def test_files_named_by_the_components_exist(member):
    """`kwok.yaml` alone is written later, at each start."""
    for component in components.ALL[:-1]:
        for flag in components.arguments(component, member):
            name, _, value = flag.partition("=")
            if value.startswith(str(member.root)) and name not in ("--data-dir", "--config"):
                assert (member.root / value).is_file(), flag


def test_what_is_stored_holds_no_secret(member):
    stored = json.loads((member.root / "member.json").read_text())

    assert set(stored) == {"name", "network", "ports", "components"}


def test_deleting_leaves_nothing(member: layout.Layout, tmp_path: Path):
    layout.delete(member.root)

    assert list(tmp_path.iterdir()) == []
