"""Which features and faults a seed draws, by name: a swarm in which every seed leaves some out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.simulation.options import FAULTS, MIB, Options

_OFTEN_S = 2.0
"""With logs kept for so long, replicas that were away need snapshots."""


def features_of(options: Options) -> Iterator[str]:
    """The names of what a run with these options has."""
    load = options.workload
    yield from (f"fault: {name}" for name in options.faults)
    has = {
        "payload files": options.payload_bytes_min > 0,
        "basins at rest": options.rest_seconds > 0,
        "scrub": options.scrub_seconds > 0,
        "rows that change behind a replica's back": options.harm,
        "logs that decay": options.rot,
        "links with limits": options.bytes_per_s is not None,
        "datagrams out of order": options.datagrams,
        "slow disks": options.slow_disks,
        "snapshots often": options.log_retention_seconds <= _OFTEN_S,
        "short segments": options.segment_bytes < MIB,
        "settings that are tiny or odd": bool(options.constants),
        "four or five nodes": options.nodes > 3,
        "a basin that moves": options.moves,
        "a catalog that moves": options.catalog_moves,
        "nodes that are drained": options.drains,
        "leads that are evened out": options.balance_seconds > 0,
        "disks that are lost": options.loses_disks,
        "nodes of an older release": options.older_nodes > 0,
        "several gateways": options.gateways > 1,
        "several basins": options.basins > 1,
        "HTTP messages": options.http,
        "append sessions": load.session_share > 0,
        "idempotency keys": load.retry_share > 0,
        "trims": load.trim_share > 0,
        "fencing tokens": load.fencing,
        "appends under a condition": load.conditional,
        "followers": load.follow,
        "event streams": load.event_streams,
        "streams deleted and made again": load.churned_streams > 0,
        "basins deleted and made again": load.churned_basins > 0,
        "configurations that change": load.configured > 0,
    }
    yield from (name for name, is_there in has.items() if is_there)


def drawn(seed: int, *, rot: bool = False) -> Options:
    """What the seed plays with."""
    options = Options.draw(random.Random(f"{seed}/options"))
    options.rot = rot
    return options


def counted(seeds: Iterable[int], *, rot: bool = False) -> Counter[str]:
    """In how many of the seeds each feature ran; 0 for what ran in none."""
    counts = Counter({f"fault: {name}": 0 for name in FAULTS})
    for seed in seeds:
        counts.update(features_of(drawn(seed, rot=rot)))
    return counts


def table(counts: Counter[str], seeds: int) -> list[str]:
    """One line a feature, the rarest last."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f"  {count:>6} of {seeds} seeds  {name}" for name, count in ordered]
