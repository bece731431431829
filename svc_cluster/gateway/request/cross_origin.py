"""What pages of other origins are granted in a browser. Source: contract 14.5 and 14.6.

A page may ask whatever it likes: what it is not allowed is refused when it comes, for want of an
access token. Where nobody is asked for one, only pages that could have been served here may.
"""

from __future__ import annotations

from typing import Final

from svc_cluster.gateway.request.host_names import OwnNames
from svc_cluster.gateway.request.negotiation import PROVISION_RESULTS
from svc_cluster.gateway.request.request_id import REQUEST_ID_HEADER
from svc_cluster.http.message import Request, Response

PREFLIGHT_SECONDS: Final = 7200
"""For how long a browser may go by what a preflight has granted. More is taken for this by some."""

_EXPOSED: Final = ", ".join(
    (
        *PROVISION_RESULTS,
        "svc-side-effects",
        "retry-after",
        "retry-after-ms",
        "etag",
        "www-authenticate",
        REQUEST_ID_HEADER,
    )
)
_ASKED_METHOD: Final = "access-control-request-method"
_ASKED_HEADERS: Final = "access-control-request-headers"


class CrossOrigin:
    """The grants of one gateway."""

    def __init__(self, own_names: OwnNames | None, *, is_on: bool) -> None:
        """`own_names`: where nobody is asked for a token; else None. Without `is_on` nothing is
        granted to anybody."""
        self._own_names = own_names
        self._is_on = is_on

    def is_preflight(self, request: Request) -> bool:
        """Whether a browser asks what a page may do, and is to be told."""
        return (
            request.method == "OPTIONS"
            and request.header(_ASKED_METHOD) is not None
            and self._page(request) is not None
        )

    def options(self, request: Request, allow: str) -> Response:
        """The answer to OPTIONS, where `allow` are the methods that there are. A preflight carries
        no credentials, and is granted the method and the headers that it asks for."""
        headers = [("allow", allow)]
        if self._page(request) is not None:
            headers += [
                ("access-control-allow-methods", request.header(_ASKED_METHOD) or allow),
                ("access-control-max-age", str(PREFLIGHT_SECONDS)),
            ]
            wanted = request.header(_ASKED_HEADERS)
            if wanted is not None:
                headers.append(("access-control-allow-headers", wanted))
        return Response(204, headers)

    def grant(self, request: Request, response: Response) -> None:
        """Let the page that asks read the answer, if one asks that may."""
        if (origin := self._page(request)) is not None:
            response.headers += [
                ("access-control-allow-origin", origin),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", _EXPOSED),
            ]

    def _page(self, request: Request) -> str | None:
        """The origin of the page that may read the answer."""
        origin = request.header("origin") if self._is_on else None
        if origin is None or self._own_names is None or self._own_names.is_page(origin):
            return origin
        return None
