"""An authority and the certificates it signs, as values: who keeps them is another's matter.

Keys are P-256: made in a millisecond, accepted by every component. Nothing that is signed outlives
the authority. `authority` keeps the fleet's, the testbed those of its member clusters.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

YEAR = timedelta(days=365)
ADMIN_GROUP = "system:masters"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    @classmethod
    def read(cls, pem: bytes) -> KeyPair:
        """The two out of one text. Raises ValueError for anything else."""
        certificate, key = cls(pem, pem).loaded()
        return cls(_pem(certificate), _private_pem(key))

    def loaded(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Raises ValueError where they are not what this module makes, or do not go together."""
        certificate = x509.load_pem_x509_certificate(self.certificate)
        key = serialization.load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is of another kind")
        if key.public_key() != certificate.public_key():
            raise ValueError("the key is not that of the certificate")
        return certificate, key


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key pair that signs and checks ServiceAccount tokens, both PEM."""

    private: bytes
    public: bytes


class Authority:
    """A certificate authority; `load` makes it again from the `pair` that was kept."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def create(
        cls, name: str, *, now: datetime | None = None, lifetime: timedelta = 10 * YEAR
    ) -> Authority:
        now = now or datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name, ())
        certificate = (
            _builder(subject, subject, key, now=now, end=now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(ca=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, pair: KeyPair) -> Authority:
        """Raises ValueError for a pair that no authority had."""
        return cls(*pair.loaded())

    @property
    def pair(self) -> KeyPair:
        return KeyPair(certificate=_pem(self.certificate), key=_private_pem(self._key))

    def signed(self, certificate: x509.Certificate) -> bool:
        """Whether this authority signed it."""
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def server(
        self,
        name: str,
        *,
        hosts: Sequence[str],
        now: datetime | None = None,
        lifetime: timedelta = YEAR,
    ) -> KeyPair:
        """A serving certificate for `hosts`, DNS names and IP addresses. Raises ValueError for what
        is neither."""
        return self._sign(
            name, (), hosts, ExtendedKeyUsageOID.SERVER_AUTH, now=now, lifetime=lifetime
        )

    def client(
        self,
        user: str,
        *,
        groups: Sequence[str] = (),
        now: datetime | None = None,
        lifetime: timedelta = YEAR,
    ) -> KeyPair:
        """A client certificate for `user` in `groups`; a negative lifetime makes an expired one."""
        return self._sign(
            user, groups, (), ExtendedKeyUsageOID.CLIENT_AUTH, now=now, lifetime=lifetime
        )

    def peer(self, name: str, *, hosts: Sequence[str], now: datetime | None = None) -> KeyPair:
        """A certificate for both ends, as etcd's members want for their peers."""
        both = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._sign(name, (), hosts, *both, now=now, lifetime=YEAR)

    def _sign(
        self,
        name: str,
        groups: Sequence[str],
        hosts: Sequence[str],
        *usages: x509.ObjectIdentifier,
        now: datetime | None,
        lifetime: timedelta,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        now = now or datetime.now(UTC)
        end = min(now + lifetime, self.certificate.not_valid_after_utc)
        builder = (
            _builder(_name(name, groups), self.certificate.subject, key, now=now, end=end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return KeyPair(
            certificate=_pem(builder.sign(self._key, hashes.SHA256())), key=_private_pem(key)
        )


def signing_key() -> SigningKey:
    """A fresh key for ServiceAccount tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SigningKey(private=_private_pem(key), public=public)


def general_name(host: str) -> x509.GeneralName:
    """A host's DNS name or IP address as certificates hold it. Raises ValueError where none can."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def names_of(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """The hosts that a certificate is for."""
    try:
        return list(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except x509.ExtensionNotFound:
        return []


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    """Kubernetes reads the user from the common name and each group from an organization."""
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
        + [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # An hour's slack for clocks that differ, before the end of one that is to be expired.
        .not_valid_before(min(now, end) - timedelta(hours=1))
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
