"""This is TLS between the processes of one cluster. Each side shows a certificate of the cluster's
CA, and the name in it says who it is.

Names are DNS entries of the certificate's subjectAltName: `node-3.svc-cluster.internal` for the
node with id 3, `gateway.svc-cluster.internal` for gateways, `administrator.svc-cluster.internal`
for whoever administers nodes. They are identities, not addresses: nothing looks them up. One
certificate may carry several, for installations that share one. A caller without a valid
certificate is turned away by the handshake of TLS, before a byte of ours.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.base.ids import NodeId
from svc_cluster.link.handshake import HandshakeError, Identity

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
    """Raises CertificateError unless the files hold a certificate and the key that belongs to it.
    One that needs a password is refused, because nobody would be there to give it."""
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


def check_certificate(identity: Identity, names: Iterable[bytes]) -> None:
    """The caller's certificate has to carry the name of the one it says to be. `names` are the
    certificate's subjectAltNames. Raises HandshakeError."""
    wanted = _NAMES.get(identity.role) if identity.role != "node" else node_name(identity.node_id)
    if wanted is None:
        raise HandshakeError(f"no certificate is one for the role {identity.role!r}")
    if wanted.encode() not in names:
        raise HandshakeError(f"the caller's certificate is not one for {wanted}")
