"""The digest by which replicas of the catalog are compared."""

from __future__ import annotations

import struct

import xxhash

from svc_cluster.base.write_set import WriteSet


def chained_digest(before: int, log_index: int, write_set: WriteSet) -> int:
    """Chained over all entries: equal applied indexes must show equal digests."""
    hasher = xxhash.xxh3_64(struct.pack("<QQ", before, log_index))
    for key, value, end in write_set.ops:
        hasher.update(struct.pack("<III", len(key), len(value or b""), len(end or b"")))
        hasher.update(key)
        hasher.update(value or b"")
        hasher.update(end or b"")
    return hasher.intdigest()
