"""The fleet's certificate authority, made at the first start, and what it signs.

It signs the gateway's server certificate and the admin's client certificate, nothing else: whoever
holds a client certificate of this authority is who the certificate says (`authentication`).
`kubeconfig` hands the admin's to clients. Keys are P-256 and never leave the state directory but
for the admin's, in the kubeconfig.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet.errors import ConfigError
from fleet.gateway.state import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

ADMIN_USER = "fleet:admin"
ADMIN_GROUP = "fleet:admins"

AUTHORITY_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=60)
_CLOCK_SKEW = timedelta(hours=1)

# TLS 1.3 has its own list, which begins with AES-256-GCM.
_TLS12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """The authority of one fleet, kept in `directory`."""

    def __init__(
        self,
        directory: Path,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        now: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._certificate = certificate
        self._key = key
        self._now = now

    @classmethod
    def open(
        cls, directory: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> Authority:
        """The authority kept in `directory`; a new one when there is none.

        Raises ConfigError when it is there and cannot be used.
        """
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = directory / "ca.pem"
        try:
            _, certificate, key = _read(file)
        except FileNotFoundError:
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = _self_signed(key, now=now())
            _write(file, KeyPair(_pem(certificate), _private_pem(key)))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the fleet's authority {file} cannot be used: {error}; restore it, or move it "
                "away and start again: a new one is made, and clients need the new kubeconfig"
            ) from error
        if certificate.not_valid_after_utc <= now():
            raise ConfigError(
                f"the fleet's authority {file} expired on "
                f"{certificate.not_valid_after_utc:%Y-%m-%d}; move it away and start again: "
                "a new one is made, and clients need the new kubeconfig"
            )
        return cls(directory, certificate, key, now)

    @property
    def certificate(self) -> bytes:
        """The authority's certificate, PEM: what clients trust."""
        return _pem(self._certificate)

    def server(self, names: Iterable[str]) -> KeyPair:
        """The gateway's server certificate for `names`; signed anew when a name is missing or
        its end is near."""
        wanted = [_general_name(name) for name in dict.fromkeys(names)]
        return self._kept(
            "server",
            lambda certificate: set(wanted) <= set(_names_of(certificate)),
            lambda: self._sign("fleet-gateway", (), wanted, ExtendedKeyUsageOID.SERVER_AUTH),
        )

    def admin(self) -> KeyPair:
        """The client certificate of the gateway's own admin; signed anew when its end is near."""
        return self._kept(
            "admin",
            lambda _: True,
            lambda: self._sign(ADMIN_USER, (ADMIN_GROUP,), (), ExtendedKeyUsageOID.CLIENT_AUTH),
        )

    def _kept(
        self,
        name: str,
        fits: Callable[[x509.Certificate], bool],
        sign: Callable[[], KeyPair],
    ) -> KeyPair:
        file = self._directory / f"{name}.pem"
        try:
            pair, certificate, _ = _read(file)
        except (OSError, ValueError):
            pass  # it is ours to make again
        else:
            fresh = certificate.not_valid_after_utc - self._now() > RENEW_BEFORE
            if fresh and self._signed(certificate) and fits(certificate):
                return pair
        pair = sign()
        _write(file, pair)
        return pair

    def _signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _sign(
        self,
        user: str,
        groups: Sequence[str],
        names: Sequence[x509.GeneralName],
        usage: x509.ObjectIdentifier,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        now = self._now()
        end = min(now + LIFETIME, self._certificate.not_valid_after_utc)
        builder = (
            _builder(_name(user, groups), self._certificate.subject, key, now=now, end=end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), _private_pem(key))

    # -- TLS

    def server_context(self, names: Iterable[str]) -> ssl.SSLContext:
        """How the gateway speaks TLS: with its own certificate, asking for a client's.

        A client without one is let in (it may carry a token, or ask for its health); one with a
        certificate of another authority, or an expired one, is refused by TLS itself.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_TLS12_CIPHERS)
        context.set_alpn_protocols(["http/1.1"])
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.certificate.decode())
        # A resumed session would outlive its client certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        self.renew(context, names)
        return context

    def renew(self, context: ssl.SSLContext, names: Iterable[str]) -> None:
        """Let connections from here on use the present server certificate."""
        self.server(names)
        context.load_cert_chain(self._directory / "server.pem")


def server_names(address: str, configured: Iterable[str] = ()) -> list[str]:
    """The names under which a gateway listening on `address` is reached."""
    names = ["localhost", "127.0.0.1", "::1"]
    host = socket.gethostname()
    if host and not host[0] == "-":
        names.append(host)
    if address not in ("", "0.0.0.0", "::"):
        names.append(address)
    return list(dict.fromkeys([*names, *configured]))


def _read(file: Path) -> tuple[KeyPair, x509.Certificate, ec.EllipticCurvePrivateKey]:
    """What `_write` wrote. Raises OSError, and ValueError when it is anything else."""
    data = file.read_bytes()
    certificate = x509.load_pem_x509_certificate(data)
    key = serialization.load_pem_private_key(data, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind")
    if key.public_key() != certificate.public_key():
        raise ValueError("the key is not that of the certificate")
    return KeyPair(_pem(certificate), _private_pem(key)), certificate, key


def _write(file: Path, pair: KeyPair) -> None:
    """Both in one file, so that they change together."""
    write_private(file, pair.key + pair.certificate)


def _self_signed(key: ec.EllipticCurvePrivateKey, *, now: datetime) -> x509.Certificate:
    # A serial of its own in the name: two fleets' authorities must not look alike to a client.
    subject = _name(f"fleet-authority-{x509.random_serial_number() & 0xFFFFFFFF:08x}", ())
    return (
        _builder(subject, subject, key, now=now, end=now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )


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
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise ConfigError(f"{name!r} is no name for a certificate: not ASCII") from None


def _names_of(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except x509.ExtensionNotFound:
        return []


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
