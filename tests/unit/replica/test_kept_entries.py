"""The leader applies what it has encoded itself without decoding it, and nobody else's entries."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from svc_cluster.base.ids import LogIndex, Term, TimestampMs
from svc_cluster.codec.entry_version import BASIN_KINDS
from svc_cluster.codec.log_entry import comes_back, decode_steps
from svc_cluster.model.idempotency_table import REQUEST_KEY_BYTES
from svc_cluster.raft.group import Role
from svc_cluster.replica import machine
from svc_cluster.replica.basin import ENTRIES_IN_FLIGHT_MAX
from svc_cluster.replica.kept_entries import KeptEntries
from svc_cluster.stream.commands import BasinCommand, DeleteStream, IdempotentWrite, Seal
from tests.at_once import decode_entry, encode_entry
from tests.unit.codec.test_log_entry import PLAIN_APPEND
from tests.unit.replica.leading import FAR, STREAM, Rig, played
from tests.unit.stream.support import batch


def _even(number: int) -> bool:
    return number % 2 == 0


def _at(index: int) -> LogIndex:
    return LogIndex(index)


def test_an_entry_is_taken_once_by_its_place_and_term() -> None:
    kept = KeptEntries[int](_even, 4)
    kept.keep(_at(5), Term(2), [2, 4])
    kept.keep(_at(6), Term(2), [6])
    assert kept.take(_at(4), Term(2)) is None
    assert kept.take(_at(5), Term(2)) == [2, 4]
    assert kept.take(_at(5), Term(2)) is None
    assert len(kept) == 1


@pytest.mark.parametrize("term", [1, 3])
def test_another_terms_entry_at_the_place_is_never_taken_for_it(term: int) -> None:
    """Nor is what was kept there any longer, whatever comes."""
    kept = KeptEntries[int](_even, 4)
    kept.keep(_at(5), Term(2), [2])
    assert kept.take(_at(5), Term(term)) is None
    assert kept.take(_at(5), Term(2)) is None
    assert len(kept) == 0


def test_an_entry_with_one_command_that_does_not_come_back_is_not_kept() -> None:
    kept = KeptEntries[int](_even, 4)
    kept.keep(_at(5), Term(2), [2, 3])
    assert kept.take(_at(5), Term(2)) is None


def test_no_more_entries_are_kept_than_may_be() -> None:
    """The oldest stay: they are applied first."""
    kept = KeptEntries[int](_even, 2)
    for index in range(1, 5):
        kept.keep(_at(index), Term(1), [index * 2])
    assert len(kept) == 2
    assert [kept.take(_at(index), Term(1)) for index in range(1, 5)] == [[2], [4], None, None]


def test_what_is_cleared_is_gone() -> None:
    kept = KeptEntries[int](_even, 2)
    kept.keep(_at(1), Term(1), [2])
    kept.clear()
    assert len(kept) == 0
    assert kept.take(_at(1), Term(1)) is None


class Decoded:
    """The real decoding, and what came to it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.payloads: list[bytes] = []
        patch.setattr(machine, "decode_steps", self._decode)

    def _decode(
        self, payload: bytes, known: frozenset[str]
    ) -> Generator[int, None, list[BasinCommand]]:
        self.payloads.append(payload)
        return decode_steps(payload, known)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    return Decoded(monkeypatch)


def test_the_leader_decodes_nothing_that_it_has_encoded(decoded: Decoded) -> None:
    """And its clients, its state and a follower that decodes say the same of it."""

    async def body(rig: Rig) -> None:
        decoded.payloads.clear()
        answers = [rig.submit(), rig.submit()]
        await rig.settle()
        assert len(rig.replica.kept) == 1
        await rig.answer()
        await rig.answer()
        assert [[ack and ack.start.seq_num for ack, _ in one] for one in answers] == [[0], [1]]
        assert decoded.payloads == []
        assert len(rig.replica.kept) == 0
        stream = rig.replica.state.stream_by_name(STREAM)
        assert stream is not None
        assert stream.tail_seq_num == 2

    played(body)


