"""What a follower hands to the engine of a leader's message, and what it answers.

The engine removes everything behind `previous_index`, conflicting or not, and steps back one
entry at a time. So a message is rewritten before the engine sees it: entries already held are
skipped, only a conflicting suffix is handed over with what replaces it, and an answer that sends
the leader back names the first entry of the whole divergent term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svc_cluster.base.ids import LogIndex, Term
from svc_cluster.base.log_ops import LogEntry
from svc_cluster.raft.group import PAYLOAD_TYPE, PeerLieError
from svc_cluster.raft.log_view import LogView
from svc_cluster.raft.messages import AppendRequest
from svc_cluster.raft.seal import is_seal_payload

NOOP_TYPE = 1
"""The engine's own first byte of a new leader's entry. Any other type it would interpret."""


@dataclass(frozen=True, slots=True)
class NormalisedMessage:
    """The rewritten message and the answer to it."""

    previous_index: LogIndex
    previous_term: Term
    entries: Sequence[LogEntry]
    commit_index: LogIndex
    verified: LogIndex | None
    """Our log equals the leader's up to here once the plan is carried out; None: it does not
    match at `previous_index`, or repair is switched off."""

    retry_from: LogIndex | None = None
    """With a mismatch: where the leader should try next."""


def is_well_formed(request: AppendRequest, entry_bytes_max: int) -> bool:
    """Whether the message says what a replica of this cluster could say."""
    if request.previous_index < 0 or request.commit_index < 0:
        return False
    log_index, term = request.previous_index, request.previous_term
    for entry in request.entries:
        if entry.log_index != log_index + 1 or not term <= entry.term <= request.sender_term:
            return False
        if not is_payload(entry.payload, entry_bytes_max):
            return False
        log_index, term = entry.log_index, entry.term
    return True


def is_payload(payload: bytes, entry_bytes_max: int) -> bool:
    """Whether it is of a type that the engine passes on without looking inside."""
    if not 0 < len(payload) <= entry_bytes_max:
        return False
    return payload[0] in (PAYLOAD_TYPE, NOOP_TYPE) or is_seal_payload(payload)


def normalise(log: LogView, commit_index: LogIndex, request: AppendRequest) -> NormalisedMessage:
    """Plan for one message. `commit_index` is this replica's own.

    Raises PeerLieError when the message contradicts what is committed here.
    """
    previous_index, previous_term, entries = _behind_base(log, request)
    own_term = log.term_at(previous_index)
    if own_term is None:
        return _mismatch(request, retry_from=LogIndex(log.last_index + 1))
    if own_term != previous_term:
        if previous_index <= commit_index:
            raise PeerLieError(f"the leader's log differs at committed {previous_index}")
        floor = commit_index + 1
        return _mismatch(request, retry_from=log.first_index_of_term(previous_index, floor))
    skipped = 0
    for entry in entries:
        if log.term_at(entry.log_index) != entry.term:
            break
        skipped += 1
    matched = LogIndex(previous_index + skipped)
    verified = LogIndex(previous_index + len(entries))
    rest = entries[skipped:]
    if not rest:
        return NormalisedMessage(
            log.last_index,
            log.last_term,
            (),
            LogIndex(min(request.commit_index, verified)),
            verified=verified,
        )
    if matched < log.last_index and matched < commit_index:
        raise PeerLieError(f"the leader's log differs at committed {matched + 1}")
    matched_term = log.term_at(matched)
    assert matched_term is not None, "what matched is in the log"
    commit = LogIndex(min(request.commit_index, verified))
    return NormalisedMessage(matched, matched_term, rest, commit, verified=verified)


def _behind_base(log: LogView, request: AppendRequest) -> tuple[LogIndex, Term, Sequence[LogEntry]]:
    """The message without the part that is in the state store already, which is committed."""
    skip = log.base_index - request.previous_index
    if skip <= 0:
        return request.previous_index, request.previous_term, request.entries
    if len(request.entries) >= skip and request.entries[skip - 1].term != log.base_term:
        raise PeerLieError(f"the leader's log differs at committed {log.base_index}")
    return log.base_index, log.base_term, request.entries[skip:]


def _mismatch(request: AppendRequest, *, retry_from: LogIndex) -> NormalisedMessage:
    return NormalisedMessage(
        request.previous_index,
        request.previous_term,
        (),
        LogIndex(0),
        verified=None,
        retry_from=retry_from,
    )


class Backtrack:
    """The lowest place this follower has sent its leader back to, until the logs match.

    Messages that were under way when the leader was sent back would otherwise send it forward.
    """

    def __init__(self) -> None:
        self._term = Term(0)
        self._lowest: LogIndex | None = None

    def retry_from(self, term: Term, wanted: LogIndex) -> LogIndex:
        if term != self._term or self._lowest is None or wanted < self._lowest:
            self._term = term
            self._lowest = wanted
        return self._lowest

    def matched(self) -> None:
        self._lowest = None
