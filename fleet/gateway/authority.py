"""The fleet's certificate authority, made at the first start, and what it signs.

It signs the gateway's server certificate and the admin's client certificate, nothing else: whoever
holds a client certificate of this authority is who the certificate says (`authentication`).
`kubeconfig` hands the admin's to clients. Keys never leave the state directory but for the admin's,
in the kubeconfig. `pki` makes what is kept here.
"""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509

from fleet.errors import ConfigError
from fleet.gateway import pki
from fleet.gateway.pki import KeyPair
from fleet.gateway.state import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

ADMIN_USER = "fleet:admin"
ADMIN_GROUP = "fleet:admins"

AUTHORITY_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=60)

# TLS 1.3 has its own list, which begins with AES-256-GCM.
_TLS12_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Authority:
    """The authority of one fleet, kept in `directory`."""

    def __init__(
        self, directory: Path, authority: pki.Authority, now: Callable[[], datetime]
    ) -> None:
        self._directory = directory
        self._authority = authority
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
            authority = pki.Authority.load(_read(file))
        except FileNotFoundError:
            authority = pki.Authority.create(_some_name(), now=now(), lifetime=AUTHORITY_LIFETIME)
            _write(file, authority.pair)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the fleet's authority {file} cannot be used: {error}; restore it, or move it "
                "away and start again: a new one is made, and clients need the new kubeconfig"
            ) from error
        end = authority.certificate.not_valid_after_utc
        if end <= now():
            raise ConfigError(
                f"the fleet's authority {file} expired on {end:%Y-%m-%d}; move it away and start "
                "again: a new one is made, and clients need the new kubeconfig"
            )
        return cls(directory, authority, now)

    @property
    def certificate(self) -> bytes:
        """The authority's certificate, PEM: what clients trust."""
        return self._authority.pair.certificate

    def server(self, names: Iterable[str]) -> KeyPair:
        """The gateway's server certificate for `names`; signed anew when a name is missing or
        its end is near. Raises ConfigError for what is no name."""
        hosts = list(dict.fromkeys(names))
        wanted = {_general_name(host) for host in hosts}
        return self._kept(
            "server",
            lambda certificate: wanted <= set(pki.names_of(certificate)),
            lambda: self._authority.server(
                "fleet-gateway", hosts=hosts, now=self._now(), lifetime=LIFETIME
            ),
        )

    def admin(self) -> KeyPair:
        """The client certificate of the gateway's own admin; signed anew when its end is near."""
        return self._kept(
            "admin",
            lambda _: True,
            lambda: self._authority.client(
                ADMIN_USER, groups=(ADMIN_GROUP,), now=self._now(), lifetime=LIFETIME
            ),
        )

    def _kept(
        self,
        name: str,
        fits: Callable[[x509.Certificate], bool],
        sign: Callable[[], KeyPair],
    ) -> KeyPair:
        file = self._directory / f"{name}.pem"
        try:
            pair = _read(file)
            certificate, _ = pair.loaded()
        except (OSError, ValueError):
            pass  # it is ours to make again
        else:
            fresh = certificate.not_valid_after_utc - self._now() > RENEW_BEFORE
            if fresh and self._authority.signed(certificate) and fits(certificate):
                return pair
        pair = sign()
        _write(file, pair)
        return pair

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


def _read(file: Path) -> KeyPair:
    """What `_write` wrote. Raises OSError, and ValueError when it is anything else."""
    return KeyPair.read(file.read_bytes())


def _write(file: Path, pair: KeyPair) -> None:
    """Both in one file, so that they change together."""
    write_private(file, pair.key + pair.certificate)


def _some_name() -> str:
    """A name of its own: two fleets' authorities must not look alike to a client."""
    return f"fleet-authority-{x509.random_serial_number() & 0xFFFFFFFF:08x}"


def _general_name(host: str) -> x509.GeneralName:
    try:
        return pki.general_name(host)
    except ValueError:
        raise ConfigError(f"{host!r} is no name for a certificate: not ASCII") from None
