"""From the settings' file names to what the listeners need, and a watch on the files."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
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

log = get_logger("tls")

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
        raise _refusal("peer_tls_cert, peer_tls_key and peer_tls_ca", cause) from cause
    return tls


def _refusal(keys: str, cause: CertificateError) -> SettingsError:
    if isinstance(cause, UnreadableError):
        return MissingFileError(f"{cause}: put the file there, readable for this user ({keys})")
    return CredentialError(f"{cause} ({keys})")


class PublicCertificate:
    """The certificate of the clients' port. `context` stays the same object for good: renewed
    files are loaded into it, and serve from the next handshake on."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises SettingsError for files that cannot be used."""
        self._certificate = certificate
        self._key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["h2", "http/1.1"])
        try:
            self._seen = self._load()
        except CertificateError as cause:
            raise _refusal("tls_cert and tls_key", cause) from cause

    def _load(self) -> tuple[bytes, bytes]:
        """Both files as they are in use now. Raises CertificateError."""
        check_pair(self._certificate, self._key)  # half a pair in the context would serve nobody
        check_validity(self._certificate, utc_now())
        self.context.load_cert_chain(self._certificate, self._key)
        return self._certificate.read_bytes(), self._key.read_bytes()

    def look(self) -> bool:
        """Take over what has changed, if anything has; files that cannot be used are reported, and
        leave what is in use."""
        try:
            now = self._certificate.read_bytes(), self._key.read_bytes()
            if now == self._seen:
                return False
            self._seen = self._load()
        except (CertificateError, OSError) as cause:
            log.error("certificate_unusable", reason=str(cause))
            return False
        log.info("certificate_renewed", certificate=str(self._certificate))
        return True

    async def watch(self) -> None:
        """Look now and then, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()


def public_certificate(settings: GatewaySettings) -> PublicCertificate | None:
    """None: the clients' port speaks clear text. Raises SettingsError."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return PublicCertificate(Path(settings.tls_cert), Path(settings.tls_key))
