"""How far the scrub of one group has come: rounds over its content, a chunk at a time. Pure.

The leader asks and goes on; the others note from its questions where it is, so that whoever leads
next goes on from there. Times are monotonic seconds, of this node alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from svc_cluster.base.ids import LogIndex, NodeId, Term
from svc_cluster.model.content import CONTENT_VERSION, Chunk
from svc_cluster.raft.messages import ScrubAnswer, ScrubOutcome, ScrubQuestion, ScrubVerdict
from svc_cluster.replica.scrub_votes import Identity, Judgement, Vote, judge

AGAIN_SECONDS: Final = 300.0
"""Behind a round that was not whole, or found something, the next one begins this soon."""

TRIES_MAX: Final = 5
"""So often a chunk is asked for before the round goes on without those that did not answer."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a chunk that was asked for."""

    judgement: Judgement
    verdict: ScrubVerdict | None
    """For each of those that are damaged."""
    compared: int
    """Replicas that took part."""
    newly_in_doubt: bool
    """Nobody knows what is right, for the first time in this round."""
    ended_round: bool
    was_complete: bool
    """The round that ended: every replica took part in all of it, and all were equal."""


class GroupScrub:
    """One replica's part. Between `ask` and `settle`, or `drop`, a chunk is under way."""

    def __init__(self, node_id: NodeId, encoding: int) -> None:
        self._node_id = node_id
        self._encoding = encoding
        self.round_number = 0
        self.after = b""
        """Where the round goes on; empty: at its beginning."""
        self.is_running = False
        self.covered = True
        self.is_in_doubt = False
        """In this round, or the last, nobody knew what is right."""
        self.completed_round = 0
        self.completed_at: float | None = None
        self.due_at = float("-inf")
        """When the next round may begin."""
        self.flaw = ""
        """What this replica saw itself in the last chunk that it read."""
        self.copied_from: NodeId | None = None
        self._copied_in = 0
        self._doubted_in = 0
        self._chunk = 0
        self._asked: ScrubQuestion | None = None
        self._members: tuple[NodeId, ...] = ()
        self._votes: dict[NodeId, Vote] = {}
        self._refused: set[NodeId] = set()
        self._again: set[NodeId] = set()
        """Those of the refused that may answer soon."""
        self._tries = 0
        self._heard_at: float | None = None
        """When the leader asked last; None: this replica has asked since."""
        self._told: tuple[Term, int, Identity] | None = None
        """The last answer given, as a follower."""

    # -- as leader

    def is_due(self, now: float) -> bool:
        """Whether there is something to ask. A round of which nothing was heard for long has ended,
        or is too old to go on with."""
        if self._heard_at is not None and now - self._heard_at > AGAIN_SECONDS:
            self.is_running = False
        return self.is_running or now >= self.due_at

    @property
    def asked(self) -> ScrubQuestion | None:
        """The chunk under way."""
        return self._asked

    @property
    def wants_again(self) -> bool:
        """Somebody who could not answer at this index may at the next."""
        return bool(self._again) and self._tries < TRIES_MAX

    def ask(
        self,
        term: Term,
        log_index: LogIndex,
        members: tuple[NodeId, ...],
        cost_max: int,
        now: float,
        interval_seconds: float,
    ) -> ScrubQuestion:
        """Ask for the next chunk, or once more for the same; begins a round where none runs."""
        if not self.is_running:
            self.is_running, self.covered = True, True
            self.round_number += 1
            self.after, self._tries = b"", 0
            self.due_at = now + interval_seconds
        self._chunk += 1
        self._tries += 1
        self._members, self._votes = members, {}
        self._refused, self._again = set(), set()
        self._heard_at = None
        ago_ms = 0 if self.completed_at is None else round((now - self.completed_at) * 1000)
        self._asked = ScrubQuestion(
            term,
            CONTENT_VERSION,
            self._encoding,
            self._chunk,
            log_index,
            self.after,
            cost_max,
            self.round_number,
            self.covered,
            self.completed_round,
            ago_ms,
        )
        return self._asked

    def own(self, chunk: Chunk) -> None:
        """What this replica, the leader's, holds."""
        self.flaw = chunk.flaw
        self._votes[self._node_id] = Vote(chunk.identity, bool(chunk.flaw), self.copied_from)

    def answered(self, sender: NodeId, answer: ScrubAnswer) -> bool:
        """Whether the answer is one to the chunk under way."""
        asked = self._asked
        if asked is None or sender not in self._members:
            return False
        if answer.sender_term != asked.sender_term or answer.chunk != asked.chunk:
            return False
        comparable = (answer.version, answer.encoding) == (asked.version, asked.encoding)
        if answer.outcome is not ScrubOutcome.COMPARED or not comparable:
            self._refused.add(sender)
            if answer.outcome in (ScrubOutcome.MISSED, ScrubOutcome.BUSY):
                self._again.add(sender)
            return True
        copied_from = NodeId(answer.copied_from) if answer.copied_from else None
        identity = (answer.end, answer.digest, answer.rows)
        self._votes[sender] = Vote(identity, answer.flawed, copied_from)
        return True

    def silent(self, asked: frozenset[NodeId]) -> frozenset[NodeId]:
        """Those of whom nothing has come yet."""
        return asked - self._votes.keys() - self._refused

    @property
    def is_whole(self) -> bool:
        """Every member has said what it holds."""
        return len(self._votes) == len(self._members)

    @property
    def has_own(self) -> bool:
        return self._node_id in self._votes

    def drop(self) -> None:
        """Nothing becomes of the chunk under way; the round stays where it is."""
        self._asked = None

    def settle(self, now: float, interval_seconds: float) -> Settled:
        """Judge the votes, of which this replica's is one, and go on behind the chunk."""
        asked = self._asked
        assert asked is not None, "a chunk is under way"
        judgement = judge(self._votes, len(self._members))
        compared = len(self._votes)
        if judgement.in_doubt or judgement.damaged or not self.is_whole:
            self.covered = False
        newly = judgement.in_doubt and self._doubted_in != self.round_number
        if judgement.in_doubt:
            self._doubted_in, self.is_in_doubt = self.round_number, True
        right = judgement.right
        verdict = None
        if right is not None and judgement.damaged:
            verdict = ScrubVerdict(
                asked.sender_term, asked.version, asked.encoding, asked.chunk, *right
            )
        self._asked = None
        self._tries = 0
        self.after = (right or self._votes[self._node_id].identity)[0]
        ended = not self.after
        complete = ended and self.covered
        if ended:
            self._end_round(complete, now, interval_seconds)
        return Settled(judgement, verdict, compared, newly, ended, complete)

    def _end_round(self, complete: bool, now: float, interval_seconds: float) -> None:
        self.is_running = False
        self.is_in_doubt = self._doubted_in == self.round_number
        if complete:
            self._completed(self.round_number, now)
        else:
            self.due_at = min(self.due_at, now + min(interval_seconds, AGAIN_SECONDS))

    def _completed(self, round_number: int, at: float) -> None:
        self.completed_round, self.completed_at = round_number, at
        if self.copied_from is not None and round_number > self._copied_in:
            self.copied_from = None

    def copied(self, source: NodeId | None) -> None:
        """The state here is that of another node's snapshot from now on."""
        self.copied_from, self._copied_in = source, self.round_number
        self._asked = self._told = None

    # -- as follower

    def heard(self, question: ScrubQuestion, now: float, interval_seconds: float) -> None:
        """The leader asks: so far it has come."""
        if question.round_number != self.round_number or not self.is_running:
            self.due_at = now + interval_seconds
        self.round_number = question.round_number
        self.is_running, self.after, self.covered = True, question.after, question.covered
        self._heard_at = now
        self._tries = 0
        self._asked = None
        self.is_in_doubt = False  # whoever leads says so
        if question.completed_round:
            self._completed(question.completed_round, now - question.completed_ago_ms / 1000)

    def answer(self, question: ScrubQuestion, chunk: Chunk) -> ScrubAnswer:
        self._told = (question.sender_term, question.chunk, chunk.identity)
        self.flaw = chunk.flaw
        return ScrubAnswer(
            question.sender_term,
            CONTENT_VERSION,
            self._encoding,
            question.chunk,
            ScrubOutcome.COMPARED,
            *chunk.identity,
            bool(chunk.flaw),
            self.copied_from or 0,
        )

    def refusal(self, question: ScrubQuestion, outcome: ScrubOutcome) -> ScrubAnswer:
        return ScrubAnswer(
            question.sender_term, CONTENT_VERSION, self._encoding, question.chunk, outcome
        )

    def comparable(self, question: ScrubQuestion) -> bool:
        return (question.version, question.encoding) == (CONTENT_VERSION, self._encoding)

    def convicts(self, verdict: ScrubVerdict) -> bool:
        """Whether this replica said otherwise than the quorum."""
        if (verdict.version, verdict.encoding) != (CONTENT_VERSION, self._encoding):
            return False
        if self._told is None or self._told[:2] != (verdict.sender_term, verdict.chunk):
            return False
        return self._told[2] != (verdict.end, verdict.digest, verdict.rows)


def comparable_peers(said: Mapping[NodeId, tuple[int, int]], encoding: int) -> frozenset[NodeId]:
    """Return the peers that can be compared with a replica of `encoding` here. They are of those
    that have said the version of their scrub and their encoding."""
    wanted = (CONTENT_VERSION, encoding)
    return frozenset(node for node, version in said.items() if version == wanted)
