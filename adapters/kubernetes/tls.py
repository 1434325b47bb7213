"""TLS contexts from PEM in memory, and when a client certificate ends."""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cryptography import x509

from fleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_DESCRIPTORS: Final = "/proc/self/fd"


def context(
    *, where: str, authority: bytes, insecure: bool, certificate: bytes, key: bytes
) -> ssl.SSLContext:
    """A client context. Raises ConfigError for PEM that cannot be used; `where` begins the text."""
    try:
        made = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{where}: certificate-authority: holds no usable certificate: {error}"
        ) from error
    # Cluster authorities often lack what strict mode (the default from Python 3.13) asks for.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            with _named(certificate + b"\n" + key) as path:
                made.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{where}: client-certificate and client-key cannot be used together: {error}; "
                "the key must be unencrypted PEM and belong to the certificate"
            ) from error
    return made


def not_after(*, where: str, certificate: bytes) -> datetime:
    """When the first certificate of a PEM chain ends. Raises ConfigError when there is none."""
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError as error:
        raise ConfigError(
            f"{where}: client-certificate: holds no readable certificate: {error}"
        ) from error


def _no_password() -> str:
    raise ValueError("the key is encrypted")


@contextmanager
def _named(content: bytes) -> Iterator[str]:
    """A path to `content` for an API that takes files only; in memory where the system can."""
    if hasattr(os, "memfd_create") and os.path.isdir(_DESCRIPTORS):
        handle = os.memfd_create("client", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            yield f"{_DESCRIPTORS}/{handle}"
        finally:
            os.close(handle)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(content)
        file.flush()
        yield file.name
