"""Entries for a peer are cut into messages of bounded size and number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from svc_cluster.codec.peer_message import ENTRIES_MAX
from svc_cluster.raft.messages import AppendRequest

PORTION_BYTES: Final = 1024 * 1024
"""Entries of one message to a peer have at most so many bytes, or it has one; groups take turns."""

PORTION_ENTRIES_MAX: Final = ENTRIES_MAX
"""And so many entries, however small: each costs whoever takes it, who refuses more."""


def portions(message: AppendRequest) -> Iterable[AppendRequest]:
    """Return the same entries in messages of at most PORTION_BYTES or a single entry, each behind
    the one before it. They have at most PORTION_ENTRIES_MAX entries."""
    return (message,) if len(message.entries) <= 1 else _cut(message)


def _cut(message: AppendRequest) -> Iterator[AppendRequest]:
    entries, first = message.entries, 0
    previous_index, previous_term = message.previous_index, message.previous_term
    while True:
        end, size = first, 0
        while end < len(entries):
            size += len(entries[end].payload)
            if end - first >= PORTION_ENTRIES_MAX or (size > PORTION_BYTES and end > first):
                break
            end += 1
        part = entries[first:end]
        yield replace(
            message, previous_index=previous_index, previous_term=previous_term, entries=part
        )
        if end == len(entries):
            return
        previous_index, previous_term = part[-1].log_index, part[-1].term
        first = end
