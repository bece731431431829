"""The catalog's rows in the form of this release, whatever wrote them, and as of another log."""

from __future__ import annotations

import msgspec

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.catalog.basin_record import basin_from_bytes, basin_to_bytes
from svc_cluster.catalog.catalog_state import CatalogMeta


def canonical_meta(value: bytes) -> bytes:
    """The row under `META` in the form of this release, without the digest of what was written,
    which depends on the form. Raises msgspec.DecodeError."""
    meta = msgspec.msgpack.decode(value, type=CatalogMeta)
    meta.digest = 0
    return msgspec.msgpack.encode(meta)


def meta_at(value: bytes, log_index: LogIndex, term: Term, digest: int) -> bytes:
    """Return the row under `META` as of another place in a log, for a state that is given to a new
    one. Raises msgspec.DecodeError."""
    meta = msgspec.msgpack.decode(value, type=CatalogMeta)
    meta.applied_index, meta.applied_term, meta.digest = log_index, term, digest
    return msgspec.msgpack.encode(meta)


def canonical_basin(value: bytes) -> bytes:
    """Return a basin's row in the form of this release. Raises msgspec.DecodeError."""
    return basin_to_bytes(basin_from_bytes(value))
