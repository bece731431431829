"""Decided entries for a replica that lacks them: what is told, and what is taken of it.

A feed has only what its teller has applied, so it may be told by anybody, late, twice and in any
order. Nobody who recovers tells one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.configuration import Configuration
from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.group import PeerLieError
from svc_cluster.raft.log_view import LogView

FEED_BYTES_MAX: Final = 1024 * 1024
"""Payload of one feed, beside the entry with which it is reached."""

FEED_ENTRIES_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class Feed:
    """Decided entries that follow upon an index, and the configuration of who tells them."""

    configuration: Configuration
    previous_index: LogIndex
    previous_term: Term
    entries: Sequence[LogEntry] = ()


def feed_behind(
    log: LogView, decided_index: LogIndex, configuration: Configuration, asked: LogIndex
) -> Feed | None:
    """What is decided behind the index `asked`, as far as this replica has applied it. None: only a
    snapshot has what is asked for."""
    previous_index = min(asked, decided_index)
    previous_term = log.term_at(previous_index)
    if previous_term is None:
        return None
    entries: list[LogEntry] = []
    size = 0
    first = previous_index - log.base_index
    last = min(decided_index - log.base_index, first + FEED_ENTRIES_MAX)
    for entry in log.entries[first:last]:
        entries.append(entry)
        size += len(entry.payload)
        if size >= FEED_BYTES_MAX:
            break
    return Feed(configuration, LogIndex(previous_index), previous_term, tuple(entries))


def take_feed(log: LogView, feed: Feed) -> None:
    """Append what of the feed is new. Raises PeerLieError where it contradicts the log: nothing but
    decided entries is in the log of who takes one."""
    own = log.term_at(feed.previous_index)
    if own is not None and own != feed.previous_term:
        raise PeerLieError(f"what is decided differs at {feed.previous_index}")
    for entry in feed.entries:
        if entry.log_index <= log.base_index:
            continue
        own = log.term_at(entry.log_index)
        if own is not None and own != entry.term:
            raise PeerLieError(f"what is decided differs at {entry.log_index}")
        if own is None:
            if entry.log_index != log.last_index + 1:
                return
            log.append(entry.payload, entry.log_index, entry.term)
