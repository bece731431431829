"""The certificate that a client showed when its connection was made, as far as anybody goes by it.

Whoever gets one here may rely on it: TLS has checked that it comes of the CA that the listener
trusts, is for clients, was valid at that moment, and that the client has its key.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from dataclasses import dataclass

from cryptography import x509

from svc_cluster.base.ids import TimestampMs


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What the certificate of a connection says."""

    common_names: tuple[str, ...]
    """Those of its subject; one, as a rule."""
    ends_at_ms: TimestampMs
    """Until when it is valid. A connection may last longer."""
    fingerprint: str
    """SHA-256 of the certificate in DER, in hexadecimal digits."""
    is_authority: bool = False
    """It is one that signs others, which TLS takes from whoever has its key."""


def has_certificate(transport: asyncio.BaseTransport | None) -> bool:
    """Whether the other end has shown one."""
    connection = None if transport is None else transport.get_extra_info("ssl_object")
    return connection is not None and connection.getpeercert(binary_form=True) is not None


def certificate_of(transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Return the certificate that the other end has shown. None: it has shown none, was not asked
    for one, or speaks clear text."""
    connection = transport.get_extra_info("ssl_object")
    if connection is None:
        return None
    said = connection.getpeercert()
    if not said:
        return None
    common_names = tuple(
        value for part in said.get("subject", ()) for name, value in part if name == "commonName"
    )
    ends_at = ssl.cert_time_to_seconds(said["notAfter"])
    der = connection.getpeercert(binary_form=True)
    fingerprint = hashlib.sha256(der).hexdigest()
    return ClientCertificate(
        common_names, TimestampMs(int(ends_at) * 1000), fingerprint, _is_authority(der)
    )


def _is_authority(der: bytes) -> bool:
    extensions = x509.load_der_x509_certificate(der).extensions
    try:
        return extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
