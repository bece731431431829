"""What makes two requests to create something one and the same: token and requested configuration.

Source: contract 9.2. The configuration is hashed as it was asked for, before anything
is inherited, in a form that does not depend on how it was written.
"""

from __future__ import annotations

import hashlib

from google.protobuf.message import Message

from svc_cluster._pb.cluster.v1 import config_pb2 as pb
from svc_cluster.codec import config_pb
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig


def basin_creation_hash(
    token: str | None,
    config: BasinConfig,
    location: str | None = None,
    replication_factor: int | None = None,
) -> bytes:
    """32 bytes; none without a token, which matches nothing. `location` and the factor as they were
    asked for."""
    message = pb.BasinConfig()
    config_pb.put_basin(message, config)
    place = b"" if location is None else location.encode()
    if replication_factor is not None:  # no location's name has a zero byte
        place += b"\x00" + replication_factor.to_bytes(1, "big")
    return _hash(token, message, place)


def stream_creation_hash(token: str | None, config: PartialStreamConfig | None) -> bytes:
    """32 bytes; none without a token, which matches nothing."""
    message = pb.PartialStreamConfig()
    config_pb.put_partial(message, config or PartialStreamConfig())
    return _hash(token, message)


def _hash(token: str | None, message: Message, place: bytes = b"") -> bytes:
    if not token:
        return b""
    given = token.encode("utf-8", "surrogatepass")
    config = message.SerializeToString(deterministic=True)
    prefixed = len(given).to_bytes(4, "big") + given
    # no configuration begins with a zero byte, so that none can be taken for a place
    marked = b"\x00" + len(place).to_bytes(1, "big") + place if place else b""
    return hashlib.sha256(prefixed + marked + config).digest()
