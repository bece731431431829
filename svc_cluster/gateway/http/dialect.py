"""Which dialect a request speaks. Source: wire contract section 0.2."""

from __future__ import annotations

from enum import Enum

from svc_cluster.gateway.http.message import Headers


class Dialect(Enum):
    SEED = "seed"
    UNMARKED = "unmarked"
    """No mark of either dialect: treated as seed, with bodies that satisfy both."""


def detect(headers: Headers, *, seed_path: bool) -> Dialect:
    """Positively seed: the `/v1/basins/{basin}/streams/...` path shape, any `svc-*` header, or the
    seed's session media type."""
    if seed_path:
        return Dialect.SEED
    for name, value in headers:
        if name.startswith("svc-"):
            return Dialect.SEED
        if name in ("accept", "content-type") and "svcs/proto" in value:
            return Dialect.SEED
    return Dialect.UNMARKED
