"""Writes that a client may repeat: `svc-request-token` becomes the key under which the cluster
keeps what came of them."""

from __future__ import annotations

from typing import Final

from svc_cluster.codec.request_key import body_hash, request_key
from svc_cluster.gateway.backend import Backend
from svc_cluster.gateway.handlers.context import Call
from svc_cluster.gateway.http.router import RECORDS_TEMPLATE

_NO_KEY: Final = b""


def write_key(call: Call, token: str | None, hashed: bytes, *names: str) -> bytes:
    """Of the request; empty for one without a token, which nothing repeats. `hashed`: its decoded
    body's hash. `names`: the full names of what it is about, the basin first. To be asked when the
    caller's rights to them have been checked."""
    if token is None:
        return _NO_KEY
    # there is one way to write that has two paths
    route = RECORDS_TEMPLATE if call.match.seed_path else call.match.template
    return request_key(call.request.method, route, names, token, hashed)


def writer(call: Call, token: str | None, body: bytes, *names: str) -> Backend:
    """What to ask for the write: once, however often it is sent. As `write_key`."""
    backend = call.services.backend
    if token is None:
        return backend
    return backend.keyed(write_key(call, token, body_hash(body), *names))
