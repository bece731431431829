"""From the settings' file names to what the listeners need, and a watch on the files."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cryptography import x509

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.tls_trust import trusted_by
from svc_cluster.cli.processes.own_certificate import (
    check_peer_certificate,
    check_validity,
    utc_now,
)
from svc_cluster.link.tls import (
    GATEWAY_NAME,
    CertificateError,
    PeerTls,
    UnreadableError,
    check_pair,
    node_name,
)
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import CredentialError, MissingFileError, SettingsError
from svc_cluster.settings_secrets import in_place_of_a_file, looks_like_secret

log = get_logger("tls")

CLIENT_AUTHORITIES_MAX: Final = 100
LOOK_SECONDS: Final = 5.0
"""How often the public certificate's files are looked at. Looking by content, not by events, also
sees links that are swapped as a whole, as mounted secrets are."""


def peer_tls(settings: NodeSettings | GatewaySettings) -> PeerTls | None:
    """The files for TLS inside the cluster. Raises SettingsError for files that cannot be used, and
    for a certificate that the other processes would not accept now."""
    if (
        settings.peer_tls_cert is None
        or settings.peer_tls_key is None
        or settings.peer_tls_ca is None
    ):
        return None
    tls = PeerTls(
        Path(settings.peer_tls_cert), Path(settings.peer_tls_key), Path(settings.peer_tls_ca)
    )
    own = (
        node_name(NodeId(settings.node_id)) if isinstance(settings, NodeSettings) else GATEWAY_NAME
    )
    try:
        tls.read()
        check_peer_certificate(tls, own, utc_now())
    except CertificateError as cause:
        files = {
            "peer_tls_cert": tls.certificate,
            "peer_tls_key": tls.key,
            "peer_tls_ca": tls.authority,
        }
        raise _refusal("peer_tls_cert, peer_tls_key and peer_tls_ca", files, cause) from cause
    return tls


def _refusal(keys: str, files: Mapping[str, Path], cause: CertificateError) -> SettingsError:
    for key, path in files.items():
        if looks_like_secret(str(path)):  # a key in PEM, say, in place of its file's name
            return CredentialError(in_place_of_a_file(key))
    if isinstance(cause, UnreadableError):
        return MissingFileError(f"{cause}: put the file there, readable for this user ({keys})")
    return CredentialError(f"{cause} ({keys})")


class PublicCertificate:
    """A PublicCertificate is shown at the clients' port, and knows the CAs of clients' own.

    `context` stays the same object for good: what is renewed serves from the next handshake on.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        """Raises SettingsError for files that cannot be used. With `client_ca` None clients are
        asked for no certificate."""
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self.context = self._new_context()
        self._current = self.context
        self.authorities: frozenset[bytes] = frozenset()
        """The CAs that clients' certificates may come from, in DER, as they are in use now."""
        if client_ca is not None:
            # A context can be given further CAs and none can be taken from it, so that each
            # handshake goes on in the newest one.
            self.context.sni_callback = self._enter_current
        keys = "tls_cert and tls_key" if client_ca is None else "tls_cert, tls_key, tls_client_ca"
        try:
            self._seen = self._load()
        except CertificateError as cause:
            files = {"tls_cert": certificate, "tls_key": key}
            if client_ca is not None:
                files["tls_client_ca"] = client_ca
            raise _refusal(keys, files, cause) from cause

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["h2", "http/1.1"])
        if self._client_ca is not None:
            # Versions before send certificates in clear. And nothing is resumed: a session would
            # bring back a certificate that has been looked at under the CAs of another day.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
            # what is missing is refused with an answer, not by the handshake: see AccessControl
            context.verify_mode = ssl.CERT_OPTIONAL
            # an authority of the file is trusted by itself, whether or not its root stands there
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def _enter_current(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _load(self) -> tuple[bytes, ...]:
        """The files as they are in use now. Raises CertificateError."""
        check_pair(self._certificate, self._key)  # half a pair in the context would serve nobody
        check_validity(self._certificate, utc_now())
        found = [self._certificate.read_bytes(), self._key.read_bytes()]
        if self._client_ca is not None:
            authorities = read_authorities(self._client_ca)
            found.append(authorities)
            current = self._new_context()
            current.load_verify_locations(cadata=authorities.decode("ascii"))
            current.load_cert_chain(self._certificate, self._key)
            self._current = current
            self.authorities = trusted_by(current)
        self.context.load_cert_chain(self._certificate, self._key)
        return tuple(found)

    def look(self) -> bool:
        """Take over what has changed, if anything has; files that cannot be used are reported, and
        leave what is in use."""
        paths = [self._certificate, self._key]
        if self._client_ca is not None:
            paths.append(self._client_ca)
        try:
            now = tuple(path.read_bytes() for path in paths)
            if now == self._seen:
                return False
            self._seen = self._load()
        except (CertificateError, OSError) as cause:
            log.error("certificate_unusable", reason=str(cause))
            return False
        log.info("certificate_renewed", certificate=str(self._certificate))
        return True

    async def watch(self, distrust: Callable[[], int]) -> None:
        """Look now and then, for ever. `distrust` ends the connections that were made before, and
        says how many; it is called once clients' CAs are no longer all trusted that were."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before = self.authorities
            self.look()
            gone = before - self.authorities
            if gone:
                log.info("client_authorities_removed", count=len(gone), connections=distrust())


def public_certificate(settings: GatewaySettings) -> PublicCertificate | None:
    """None: the clients' port speaks clear text. Raises SettingsError."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    client_ca = None if settings.tls_client_ca is None else Path(settings.tls_client_ca)
    return PublicCertificate(Path(settings.tls_cert), Path(settings.tls_key), client_ca)


def read_authorities(path: Path) -> bytes:
    """Return a PEM file of 1 to CLIENT_AUTHORITIES_MAX certificates, each of a CA. Raises
    CertificateError."""
    try:
        data = path.read_bytes()
        found = x509.load_pem_x509_certificates(data)
        data.decode("ascii")
    except OSError as cause:
        raise UnreadableError(f"{path} cannot be read: {cause.strerror}") from cause
    except ValueError as cause:
        raise CertificateError(f"{path} holds no certificates in PEM: {cause}") from cause
    if len(found) > CLIENT_AUTHORITIES_MAX:
        raise CertificateError(
            f"{path} holds {len(found)} certificates: use at most {CLIENT_AUTHORITIES_MAX}"
        )
    for certificate in found:
        if not _is_authority(certificate):
            name = certificate.subject.rfc4514_string()
            raise CertificateError(
                f"{path} holds the certificate of {name}, which is no CA: put there those of the "
                "CAs that clients' certificates come from"
            )
    return data


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
