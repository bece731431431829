"""TLS for the administrative port and its callers, from the files that links use too."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from svc_cluster.base.log import get_logger
from svc_cluster.link.tls import CertificateError, Material, PeerTls
from svc_cluster.link.tls_context import CallerTls

log = get_logger("tls")


def listener_credentials(tls: PeerTls) -> grpc.ServerCredentials:
    """Callers must show a certificate of the CA. Renewed files are taken over with the next
    handshake; unusable ones are reported and leave what is in use. Raises CertificateError for
    the first ones."""
    renewal = _Renewal(tls)
    return grpc.dynamic_ssl_server_credentials(
        _configuration(renewal.current), renewal.fetch, require_client_authentication=True
    )


def open_channel(
    address: str, options: Sequence[tuple[str, Any]], tls: PeerTls | None, server_name: str | None
) -> grpc.aio.Channel:
    """Return a connection to an administrative port, in clear without `tls`. Otherwise it is to the
    process whose certificate carries `server_name`, None for the name in the address. Raises
    CertificateError."""
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    material = tls.read()
    named = () if server_name is None else (("grpc.ssl_target_name_override", server_name),)
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(material.authority, material.key, material.certificate),
        options=(*options, *named),
    )


class _Renewal:
    """Says whether the files have changed; called by gRPC's threads, once for each handshake."""

    def __init__(self, tls: PeerTls) -> None:
        self.current = tls.read()
        self._tls = tls
        self._lock = threading.Lock()
        self._told: str | None = None

    def fetch(self) -> Any:
        """The new configuration, or None for no change."""
        with self._lock:
            try:
                material = self._tls.read()
            except CertificateError as cause:
                if str(cause) != self._told:  # once, not with each handshake
                    self._told = str(cause)
                    log.error("certificate_unusable", reason=str(cause))
                return None
            self._told = None
            if material == self.current:
                return None
            self.current = material
        log.info("certificate_renewed", certificate=str(self._tls.certificate))
        return _configuration(material)


class Trust:
    """A Trust notices that a CA was taken out of the file since connections could be made under
    it. Raises CertificateError for files that cannot be used; later ones of that kind change
    nothing."""

    def __init__(self, tls: PeerTls) -> None:
        self._caller = CallerTls(tls)
        self._caller.context()
        self._under = self._caller.trusted
        """All that connections of now may stand on."""

    def has_shrunk(self) -> bool:
        self._caller.look()
        if not self._under <= self._caller.trusted:
            return True
        self._under = self._caller.trusted
        return False

    def begin_anew(self) -> None:
        """No connection of before is left."""
        self._under = self._caller.trusted


def _configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], material.authority
    )
