"""Requests that a client may repeat: decided once, answered alike, kept for a day, bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from svc_cluster.base.errors import (
    AlreadyExistsError,
    BasinDeletionPendingError,
    FencingTokenMismatchError,
    InvalidError,
    RateLimitedError,
    SeqNumMismatchError,
    ServiceError,
    StreamDeletionPendingError,
    StreamNotFoundError,
    TransactionConflictError,
)
from svc_cluster.base.ids import LogIndex, TimestampMs
from svc_cluster.model.idempotency_table import (
    IDEMPOTENCY_KEYS_KEPT_MS,
    IdempotencyRow,
    is_final_refusal,
)
from svc_cluster.model.record import StoredBatch
from svc_cluster.stream.apply import Applied
from svc_cluster.stream.commands import ExpireIdempotencyKeys, IdempotentWrite, Write
from svc_cluster.stream.effects import RejectionReason
from svc_cluster.stream.sequencer import IdempotentAnswer, Sequencer
from tests.unit.stream.support import NOW, Leader, Replica, append_command, batch, reasons

KEY = b"k" * 32
OTHER = b"o" * 32
KINDS = (5, 6, 7)
MS = TimestampMs


def answer(command: Write | None) -> bytes:
    return f"done {type(command).__name__}".encode()


def refusal(error: ServiceError) -> bytes:
    return f"refused {error.message}".encode()


class Repeating(Leader):
    """A leader with a stream, and writes that may be repeated."""

    def __init__(self, idempotency_keys_max: int = 1000) -> None:
        super().__init__()
        self.sequencer = Sequencer(self.state, idempotency_keys_max=idempotency_keys_max)
        self.create("s")

    def once(
        self, key: bytes, write: Callable[[TimestampMs], Write | None], now_ms: int = NOW
    ) -> IdempotentAnswer:
        return self.sequencer.sequence_idempotent(key, write, answer, refusal, MS(now_ms))

    def append_idempotent(
        self,
        key: bytes = KEY,
        given: StoredBatch | None = None,
        match: int | None = None,
        token: str | None = None,
        now_ms: int = NOW,
    ) -> IdempotentAnswer:
        write = partial(self.sequencer.append, "s", given or batch(), match, token)
        return self.once(key, write, now_ms)

    def elect(self) -> None:
        """Another leader: what was in flight is gone, and nothing is remembered but the state."""
        self.sequencer = Sequencer(self.state)


def test_a_repetition_gets_the_first_answer_and_does_nothing() -> None:
    """Applied, and from a state read anew: by the same leader, and by the next one."""
    leader = Repeating()
    first = leader.append_idempotent()
    assert isinstance(first.command, IdempotentWrite)
    leader.run(first.command)
    for _ in range(2):
        assert leader.append_idempotent() == IdempotentAnswer(first.answer, None)
        assert not leader.sequencer._touched_at
        leader.restart()
        leader.elect()
    assert leader.stream("s").tail_seq_num == 1


def test_a_repetition_waits_for_a_first_attempt_that_is_in_flight() -> None:
    """Nothing is handed out for it; when the leader loses its place, neither of them happened."""
    leader = Repeating()
    first = leader.append_idempotent()
    assert first.command is not None
    assert leader.append_idempotent() == IdempotentAnswer(first.answer, None)
    leader.sequencer.proposed(LogIndex(leader.state.applied_index + 1))
    assert leader.append_idempotent().command is None
    leader.sequencer.reset()
    assert leader.append_idempotent().command is not None


def test_another_key_is_another_request() -> None:
    """Both take their places."""
    leader = Repeating()
    leader.run(leader.append_idempotent(KEY).command, leader.append_idempotent(OTHER).command)
    assert leader.stream("s").tail_seq_num == 2


def test_a_definite_refusal_is_an_outcome() -> None:
    """Kept in an entry of its own, and given again when it would not be refused any more."""
    leader = Repeating()
    refused = leader.append_idempotent(match=1)
    assert refused.command == IdempotentWrite(KEY, NOW, refused.answer)
    leader.run(refused.command)
    leader.append("s")
    assert leader.append_idempotent(match=1) == IdempotentAnswer(refused.answer, None)
    assert leader.stream("s").tail_seq_num == 1


def test_what_had_to_change_nothing_is_an_outcome_too() -> None:
    """A stream that is being deleted already is deleted once more."""
    leader = Repeating()
    leader.run(leader.sequencer.delete_stream("s", NOW))
    done = leader.once(KEY, partial(leader.sequencer.delete_stream, "s"))
    assert done == IdempotentAnswer(b"done NoneType", IdempotentWrite(KEY, NOW, b"done NoneType"))
    assert leader.run(done.command).outcomes == [Applied()]


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (SeqNumMismatchError(1), True),
        (FencingTokenMismatchError("t"), True),
        (AlreadyExistsError(), True),
        (StreamDeletionPendingError(), True),
        (BasinDeletionPendingError(), True),
        (TransactionConflictError(), False),
        (StreamNotFoundError(), False),
        (InvalidError(), False),
        (RateLimitedError(), False),
    ],
)
def test_which_refusals_are_kept(error: ServiceError, kept: bool) -> None:
    """The definite ones of the log: not what asks to try again, nor what is worked out anew."""
    assert is_final_refusal(error) is kept
    error.may_have_taken_effect = True
    assert not is_final_refusal(error)


def test_what_is_no_outcome_leaves_no_trace() -> None:
    """The request is decided anew when it comes again."""
    leader = Repeating()
    with pytest.raises(StreamNotFoundError):
        leader.once(KEY, partial(leader.sequencer.append, "t", batch(), None, None))
    assert not leader.sequencer._touched_at
    assert leader.append_idempotent().command is not None


def test_a_sealed_basin_repeats_answers_and_takes_nothing_new() -> None:
    """Nothing can be kept in a log that is closed."""
    leader = Repeating()
    first = leader.append_idempotent()
    leader.run(first.command)
    leader.run(leader.sequencer.seal(NOW))
    assert leader.append_idempotent() == IdempotentAnswer(first.answer, None)
    with pytest.raises(BasinDeletionPendingError):
        leader.append_idempotent(OTHER)
    assert leader.sequencer.expire_idempotency_keys(NOW) is None


def test_apply_rejects_a_second_write_with_one_key() -> None:
    """Whatever a leader promised: in one entry, in two, and with another write."""
    leader = Repeating()
    keyed = IdempotentWrite(KEY, NOW, b"a", append_command())
    assert reasons(leader.apply([keyed, keyed])) == [None, RejectionReason.ANSWERED_BEFORE]
    assert reasons(leader.apply([IdempotentWrite(KEY, NOW, b"b")])) == [
        RejectionReason.ANSWERED_BEFORE
    ]
    assert leader.state.idempotency_row(KEY) == IdempotencyRow(NOW, b"a")
    assert leader.stream("s").tail_seq_num == 1


def test_a_write_that_apply_rejects_leaves_no_answer() -> None:
    """Both or neither."""
    leader = Repeating()
    planned = leader.apply([IdempotentWrite(KEY, NOW, b"a", append_command(stream_id=9))])
    assert reasons(planned) == [RejectionReason.NO_SUCH_STREAM]
    assert leader.state.idempotency_row(KEY) is None
    assert leader.state.idempotency.count == 0


def test_before_a_basin_begins_there_are_no_outcomes() -> None:
    """Nor is there anything to forget."""
    planned = Replica().apply([IdempotentWrite(KEY, NOW, b"a"), ExpireIdempotencyKeys(NOW, 9)])
    assert reasons(planned) == [RejectionReason.NOT_BOOTSTRAPPED] * 2


def keys_left(leader: Repeating, count: int) -> list[int]:
    return [n for n in range(count) if leader.state.idempotency_row(bytes([n]) * 32) is not None]


def test_the_oldest_are_forgotten_so_many_at_a_time() -> None:
    """Those decided before the time given, exclusive; two commands of an entry go on from each
    other; the count is kept over a restart."""
    leader = Repeating()
    for n in range(6):
        leader.run(leader.append_idempotent(bytes([n]) * 32, now_ms=NOW + n).command)
    assert leader.state.idempotency.oldest_ms() == NOW
    leader.apply([ExpireIdempotencyKeys(MS(NOW + 5), 2), ExpireIdempotencyKeys(MS(NOW + 5), 1)])
    assert keys_left(leader, 6) == [3, 4, 5]
    leader.restart()
    assert leader.state.idempotency.count == 3
    leader.apply([ExpireIdempotencyKeys(MS(NOW + 5), 100)])
    assert keys_left(leader, 6) == [5]
    assert leader.state.idempotency.oldest_ms() == NOW + 5
    leader.apply([ExpireIdempotencyKeys(MS(NOW + 6), 100)])
    assert leader.state.idempotency.oldest_ms() is None
    assert leader.state.idempotency.count == 0
    assert not [key for key in leader.store.values if key[0] in (5, 6)]


def test_a_key_may_be_used_again_in_the_entry_that_forgets_it() -> None:
    """The new outcome stays."""
    leader = Repeating()
    leader.run(leader.append_idempotent().command)
    again = IdempotentWrite(KEY, MS(NOW + 9), b"again")
    assert reasons(leader.apply([ExpireIdempotencyKeys(MS(NOW + 1), 9), again])) == [None, None]
    leader.restart()
    assert leader.state.idempotency_row(KEY) == IdempotencyRow(NOW + 9, b"again")
    assert leader.state.idempotency.oldest_ms() == NOW + 9
    assert leader.state.idempotency.count == 1


def test_a_full_basin_refuses_new_keys_and_forgets_nothing_early() -> None:
    """What is in flight counts; known keys are answered; the wait is until the oldest is over;
    requests without a key go on."""
    leader = Repeating(idempotency_keys_max=2)
    leader.run(leader.append_idempotent(KEY).command)
    leader.append_idempotent(OTHER, now_ms=NOW + 5)
    with pytest.raises(RateLimitedError) as full:
        leader.append_idempotent(b"x" * 32, now_ms=NOW + 10)
    assert full.value.retry_after_ms == IDEMPOTENCY_KEYS_KEPT_MS - 10
    assert leader.append_idempotent(KEY).command is None
    assert leader.append_idempotent(OTHER).command is None
    assert leader.sequencer.append("s", batch(), None, None, NOW) is not None


def test_room_is_made_by_forgetting() -> None:
    """The same request succeeds behind the entry that forgets the oldest."""
    leader = Repeating(idempotency_keys_max=1)
    leader.run(leader.append_idempotent(KEY).command)
    later = NOW + IDEMPOTENCY_KEYS_KEPT_MS + 1
    with pytest.raises(RateLimitedError) as full:
        leader.append_idempotent(OTHER, now_ms=later)
    assert full.value.retry_after_ms == 1000
    leader.run(leader.sequencer.expire_idempotency_keys(MS(NOW + 1)))
    assert leader.append_idempotent(OTHER, now_ms=later).command is not None


def test_an_outcome_survives_its_stream() -> None:
    """A deleted and purged stream, and a new one of the name: the record says what happened."""
    leader = Repeating()
    first = leader.append_idempotent()
    leader.run(first.command)
    stream_id = leader.stream("s").stream_id
    leader.run(leader.sequencer.delete_stream("s", NOW))
    leader.run(leader.sequencer.purge(stream_id, NOW))
    leader.create("s")
    assert leader.append_idempotent() == IdempotentAnswer(first.answer, None)
    assert leader.stream("s").tail_seq_num == 0


def test_replicas_agree_on_every_byte() -> None:
    """The digest is over the rows of outcomes too: another answer is another state."""
    leader, follower, liar = Repeating(), Repeating(), Repeating()
    keyed = leader.append_idempotent().command
    assert keyed is not None
    for entry in ([keyed], [ExpireIdempotencyKeys(MS(NOW + 1), 9)]):
        leader.apply(list(entry))
        follower.apply(list(entry))
        assert leader.state.digest == follower.state.digest
    liar.apply([IdempotentWrite(keyed.key, keyed.decided_at_ms, b"another", keyed.write)])
    liar.apply([ExpireIdempotencyKeys(MS(NOW + 1), 9)])
    assert liar.state.digest != leader.state.digest


def test_bytes_of_a_row_are_fixed() -> None:
    """States outlive programs: by key, by time, and the count."""
    leader = Repeating()
    leader.apply([IdempotentWrite(bytes(range(32)), MS(1_700_000_000_000), b"answer")])
    rows = {key.hex(): value.hex() for key, value in leader.store.values.items() if key[0] in KINDS}
    key = bytes(range(32)).hex()
    assert rows == {
        f"05{key}": "92cf0000018bcfe56800c406616e73776572",
        f"060000018bcfe56800{key}": "",
        "07": "0000000000000001",
    }


def test_what_is_gone_is_not_looked_through_again() -> None:
    """The store may still hold the place of what was removed: looking for the oldest begins behind
    it; an outcome that a slower clock stamped is found all the same."""
    leader = Repeating()
    for n in range(4):
        leader.run(leader.append_idempotent(bytes([n]) * 32, now_ms=NOW + 10 * n).command)
    leader.apply([ExpireIdempotencyKeys(MS(NOW + 15), 9)])
    starts: list[bytes] = []
    scan = leader.store.scan

    def noted(start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        starts.append(start)
        return scan(start, end, reverse=reverse)

    leader.store.scan = noted  # type: ignore[method-assign]
    assert leader.state.idempotency.oldest_ms() == NOW + 20
    assert int.from_bytes(starts[0][1:9], "big") == NOW + 10
    leader.run(leader.append_idempotent(OTHER, now_ms=NOW + 2).command)
    assert leader.state.idempotency.oldest_ms() == NOW + 2
    assert leader.state.idempotency.before(NOW + 2, 9) == []
    assert leader.state.idempotency.before(NOW + 3, 9) == [(NOW + 2, OTHER)]
