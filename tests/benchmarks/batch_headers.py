"""What a sync batch's header costs the node, as a ratio to putting it together from every batch
that it covers: `python -m tests.benchmarks.batch_headers`, some seconds.

Both in turns in one process, with small batches, of which a header covers 64.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Final

from svc_cluster.storage.wal.recent_batches import COVERED_BATCHES, RecentBatches

BATCH_BYTES: Final = 200


def _whole(headers: int, groups: int) -> None:
    """The reference: all that is covered, put together for every header."""
    recent: deque[dict[int, int]] = deque(maxlen=COVERED_BATCHES.stop - 1)
    for number in range(headers):
        items: dict[int, int] = {}
        for batch in recent:
            items.update(batch)
        recent.append({number % groups + 1: number})


def _kept(headers: int, groups: int) -> None:
    recent = RecentBatches()
    for number in range(headers):
        recent.add((1, number), BATCH_BYTES, {number % groups + 1: number})


def _us(made: Callable[[int, int], None], headers: int, groups: int) -> float:
    begun = time.process_time()
    made(headers, groups)
    return (time.process_time() - begun) / headers * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.batch_headers")
    parser.add_argument("--headers", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    for groups in (1, 16, 256):
        pairs = [
            (_us(_whole, given.headers, groups), _us(_kept, given.headers, groups))
            for _ in range(given.turns)
        ]
        told = {
            "groups": groups,
            "whole_us": round(median(whole for whole, _ in pairs), 2),
            "kept_us": round(median(kept for _, kept in pairs), 2),
            "ratio": round(median(kept / whole for whole, kept in pairs), 3),
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
