"""Which dialect a request speaks. Source: contract 1.1."""

from __future__ import annotations

from enum import Enum
from typing import Final

from svc_cluster.http.message import Headers


class Dialect(Enum):
    SEED = "seed"
    """Positively: by a mark of its own."""
    S2 = "s2"
    UNMARKED = "unmarked"
    """No mark of either dialect: treated as seed, with bodies that satisfy both."""


_S2_USER_AGENTS: Final = (
    "s2-sdk-rust/",
    "s2-sdk-python/",
    "s2-sdk-go/",
    "s2-sdk-typescript/",
    "s2-cli/",
)


def detect(headers: Headers, *, seed_path: bool, host_basin: bool = False) -> Dialect:
    """The first mark that is found decides. The order is the path shape
    `/v1/basins/{basin}/streams/...`, a `svc-*` header or the seed's session media type, a `s2-*`
    header or S2's session media type, the user agent of an S2 client, a basin in the host name.

    Names of `headers` are in lower case. `host_basin`: the host name names a basin.
    """
    if seed_path:
        return Dialect.SEED
    s2 = host_basin
    for name, value in headers:
        if name.startswith("svc-"):
            return Dialect.SEED
        if name.startswith("s2-"):
            s2 = True
        elif name in ("accept", "content-type"):
            kinds = value.lower()
            if "svcs/proto" in kinds:
                return Dialect.SEED
            s2 = s2 or "s2s/proto" in kinds
        elif name == "user-agent":
            s2 = s2 or value.startswith(_S2_USER_AGENTS)
    return Dialect.S2 if s2 else Dialect.UNMARKED
