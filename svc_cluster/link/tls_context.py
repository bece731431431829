"""TLS for links: contexts made from the cluster's files, again whenever those were renewed."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from svc_cluster.base.log import get_logger
from svc_cluster.base.tls_trust import trusted_by
from svc_cluster.link.tls import CertificateError, PeerTls

log = get_logger("tls")

PROTOCOL: Final = "svc-link/1"
"""What both sides name in ALPN, so that no other service behind the address is taken for a node."""
DISTRUSTED: Final = "a CA was taken out of those that certificates of the cluster come from"
"""Why connections end that may stand on that one."""


def caller_context(tls: PeerTls) -> ssl.SSLContext:
    """For one connection to another process. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False  # who it is stands in the alternative names
    return _load(context, tls)


def acceptor_context(tls: PeerTls) -> ssl.SSLContext:
    """For a listening address: callers show a certificate of the CA. Raises CertificateError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _load(context, tls)


def _load(context: ssl.SSLContext, tls: PeerTls) -> ssl.SSLContext:
    tls.read()  # says which file cannot be used, and why
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([PROTOCOL])
    context.load_verify_locations(tls.authority)
    context.load_cert_chain(tls.certificate, tls.key)
    return context


class Renewal:
    """A Renewal notices that files were renewed. Its `changed` makes a new context from them, once
    a change. Unusable ones are reported once and leave what is in use."""

    def __init__(self, tls: PeerTls, make: Callable[[PeerTls], ssl.SSLContext]) -> None:
        self._tls = tls
        self._make = make
        self._seen = _state(tls)

    def changed(self) -> ssl.SSLContext | None:
        state = _state(self._tls)
        if state == self._seen:
            return None
        self._seen = state
        try:
            context = self._make(self._tls)
        except CertificateError as cause:
            log.error("certificate_unusable", reason=str(cause))
            return None
        log.info("certificate_renewed", certificate=str(self._tls.certificate))
        return context


def _state(tls: PeerTls) -> tuple[tuple[int, int, int], ...]:
    """What a renewal changes, whether files are written over or links are moved."""
    out = []
    for path in (tls.certificate, tls.key, tls.authority):
        try:
            stat = path.stat()
        except OSError:
            out.append((0, 0, 0))
        else:
            out.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(out)


class CallerTls:
    """A CallerTls makes the context of each connection to another process, from the files of then.
    It knows which of those connections were made under a CA that is not in the files now. All
    connections of a process share one. Unusable files change nothing; they are told of where the
    next connection is made."""

    def __init__(self, tls: PeerTls) -> None:
        self._tls = tls
        self._seen: tuple[tuple[int, int, int], ...] | None = None
        self._trusted: frozenset[bytes] = frozenset()

    def context(self) -> ssl.SSLContext:
        """For one connection. Raises CertificateError."""
        seen = _state(self._tls)
        context = caller_context(self._tls)
        self._seen, self._trusted = seen, trusted_by(context)
        return context

    @property
    def trusted(self) -> frozenset[bytes]:
        """The CAs of the last time that the files could be used, in DER."""
        return self._trusted

    def look(self) -> None:
        """Take the files over where they have changed and can be used."""
        state = _state(self._tls)
        if state != self._seen:
            self._seen = state
            with contextlib.suppress(CertificateError):
                self._trusted = trusted_by(caller_context(self._tls))

    def trusts(self, authorities: frozenset[bytes]) -> bool:
        """Whether all of these, which a context was made from, still stand in the files."""
        self.look()
        return authorities <= self._trusted
