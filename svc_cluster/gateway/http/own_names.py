"""Which host names, and pages of which origins, a gateway without authentication serves.

Nobody is asked for a token there, so a browser on the same machine or network is a way in for
every page that it opens. A page whose own name is made to lead to the gateway (DNS rebinding) is
told by the `Host`; a page of another origin by its `Origin`. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from svc_cluster.base.errors import PermissionDeniedError
from svc_cluster.gateway.http.host import basin_of_host
from svc_cluster.gateway.http.message import Request

_LOOPBACK_NAME: Final = "localhost"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_VERDICTS_MAX: Final = 256
"""Hosts, and as many origins, whose verdict is remembered."""

FOREIGN_HOST: Final = (
    "without authentication a host is answered for that is an IP address, localhost, or listed: "
    "add this one to public_hosts, or set authentication"
)
FOREIGN_PAGE: Final = (
    "without authentication pages of other origins than loopback change nothing: set authentication"
)


class OwnNames:
    """The names of one gateway without authentication."""

    def __init__(
        self, public_hosts: Sequence[str] = (), basin_suffixes: Sequence[str] | None = None
    ) -> None:
        """`public_hosts` are host names without ports, beside literal addresses, `localhost` and
        what is below it. `basin_suffixes` are as in http/host.py; where they are None, `b` counts
        below a public host alone: any domain would be everybody's."""
        self._public = frozenset(_name(host) for host in public_hosts)
        self._suffixes = basin_suffixes
        self._is_own = lru_cache(_VERDICTS_MAX)(self._own_host)
        self._is_loopback = lru_cache(_VERDICTS_MAX)(_loopback_origin)

    def check(self, request: Request) -> None:
        """Raises PermissionDeniedError for a host that is none of ours, and for a write that a page
        of a foreign origin sends, of which a browser asks nobody before. A request without a host,
        of HTTP/1.0, is no browser's."""
        host = request.header("host")
        if host is not None and not self._is_own(host):
            raise PermissionDeniedError(FOREIGN_HOST)
        origin = request.header("origin")
        if origin is None or request.method in _SAFE_METHODS or self.is_page(origin):
            return
        if host is None or origin.lower().partition("://")[2] != host.lower():
            raise PermissionDeniedError(FOREIGN_PAGE)

    def is_page(self, origin: str) -> bool:
        """Whether a page of this origin may read answers: one that this machine serves."""
        return self._is_loopback(origin)

    def _own_host(self, host: str) -> bool:
        name = _bare(host)
        if name in self._public or _is_loopback_name(name) or _address(name) is not None:
            return True
        if basin_of_host(name, self._suffixes) is None:
            return False
        return self._suffixes is not None or name.partition(".b.")[2] in self._public


def _bare(host: str) -> str:
    """The name or address in a Host value, without port and brackets; "" for what is neither."""
    if host.startswith("["):
        inside, bracket, port = host[1:].partition("]")
        return inside.lower() if bracket and (not port or port.startswith(":")) else ""
    return _name(host.partition(":")[0])


def _name(host: str) -> str:
    return host.lower().removesuffix(".")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_loopback_name(name: str) -> bool:
    return name == _LOOPBACK_NAME or name.endswith("." + _LOOPBACK_NAME)


def _loopback_origin(origin: str) -> bool:
    scheme, _, host = origin.lower().partition("://")
    if scheme not in ("http", "https"):
        return False
    name = _bare(host)
    address = _address(name)
    return _is_loopback_name(name) or (address is not None and address.is_loopback)