def test_other_commands_are_decoded_by_the_leader_too(decoded: Decoded) -> None:
    async def body(rig: Rig) -> None:
        decoded.payloads.clear()
        told: list[object] = []
        rig.replica.appender.change(
            lambda now_ms: rig.replica.sequencer.delete_stream(STREAM, now_ms),
            FAR,
            lambda outcome, error: told.append(error),
        )
        await rig.settle()
        assert len(rig.replica.kept) == 0
        await rig.answer()
        await rig.answer()
        assert told == [None]
        (payload,) = decoded.payloads
        assert isinstance(decode_entry(payload)[0], DeleteStream)

    played(body)


def _another(rig: Rig) -> bytes:
    """An append of another leader, of another size, where the rig's own is."""
    stream = rig.replica.state.stream_by_name(STREAM)
    assert stream is not None
    now_ms = TimestampMs(stream.last_timestamp_ms)
    command = rig.replica.sequencer.append(STREAM, batch(3), None, None, now_ms)
    rig.replica.sequencer.reset()
    return encode_entry([command])


@pytest.mark.parametrize("forgets", [True, False])
def test_an_overwritten_place_applies_what_stands_there(
    forgets: bool, decoded: Decoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append of one record is replaced by another leader's of three. That is what the state
    has, even if what was kept were not forgotten with the leadership: the term tells it."""
    if not forgets:
        monkeypatch.setattr(KeptEntries, "clear", lambda kept: None)

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        theirs = _another(rig)
        await rig.append()
        assert len(rig.replica.kept) == 1
        decoded.payloads.clear()
        await rig.follow(2, theirs, behind=before, commit_index=before + 1)
        assert rig.group.engine.role is Role.FOLLOWER
        assert decoded.payloads == [theirs]
        assert rig.replica.state.applied_index == before + 1
        stream = rig.replica.state.stream_by_name(STREAM)
        assert stream is not None
        assert stream.tail_seq_num == 3

    played(body)


def test_what_is_kept_ends_with_the_leadership() -> None:
    """At once, not when somebody's entry takes the place."""

    async def body(rig: Rig) -> None:
        before = rig.group.engine.last_index
        await rig.append()
        assert len(rig.replica.kept) == 1
        await rig.follow(2, behind=before, commit_index=before)
        assert len(rig.replica.kept) == 0

    played(body)


def test_what_is_kept_ends_with_the_replica() -> None:
    async def body(rig: Rig) -> None:
        await rig.append()
        rig.replica.stop()
        assert len(rig.replica.kept) == 0

    played(body)


def test_no_more_is_kept_than_entries_may_be_in_flight(decoded: Decoded) -> None:
    """Entries whose clients have given up are on their way still, beside the new ones."""

    async def body(rig: Rig) -> None:
        for _ in range(ENTRIES_IN_FLIGHT_MAX + 2):
            await rig.append(deadline=1e9)
            rig.group.sweep(1e9 + 1)
        assert len(rig.replica.kept) == ENTRIES_IN_FLIGHT_MAX
        decoded.payloads.clear()
        await rig.answer()
        await rig.answer()
        stream = rig.replica.state.stream_by_name(STREAM)
        assert stream is not None
        assert stream.tail_seq_num == ENTRIES_IN_FLIGHT_MAX + 2
        assert len(decoded.payloads) == 2

    played(body)


KEYED = IdempotentWrite(bytes(REQUEST_KEY_BYTES), TimestampMs(1), b"", PLAIN_APPEND)


@pytest.mark.parametrize(
    ("command", "known", "expected"),
    [
        (PLAIN_APPEND, BASIN_KINDS, True),
        (PLAIN_APPEND, BASIN_KINDS - {"append"}, False),
        (KEYED, BASIN_KINDS, True),
        (KEYED, BASIN_KINDS - {"keyed_write"}, False),
        (KEYED, BASIN_KINDS - {"append"}, False),
        (replace(KEYED, key=b"short"), BASIN_KINDS, False),
        (replace(KEYED, write=None), BASIN_KINDS, False),
        (Seal(TimestampMs(1)), BASIN_KINDS, False),
    ],
)
def test_what_others_would_refuse_does_not_come_back(
    command: BasinCommand, known: frozenset[str], expected: bool
) -> None:
    """An entry that no release takes is rejected by all; one of a kind that this release does not
    know parks it, though it is its own."""
    assert comes_back(command, known) is expected
