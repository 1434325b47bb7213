"""The fleet's authority: kept, renewed in time, and only ever for whom it says."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet.errors import ConfigError
from fleet.gateway.authority import (
    AUTHORITY_LIFETIME,
    LIFETIME,
    RENEW_BEFORE,
    Authority,
    server_names,
)

if TYPE_CHECKING:
    from pathlib import Path

START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> dt.datetime:
        return self.now


def certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_it_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = Authority.open(tmp_path / "pki")
    first.server(["localhost"])
    first.admin()
    assert Authority.open(tmp_path / "pki").certificate == first.certificate
    assert (tmp_path / "pki").stat().st_mode & 0o777 == 0o700
    assert sorted(file.name for file in (tmp_path / "pki").iterdir()) == [
        "admin.pem",
        "ca.pem",
        "server.pem",
    ]
    for file in (tmp_path / "pki").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600


def test_two_fleets_have_two_authorities(tmp_path: Path) -> None:
    one, other = (Authority.open(tmp_path / name) for name in "ab")
    assert certificate(one.certificate).subject != certificate(other.certificate).subject


def test_the_admins_certificate_names_user_and_group(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path / "pki")
    admin = certificate(authority.admin().certificate)
    names = {
        kind: admin.subject.get_attributes_for_oid(kind)
        for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    assert [n.value for n in names[NameOID.COMMON_NAME]] == ["fleet:admin"]
    assert [n.value for n in names[NameOID.ORGANIZATION_NAME]] == ["fleet:admins"]
    usage = admin.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    admin.verify_directly_issued_by(certificate(authority.certificate))


def test_the_servers_certificate_holds_every_name(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path / "pki")
    names = ["localhost", "127.0.0.1", "::1", "fleet.example"]
    pair = authority.server(names)
    held = (
        certificate(pair.certificate)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert held.get_values_for_type(x509.DNSName) == ["localhost", "fleet.example"]
    assert [str(ip) for ip in held.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert authority.server(["fleet.example"]) == pair
    wider = authority.server([*names, "new.example"])
    assert wider != pair


@pytest.mark.parametrize("which", ["server", "admin"])
def test_what_it_signed_is_renewed_before_its_end(tmp_path: Path, which: str) -> None:
    clock = Clock()
    authority = Authority.open(tmp_path / "pki", now=clock)

    def pair() -> bytes:
        return (
            authority.server(["localhost"]) if which == "server" else authority.admin()
        ).certificate

    first = pair()
    clock.now = START + LIFETIME - RENEW_BEFORE - DAY
    assert pair() == first
    clock.now += 2 * DAY
    second = pair()
    assert second != first
    assert certificate(second).not_valid_after_utc == clock.now + LIFETIME


def test_nothing_outlives_the_authority(tmp_path: Path) -> None:
    clock = Clock()
    authority = Authority.open(tmp_path / "pki", now=clock)
    end = certificate(authority.certificate).not_valid_after_utc
    clock.now = end - 10 * DAY
    assert certificate(authority.admin().certificate).not_valid_after_utc == end


def test_an_expired_authority_says_what_to_do(tmp_path: Path) -> None:
    clock = Clock()
    Authority.open(tmp_path / "pki", now=clock)
    clock.now += AUTHORITY_LIFETIME + DAY
    with pytest.raises(ConfigError, match=r"expired on .*move it away and start again"):
        Authority.open(tmp_path / "pki", now=clock)


def test_a_damaged_authority_is_never_replaced_silently(tmp_path: Path) -> None:
    Authority.open(tmp_path / "pki")
    (tmp_path / "pki" / "ca.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match=r"ca\.pem cannot be used"):
        Authority.open(tmp_path / "pki")


def test_what_a_damaged_or_foreign_file_held_is_signed_again(tmp_path: Path) -> None:
    authority = Authority.open(tmp_path / "pki")
    first = authority.admin()
    (tmp_path / "pki" / "admin.pem").write_bytes(b"nonsense")
    second = authority.admin()
    assert second != first
    foreign = Authority.open(tmp_path / "other").admin()
    (tmp_path / "pki" / "admin.pem").write_bytes(foreign.key + foreign.certificate)
    assert authority.admin() != foreign


def test_a_name_no_certificate_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ü"):
        Authority.open(tmp_path / "pki").server(["ü.example"])


def test_names_a_server_is_reached_by() -> None:
    names = server_names("127.0.0.1", ["fleet.example", "localhost"])
    assert names[:3] == ["localhost", "127.0.0.1", "::1"]
    assert names[-1] == "fleet.example" and names.count("localhost") == 1
    assert "10.1.2.3" in server_names("10.1.2.3")
    assert "0.0.0.0" not in server_names("0.0.0.0")
