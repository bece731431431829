"""These are writes that a client may repeat. Their `svc-request-token` becomes the key under which
the cluster keeps what came of them."""

from __future__ import annotations

from typing import Final

from svc_cluster.codec.request_key import body_hash, request_key
from svc_cluster.gateway.api.context import Call

_NO_KEY: Final = b""


def write_key(call: Call, token: str | None, body: bytes, *names: str) -> bytes:
    """Return the key of the request; empty for one without a token, which nothing repeats. `body`:
    as it was sent, its Content-Encoding undone. `names`: the full names of what it is about, the
    basin first. To be asked when the caller's rights to them have been checked."""
    if token is None:
        return _NO_KEY
    route = call.match.endpoint.paths[0]  # whichever of its paths the request has
    return request_key(call.request.method, route, names, token, body_hash(body))
