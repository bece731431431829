"""Certificates of clients, good ones and others, and a client that shows them."""

from __future__ import annotations

import datetime
import http.client
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.contract.access import bearer
from tests.contract.client import Answer
from tests.contract.h2_client import H2Session

SECONDS = 30.0
CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A certificate and its key, in one PEM file."""

    path: Path
    fingerprint: str


class ClientAuthority:
    """A CA of clients' certificates, of any kind that a test asks for."""

    def __init__(self, directory: Path, name: str = "clients") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"CA of {name}")])
        self._made = 0
        signed = _build(self._name, self._name, self._key, self._key, DAY, None)
        self.pem = signed.public_bytes(serialization.Encoding.PEM)
        self.path = directory / "ca.pem"
        self.path.write_bytes(self.pem)

    def itself(self) -> Shown:
        """The CA's own certificate, as a client would show it who has its key."""
        path = self._directory / "itself.pem"
        path.write_bytes(
            self._key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + self.pem
        )
        found = x509.load_pem_x509_certificate(self.pem)
        return Shown(path, found.fingerprint(hashes.SHA256()).hex())

    def issue(
        self,
        *common_names: str,
        seconds: float = DAY,
        usage: Sequence[x509.ObjectIdentifier] = CLIENT,
        signed_by_itself: bool = False,
    ) -> Shown:
        """`seconds` from now, which may be negative. `usage`: what it may be shown as."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, each) for each in common_names]
        )
        issuer, signer = (subject, key) if signed_by_itself else (self._name, self._key)
        signed = _build(subject, issuer, key, signer, seconds, usage)
        self._made += 1
        path = self._directory / f"client-{self._made}.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        return Shown(path, signed.fingerprint(hashes.SHA256()).hex())


def _build(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    seconds: float,
    usage: Sequence[x509.ObjectIdentifier] | None,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(seconds=seconds))
        .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    return builder.sign(signer, hashes.SHA256())


class CertifiedClient:
    """One connection over TLS, in one protocol, with a certificate or none."""

    def __init__(self, port: int, authority: Path, protocol: str, shown: Shown | None) -> None:
        """`authority` signed the server's certificate; `protocol` is `http/1.1` or `h2`. Raises
        OSError where the server does not want to speak with who shows that."""
        context = ssl.create_default_context(cafile=str(authority))
        context.set_alpn_protocols([protocol])
        if shown is not None:
            context.load_cert_chain(shown.path)
        self.plain = http.client.HTTPSConnection(
            "localhost", port, timeout=SECONDS, context=context
        )
        self.plain.connect()
        sock = self.plain.sock
        assert isinstance(sock, ssl.SSLSocket)
        assert sock.selected_alpn_protocol() == protocol
        self.session = H2Session("localhost", port, sock=sock) if protocol == "h2" else None

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        secret: str | None = None,
        **headers: str,
    ) -> Answer:
        """Raises OSError or http.client.HTTPException where the connection ends instead."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {} if secret is None else bearer(secret)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            named |= {"content-type": "application/json"}
        if self.session is not None:
            if data is not None:
                named["content-length"] = str(len(data))
            try:
                answer = self.session.request(method, path, named, data)
            except AssertionError:
                if self.session.closed:
                    raise ConnectionResetError("the server has ended the connection") from None
                raise
            return Answer(answer.status, dict(answer.headers), answer.read())
        self.plain.request(method, path, data, named)
        response = self.plain.getresponse()
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, found, response.read())

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
        self.plain.close()
