"""Switches for tests alone: each turns off one repair of the engine, to show that it is needed.

Nothing outside the tests may pass anything but `Fixes()`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """What each repair is for; the letters are those of docs/adr/0001."""

    h1_normalise: bool = True
    """A follower removes only entries that conflict, never a tail that merely is longer."""

    h2_term: bool = True
    """An answer created in an older term is not counted in this one."""

    h3_ack_hold: bool = True
    """A leader's own vote for the commit index counts only when its own log is durable."""

    h4_read_rounds: bool = True
    """A read is confirmed by a quorum that answered a message sent after the read began."""

    h5a_commit_order: bool = True
    """A commit index is written behind the log operations that it depends on."""

    h9a_votes: bool = True
    """A vote is counted once per member and term."""

    h9b_backtrack: bool = True
    """A divergent follower leads its leader back by whole terms; late answers do not undo it."""

    h9c_next_index: bool = True
    """A late acknowledgement never makes the leader send again what is under way."""

    h9e_queue_check: bool = True
    """A proposal is in the log when `propose` returns, never in a queue."""

    prevote: bool = True
    """A node asks before it raises its term."""

    persist_first: bool = True
    """Votes, vote requests and acknowledgements wait until what they promise is durable."""
