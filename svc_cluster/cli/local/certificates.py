"""Certificates for a cluster on loopback, made where its data is."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from svc_cluster.cli.admin.authority import ADMINISTRATOR, Authority, certificate_names, issue
from svc_cluster.cli.processes.own_certificate import utc_now

"""The directory of the certificate that `svc-cluster admin` shows."""
_DAYS: Final = 365
"""A cluster on loopback gets new certificates at each start, and nobody renews them before."""
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE: Final = ("0.0.0.0", "::")


class LocalCertificates:
    """One CA, kept, and certificates for each process, new at each start."""

    def __init__(self, directory: Path, host: str) -> None:
        """`host` is where the gateway listens: its certificate is for that too."""
        self._hosts = dict.fromkeys((*_HOSTS, *(() if host in _EVERYWHERE else (host,))))
        self._ca = directory / "ca"
        self._certificates = directory / "certificates"

    def make(self, nodes: int) -> None:
        """Raises AuthorityError."""
        if (self._ca / "ca.key").exists():
            authority = Authority(self._ca, utc_now)
        else:
            authority = Authority.create(self._ca, utc_now)
        for node in range(1, nodes + 1):
            issue(
                authority,
                certificate_names([node]),
                self._certificates / f"node-{node}",
                days=_DAYS,
            )
        issue(
            authority,
            certificate_names([], gateway=True),
            self._certificates / "gateway",
            days=_DAYS,
        )
        administrator = certificate_names([], administrator=True)
        issue(authority, administrator, self._certificates / ADMINISTRATOR, days=_DAYS)
        issue(authority, list(self._hosts), self._certificates / "public", days=_DAYS)

    def settings(self, name: str) -> dict[str, str]:
        """Return the settings of the process of that name, which is `node-1` and so on, or
        `gateway`."""
        place = self._certificates / name
        out = {
            "peer_tls_cert": str(place / "tls.crt"),
            "peer_tls_key": str(place / "tls.key"),
            "peer_tls_ca": str(place / "ca.crt"),
        }
        return out | self.public_settings() if name == "gateway" else out

    def public_settings(self) -> dict[str, str]:
        """The settings of the clients' port."""
        public = self._certificates / "public"
        return {"tls_cert": str(public / "tls.crt"), "tls_key": str(public / "tls.key")}

    def trust(self) -> ssl.SSLContext:
        """For clients of this cluster."""
        return ssl.create_default_context(cafile=self.authority)

    @property
    def authority(self) -> Path:
        """The CA's certificate."""
        return self._ca / "ca.pem"
