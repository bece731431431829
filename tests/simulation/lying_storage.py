"""Stores that break their promises: each class is one planted bug of one replica's store."""

from __future__ import annotations

from typing import Any

from svc_cluster.base.write_set import WriteSet
from svc_cluster.replica.prefixed import PREFIX_BYTES
from tests.simulation.node import SimNode

_BATCH = b"\x04"
_SHARE = 0.05


class StoreBug:
    """Stands before a store's `write`; a crash brings an honest store."""

    def __init__(self, node: SimNode) -> None:
        self.rng = node.store._own_rng
        self._write = node.store.write
        node.store.write = self.write  # type: ignore[method-assign]

    def write(self, write_set: WriteSet) -> None:
        changed = WriteSet()
        changed.ops = [other for op in write_set.ops if (other := self.change(op)) is not None]
        self._write(changed)

    def change(self, op: Any) -> Any:
        """What is written instead; None for nothing."""
        raise NotImplementedError


def _is_batch(op: Any) -> bool:
    return op[1] is not None and op[0][PREFIX_BYTES : PREFIX_BYTES + 1] == _BATCH


class LosesBatch(StoreBug):
    """One replica loses a batch of its state."""

    def change(self, op: Any) -> Any:
        return None if _is_batch(op) and self.rng.random() < _SHARE else op


class KeepsTrimmed(StoreBug):
    """One replica keeps a batch that was trimmed."""

    def change(self, op: Any) -> Any:
        is_range = op[2] is not None and len(op[0]) > PREFIX_BYTES
        return None if is_range else op


class FlipsBit(StoreBug):
    """One bit of a stored batch changes on one replica."""

    def change(self, op: Any) -> Any:
        if not _is_batch(op) or self.rng.random() >= _SHARE:
            return op
        value = bytearray(op[1])
        value[-1] ^= 1
        return op[0], bytes(value), op[2]
