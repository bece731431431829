"""A certificate authority in a directory, for clusters without a PKI of their own.

`ca.pem` goes to every process; `ca.key` signs and belongs on no node.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from svc_cluster.base.ids import NodeId
from svc_cluster.link.tls import ADMINISTRATOR_NAME, GATEWAY_NAME, node_name

AUTHORITY_DAYS: Final = 3650
DAYS_MAX: Final = 3650
DAYS: Final = 90
"""Certificates are valid for this long where nothing else is asked for."""
ADMINISTRATOR: Final = "administrator"
"""The directory of the administrator's certificate, beside those of the nodes."""
_BACKDATED: Final = datetime.timedelta(minutes=5)
"""Clocks of other hosts may be behind."""


class AuthorityError(Exception):
    """One sentence: what is in the way, and what to do."""


class Authority:
    """Signs certificates with the key in its directory."""

    def __init__(self, directory: Path, now: Callable[[], datetime.datetime]) -> None:
        """`now` gives the time in UTC. Raises AuthorityError where there is no CA."""
        self._now = now
        self.certificate_path = directory / "ca.pem"
        try:
            self._certificate = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())
        except (OSError, ValueError) as cause:
            raise _no_authority(directory, cause) from cause
        self._key = _read_key(directory)

    @classmethod
    def create(cls, directory: Path, now: Callable[[], datetime.datetime]) -> Authority:
        """A key without a certificate is what a call has left that was broken off: it gets its
        certificate. Raises AuthorityError where a CA is already, or the directory cannot be
        written."""
        if (directory / "ca.pem").exists():
            raise AuthorityError(f"{directory} holds a CA already: choose another directory")
        had_key = (directory / "ca.key").exists()
        key = _read_key(directory) if had_key else ec.generate_private_key(ec.SECP256R1())
        name = _name("svc-cluster CA")
        certificate = (
            _builder(name, name, key.public_key(), now(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not had_key:
                _write_key(directory / "ca.key", key)
            _write(directory / "ca.pem", certificate.public_bytes(serialization.Encoding.PEM))
        except OSError as cause:
            raise AuthorityError(f"{directory} cannot be written: {cause.strerror}") from cause
        return cls(directory, now)

    def issue(
        self, names: Sequence[str], certificate: Path, key: Path, *, days: int = DAYS
    ) -> None:
        """Make a new key and a certificate for `names`, host names or IP addresses. The certificate
        is valid for `days` (1 to 3650) and for both ends of a connection. Replaces what was there,
        the key first, each file at once. Raises AuthorityError."""
        if not names:
            raise AuthorityError("a certificate needs at least one name")
        if not 1 <= days <= DAYS_MAX:
            raise AuthorityError(f"the certificate is to last {days} days: use 1 to {DAYS_MAX}")
        own = ec.generate_private_key(ec.SECP256R1())
        try:
            subject = _name(names[0][:64])
            alternative = x509.SubjectAlternativeName([_alternative(name) for name in names])
        except ValueError as cause:
            raise AuthorityError(f"{', '.join(names)} cannot stand in a certificate") from cause
        issued = (
            _builder(self._certificate.subject, subject, own.public_key(), self._now(), days)
            .add_extension(alternative, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        try:
            certificate.parent.mkdir(parents=True, exist_ok=True)
            key.parent.mkdir(parents=True, exist_ok=True)
            _write_key(key, own)
            _write(certificate, issued.public_bytes(serialization.Encoding.PEM))
        except OSError as cause:
            raise AuthorityError(f"{certificate} cannot be written: {cause.strerror}") from cause


def certificate_names(
    nodes: Sequence[int],
    *,
    gateway: bool = False,
    administrator: bool = False,
    names: Sequence[str] = (),
) -> list[str]:
    """The names that a certificate of these parts has to carry."""
    own = [node_name(NodeId(node)) for node in nodes]
    roles = [(gateway, GATEWAY_NAME), (administrator, ADMINISTRATOR_NAME)]
    return [*own, *(name for wanted, name in roles if wanted), *names]


def issue(authority: Authority, names: Sequence[str], out: Path, *, days: int = DAYS) -> None:
    """tls.crt, tls.key and ca.crt, the names that Kubernetes secrets use, in `out`. Raises
    AuthorityError."""
    authority.issue(names, out / "tls.crt", out / "tls.key", days=days)
    try:
        _write(out / "ca.crt", authority.certificate_path.read_bytes())
    except OSError as cause:
        raise AuthorityError(f"{out}/ca.crt cannot be written: {cause.strerror}") from cause


def _read_key(directory: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as cause:
        raise _no_authority(directory, cause) from cause
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise AuthorityError(f"{directory}/ca.key is not a key on an elliptic curve")
    return key


def _no_authority(directory: Path, cause: Exception) -> AuthorityError:
    return AuthorityError(
        f"{directory} holds no CA that can be used ({cause}): make one there first"
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    _write(
        path,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        mode=0o600,
    )


def _write(path: Path, data: bytes, mode: int = 0o644) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
