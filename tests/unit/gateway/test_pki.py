"""Certificates that servers and clients prove each other with."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from fleet.gateway import pki

NOW = datetime(2030, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> pki.Authority:
    return pki.Authority.create("test-ca")


def parsed(pair: pki.KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Both ends of TLS in memory; the client's end. Raises what either end would."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (near, far):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return near


def contexts(authority, serving, identity, tmp_path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    for name, content in {
        "ca": authority.pair.certificate,
        "server": serving.certificate + serving.key,
        "client": identity.certificate + identity.key,
    }.items():
        (tmp_path / name).write_bytes(content)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca"))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(tmp_path / "server")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca"))
    client.load_cert_chain(tmp_path / "client")
    return server, client


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_server_and_client_trust_each_other(authority, tmp_path, host):
    serving = authority.server("api", hosts=("127.0.0.1", "localhost"))
    server, client = contexts(authority, serving, authority.client("admin"), tmp_path)

    assert handshake(server, client, host).version() == "TLSv1.3"


def test_a_server_is_not_trusted_under_another_name(authority, tmp_path):
    serving = authority.server("api", hosts=("127.0.0.1",))
    server, client = contexts(authority, serving, authority.client("admin"), tmp_path)

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server, client, "127.0.0.2")


def test_a_client_of_another_authority_is_refused(authority, tmp_path):
    serving = authority.server("api", hosts=("127.0.0.1",))
    stranger = pki.Authority.create("other-ca").client("admin")
    server, client = contexts(authority, serving, stranger, tmp_path)

    with pytest.raises(ssl.SSLError):
        handshake(server, client, "127.0.0.1")


def test_an_expired_client_is_refused(authority, tmp_path):
    serving = authority.server("api", hosts=("127.0.0.1",))
    late = authority.client("admin", lifetime=timedelta(hours=-1))
    server, client = contexts(authority, serving, late, tmp_path)

    with pytest.raises(ssl.SSLError):
        handshake(server, client, "127.0.0.1")


def test_user_and_groups_are_where_kubernetes_reads_them(authority):
    subject = parsed(authority.client("jane", groups=["dev", pki.ADMIN_GROUP])).subject

    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [a.value for a in groups] == ["dev", "system:masters"]


def test_the_clock_is_the_callers(authority):
    certificate = parsed(authority.client("jane", now=NOW, lifetime=timedelta(days=2)))

    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc == NOW + timedelta(days=2)


def test_an_authority_goes_on_from_its_pair(authority):
    again = pki.Authority.load(authority.pair)

    assert again.signed(parsed(authority.client("jane")))
    assert not pki.Authority.create("other-ca").signed(parsed(authority.client("jane")))


def test_nothing_outlives_the_authority():
    brief = pki.Authority.create("brief-ca", now=NOW, lifetime=timedelta(days=2))
    assert parsed(brief.client("jane", now=NOW)).not_valid_after_utc == NOW + timedelta(days=2)


def test_a_pair_is_read_back_from_one_text(authority):
    pair = authority.client("jane")
    assert pki.KeyPair.read(pair.key + pair.certificate) == pair


def test_what_does_not_go_together_is_no_pair(authority):
    one, other = authority.client("jane"), authority.client("john")
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for pem in (one.certificate + other.key, one.certificate + rsa_key, one.certificate, b""):
        with pytest.raises(ValueError):
            pki.KeyPair.read(pem)


def test_the_token_key_is_a_pair():
    key = pki.signing_key()

    private = serialization.load_pem_private_key(key.private, password=None)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert public == key.public
