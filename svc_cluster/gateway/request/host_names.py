"""What a host name says: a basin, and whether a gateway without authentication serves it. It also
says pages of which origins such a gateway serves. Source: contract 1.2 and 1.3.

Nobody is asked for a token at such a gateway, so a browser on the same machine or network is a way
in for every page that it opens. A page whose own name is made to lead to the gateway (DNS
rebinding) is told by the `Host`; a page of another origin by its `Origin`. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from svc_cluster.base.errors import PermissionDeniedError
from svc_cluster.http.message import Request
from svc_cluster.model import names

_DEFAULT_LABEL: Final = ".b."
_LOOPBACK_NAME: Final = "localhost"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""What `sec-fetch-site` says of the gateway's own pages, and of what a user has typed."""
_VERDICTS_MAX: Final = 256
"""Hosts, and as many origins, whose verdict is remembered."""

FOREIGN_HOST: Final = (
    "without authentication a host is answered for that is an IP address, localhost, or listed: "
    "add this one to public_hosts, or set authentication"
)
FOREIGN_PAGE: Final = (
    "without authentication pages of other origins than loopback change nothing: set authentication"
)


def basin_of_host(host: str | None, suffixes: Sequence[str] | None = None) -> str | None:
    """The basin in the value of a Host header (or `:authority`), a port behind it or not.

    Without `suffixes` it is the label in front of `.b.` (`{basin}.b.example.com`); with some, the
    one label in front of one of them (`b.example.com`), and the default shape means nothing. With
    an empty sequence no host names a basin. None too where that label is not a basin's name: such
    a host was not meant as a selector.
    """
    if host is None:
        return None
    host = host.lower()
    if suffixes is None:
        if _DEFAULT_LABEL not in host:  # all that a usual request costs
            return None
        label, _, domain = host.partition(".")
        if not domain.startswith("b.") or domain == "b.":
            return None
    else:
        host = host.partition(":")[0].rstrip(".")
        label = next(
            (
                host[: -len(suffix) - 1]
                for suffix in (s.strip(".").lower() for s in suffixes)
                if suffix and host.endswith("." + suffix)
            ),
            "",
        )
    return label if names.is_basin_name(label) else None


class OwnNames:
    """The names of one gateway without authentication."""

    def __init__(
        self, public_hosts: Sequence[str] = (), basin_suffixes: Sequence[str] | None = None
    ) -> None:
        """`public_hosts` are host names without ports, beside literal addresses, `localhost` and
        what is below it. `basin_suffixes` are as for `basin_of_host`; where they are None, `b`
        counts below a public host alone: any domain would be everybody's."""
        self._public = frozenset(_name(host) for host in public_hosts)
        self._suffixes = basin_suffixes
        self._is_own = lru_cache(_VERDICTS_MAX)(self._own_host)
        self._is_loopback = lru_cache(_VERDICTS_MAX)(_loopback_origin)

    def check(self, request: Request) -> None:
        """Raises PermissionDeniedError for a host that is none of ours. It is also raised for a
        write that a page of a foreign origin sends, of which a browser asks nobody before. A
        request without a host, of HTTP/1.0, is no browser's."""
        host = request.header("host")
        if host is not None and not self._is_own(host):
            raise PermissionDeniedError(FOREIGN_HOST)
        origin = request.header("origin")
        if origin is None or request.method in _SAFE_METHODS:
            return
        if not self._is_own_origin(request, origin):
            raise PermissionDeniedError(FOREIGN_PAGE)

    def is_of_foreign_page(self, request: Request) -> bool:
        """Whether a page of another origin sends it, as far as the browser says. With what it
        embeds (an image, a frame) or leads to there is no `origin`; `sec-fetch-site` is sent with
        that to loopback and over TLS."""
        origin = request.header("origin")
        if origin is not None:
            return not self._is_own_origin(request, origin)
        return is_of_other_site(request)

    def _is_own_origin(self, request: Request, origin: str) -> bool:
        return self.is_page(origin) or _is_origin_of_host(request, origin)

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


def is_of_other_origin(request: Request) -> bool:
    """Return whether a page of another origin than the gateway's own sends the request, as far as
    the browser says. Over TLS it does; a client that is no browser says nothing of it."""
    origin = request.header("origin")
    if origin is not None:
        return not _is_origin_of_host(request, origin)
    return is_of_other_site(request)


def is_of_other_site(request: Request) -> bool:
    """Return whether `sec-fetch-site` names another page than the gateway's own."""
    site = request.header("sec-fetch-site")
    return site is not None and site.lower() not in _OWN_SITES


def _is_origin_of_host(request: Request, origin: str) -> bool:
    host = request.header("host")
    return host is not None and origin.lower().partition("://")[2] == host.lower()


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
