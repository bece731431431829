"""TLS between the processes of one cluster: each side shows a certificate of the cluster's CA, and
the name in it says who it is.

Names are DNS entries of the certificate's subjectAltName: `node-3.svc-cluster.internal` for the
node with id 3, `gateway.svc-cluster.internal` for gateways, `administrator.svc-cluster.internal`
for whoever administers nodes. They are identities, not addresses: nothing looks them up. One
certificate may carry several, for installations that share one. A caller without a valid
certificate is turned away by the handshake of TLS, before a byte of ours.
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.link.handshake import HandshakeError, Identity

log = get_logger("tls")

DOMAIN: Final = "svc-cluster.internal"
GATEWAY_NAME: Final = f"gateway.{DOMAIN}"
ADMINISTRATOR_NAME: Final = f"administrator.{DOMAIN}"
_NODE_NAME: Final = re.compile(rf"node-[1-9][0-9]*\.{re.escape(DOMAIN)}")
_NAMES: Final = {"gateway": GATEWAY_NAME, "administrator": ADMINISTRATOR_NAME}


class CertificateError(Exception):
    """One sentence: which file cannot be used, and why."""


class UnreadableError(CertificateError):
    """The file is not there, or must not be read."""


def node_name(node_id: NodeId) -> str:
    """The name in a node's certificate."""
    return f"node-{node_id}.{DOMAIN}"


def is_node_name(name: str) -> bool:
    """Whether it is the name of any node."""
    return _NODE_NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Material:
    """The contents of the three files, PEM."""

    certificate: bytes
    key: bytes
    authority: bytes


@dataclass(frozen=True, slots=True)
class PeerTls:
    """Where this process's certificate, its key and the cluster's CA are."""

    certificate: Path
    key: Path
    authority: Path

    def read(self) -> Material:
        """Raises CertificateError for files that cannot be used, or not together."""
        check_pair(self.certificate, self.key)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(self.authority)
        except (FileNotFoundError, PermissionError) as cause:
            raise UnreadableError(f"{self.authority} cannot be read: {cause.strerror}") from cause
        except (OSError, ValueError) as cause:
            raise CertificateError(
                f"{self.authority} is not usable as a CA ({cause}): put the certificate of the "
                "cluster's CA there, in PEM"
            ) from cause
        return Material(
            self.certificate.read_bytes(), self.key.read_bytes(), self.authority.read_bytes()
        )


def check_pair(certificate: Path, key: Path) -> None:
    """Raises CertificateError unless the files hold a certificate and the key that belongs to it;
    one that needs a password is refused, because nobody would be there to give it."""
    for path in (certificate, key):
        try:
            path.read_bytes()
        except OSError as cause:
            raise UnreadableError(f"{path} cannot be read: {cause.strerror}") from cause
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as cause:
        raise CertificateError(
            f"{certificate} and {key} are not a certificate and its key in PEM ({cause}): put both "
            "there, of one issue and without a password"
        ) from cause


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def open_channel(
    address: str, options: Sequence[tuple[str, Any]], tls: PeerTls | None, server_name: str
) -> grpc.aio.Channel:
    """A new connection to the process whose certificate carries `server_name`, whatever its address
    is called; without `tls` one in clear. Files are read each time, so that a renewed certificate
    is used from the next connection on. Raises CertificateError."""
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    material = tls.read()
    return grpc.aio.secure_channel(
        address,
        grpc.ssl_channel_credentials(material.authority, material.key, material.certificate),
        options=(*options, ("grpc.ssl_target_name_override", server_name)),
    )


def server_credentials(tls: PeerTls) -> grpc.ServerCredentials:
    """Callers must show a certificate of the CA. Renewed files are taken over with the next
    handshake; unusable ones are reported and leave what is in use. Raises CertificateError for
    the first ones."""
    renewal = _Renewal(tls)
    return grpc.dynamic_ssl_server_credentials(
        _server_configuration(renewal.current), renewal.fetch, require_client_authentication=True
    )


class _Renewal:
    """Says whether the files have changed; called by gRPC's threads, once for each handshake."""

    def __init__(self, tls: PeerTls) -> None:
        self.current = tls.read()
        self._tls = tls
        self._lock = threading.Lock()

    def fetch(self) -> Any:
        """The new configuration, or None for no change."""
        with self._lock:
            try:
                material = self._tls.read()
            except CertificateError as cause:
                log.error("certificate_unusable", reason=str(cause))
                return None
            if material == self.current:
                return None
            self.current = material
        log.info("certificate_renewed", certificate=str(self._tls.certificate))
        return _server_configuration(material)


def _server_configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], material.authority
    )


def check_certificate(identity: Identity, names: Iterable[bytes]) -> None:
    """The caller's certificate has to carry the name of the one it says to be. `names` are the
    certificate's subjectAltNames. Raises HandshakeError."""
    wanted = _NAMES.get(identity.role) if identity.role != "node" else node_name(identity.node_id)
    if wanted is None:
        raise HandshakeError(f"no certificate is one for the role {identity.role!r}")
    if wanted.encode() not in names:
        raise HandshakeError(f"the caller's certificate is not one for {wanted}")
