"""The certificates that this process shows: whether others can accept them, and until when.

What is looked at here is looked at again by everyone who is shown the certificate; here it is so
that a start with one that nobody accepts ends with a sentence instead of silence.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography import x509

from svc_cluster.base.clock import SystemClock
from svc_cluster.base.metrics import Metrics
from svc_cluster.link.tls import CertificateError, PeerTls

_FLIGHTS_MAX: Final = 10
"""Messages each way of a handshake in memory; TLS needs three."""


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate of a PEM file. Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as cause:
        raise CertificateError(f"{path} cannot be read: {cause.strerror}") from cause
    except ValueError as cause:
        raise CertificateError(f"{path} holds no certificate in PEM: {cause}") from cause


def check_validity(path: Path, now: datetime.datetime) -> None:
    """`now` in UTC. Raises CertificateError for a certificate that is not valid then."""
    certificate = read_certificate(path)
    if now < certificate.not_valid_before_utc:
        since = certificate.not_valid_before_utc.isoformat()
        raise CertificateError(
            f"{path} is not valid before {since}, and it is {now.isoformat(timespec='seconds')}: "
            "set the clock, or use another certificate"
        )
    if now > certificate.not_valid_after_utc:
        until = certificate.not_valid_after_utc.isoformat()
        raise CertificateError(f"{path} has expired at {until}: renew it")


def check_peer_certificate(tls: PeerTls, name: str, now: datetime.datetime) -> None:
    """`name` is the one that others expect of this process. Raises CertificateError for a
    certificate that is not valid now, is for somebody else, or comes from another CA."""
    check_validity(tls.certificate, now)
    names = _names(read_certificate(tls.certificate))
    if name not in names:
        raise CertificateError(
            f"{tls.certificate} is for {', '.join(names) or 'no name'}, not for {name}: use the "
            "certificate of this process"
        )
    fault = _handshake(tls, name)
    if fault is not None:
        raise CertificateError(
            f"{tls.certificate} is refused under {tls.authority} ({fault}): use a certificate of "
            "the cluster's CA"
        )


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return found.value.get_values_for_type(x509.DNSName)


def _handshake(tls: PeerTls, name: str) -> str | None:
    """With ourselves, in memory: why it fails, None if it does not."""
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in contexts:
        context.load_cert_chain(tls.certificate, tls.key)
        context.load_verify_locations(tls.authority)
        context.verify_mode = ssl.CERT_REQUIRED
    client = contexts[0].wrap_bio(inward, outward, server_hostname=name)
    server = contexts[1].wrap_bio(outward, inward, server_side=True)
    open_ends = [client, server]
    for _ in range(_FLIGHTS_MAX):
        for end in list(open_ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as refusal:
                return refusal.verify_message
            except ssl.SSLError as refusal:
                return refusal.reason or str(refusal)
            open_ends.remove(end)
        if not open_ends:
            return None
    return "the handshake does not come to its end"


def expiry_reader(path: Path) -> Callable[[], float]:
    """Return a reader that tells when the certificate in a file expires, in seconds since 1970. It
    tells so as of the last time that the file could be used, and parses the file only when it has
    changed. 0 before that."""
    seen: bytes | None = None
    expiry = 0.0

    def read() -> float:
        nonlocal seen, expiry
        try:
            now = path.read_bytes()
            if now != seen:
                expiry = x509.load_pem_x509_certificate(now).not_valid_after_utc.timestamp()
                seen = now
        except (OSError, ValueError):
            return expiry
        return expiry

    return read


def show_expiry(metrics: Metrics, listener: str, certificate: Path) -> None:
    """Let `/metrics` tell when the certificate of a listener (`peer`, `public`) expires."""
    metrics.tls_cert_expiry.labels(listener=listener).set_function(expiry_reader(certificate))


def utc_now() -> datetime.datetime:
    """The wall clock."""
    return datetime.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, datetime.UTC)
