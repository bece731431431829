"""What of a snapshot that was broken off may stay, and that two are never mixed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.write_set import WriteSet
from svc_cluster.replica import snapshot_pieces, snapshot_stream
from svc_cluster.replica.snapshot import KEPT_SECONDS
from svc_cluster.replica.snapshot_pieces import OFFERED_MAX, ReceivedPieces
from svc_cluster.storage.state_store import StoreStalledError
from tests.unit.replica.snapshot_ends import Ends, View

PAIRS_MAX = 3


@pytest.fixture(autouse=True)
def small_chunks() -> Iterator[None]:
    """Three pairs make a chunk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_stream, "CHUNK_PAIRS_MAX", PAIRS_MAX)
        yield


def view_of(count: int, first: bytes = b"old") -> dict[bytes, bytes]:
    """Many rows, the first of which is another one in each state."""
    return {b"0": first} | {b"1 %03d" % number: b"value" for number in range(count)}


KEYS = st.binary(min_size=1, max_size=2)
VIEWS = st.dictionaries(KEYS, st.sampled_from((b"a", b"b")), max_size=40)


@given(
    transfers=st.lists(st.tuples(VIEWS, st.integers(0, 12), st.booleans()), max_size=6), last=VIEWS
)
def test_whatever_was_broken_off_before_what_is_installed_is_the_last_senders_view(
    transfers: list[tuple[View, int, bool]], last: View
) -> None:
    """Of any states, by senders of this release and of those before, each until any chunk."""

    async def main() -> None:
        ends = Ends()
        for index, (view, lost_at, by_pieces) in enumerate(transfers):
            await ends.send(view, index, lost_at=lost_at, by_pieces=by_pieces)
        before = len(ends.installed)
        assert await ends.send(last, 99)
        assert len(ends.installed) == before + 1
        log_index, generation = ends.installed[-1]
        assert log_index == 99
        assert ends.rows(generation) == last

    asyncio.run(main())


def test_the_next_sender_goes_on_behind_what_was_taken() -> None:
    """At each chunk: of a state that has the same rows but one, the chunk with that row comes
    again, and the rest; nothing else."""

    async def main(lost_at: int) -> None:
        ends = Ends()
        assert not await ends.send(view_of(59), 1, lost_at=lost_at)
        taken = ends.sent_keys
        assert await ends.send(view_of(59, b"new"), 2)
        assert ends.installed == [(2, 1)]
        assert ends.rows(1) == view_of(59, b"new")
        assert set(taken) & set(ends.sent_keys) <= {b"0", b"1 000", b"1 001"}
        assert len(taken) + len(ends.sent_keys) <= 60 + PAIRS_MAX
        assert ends.discarded == []

    for lost_at in range(2, 20):
        asyncio.run(main(lost_at))


def test_more_pieces_than_an_answer_tells_of_are_kept_all_the_same() -> None:
    """The sender asks for the next ones."""

    async def main() -> None:
        ends = Ends()
        whole = view_of(PAIRS_MAX * (2 * OFFERED_MAX + 5))
        assert not await ends.send(whole, 1, lost_at=2 * OFFERED_MAX + 4)
        taken = len(ends.sent_keys)
        assert await ends.send(whole, 1)
        assert len(ends.sent_keys) == len(whole) - taken
        assert ends.rows(1) == whole

    asyncio.run(main())


def test_what_a_sender_of_before_has_brought_is_told_to_nobody() -> None:
    """Nor does such a sender go on with anything: both begin with nothing."""

    async def main() -> None:
        for first, second in ((False, True), (True, False), (False, False)):
            ends = Ends()
            assert not await ends.send(view_of(20), 1, lost_at=4, by_pieces=first)
            assert await ends.send(view_of(20), 1, by_pieces=second)
            assert len(ends.sent_keys) == 21
            assert ends.discarded == [1]
            assert ends.installed == [(1, 2)]

    asyncio.run(main())


def test_a_piece_that_was_half_written_is_not_kept() -> None:
    """The store stalls at it; another transfer begins meanwhile."""

    async def main() -> None:
        ends = Ends()
        assert not await ends.send(view_of(8), 1, lost_at=2)
        write = ends.store.write
        stalled = asyncio.Event()

        def stalling(write_set: WriteSet) -> None:
            stalled.set()
            raise StoreStalledError("planted")

        ends.store.write = stalling  # type: ignore[method-assign]
        chunk = pb.SnapshotChunk(keys=[b"1 002"], values=[b"other"], until=b"1 004")
        waiting = asyncio.ensure_future(ends.give(chunk, 2))
        await stalled.wait()
        ends.store.write = write  # type: ignore[method-assign]
        assert await ends.send(view_of(8), 2)
        assert not (await waiting).accepted
        assert ends.rows(1) == view_of(8)
        assert ends.installed == [(2, 1)]

    asyncio.run(main())


def test_a_second_chunk_while_one_is_being_taken_is_refused() -> None:
    """Its sender does not wait for answers: what it deletes first may just have been written."""

    async def main() -> None:
        ends = Ends()
        ends.begin()
        assert (await ends.give(pb.SnapshotChunk(pieces=True), 0)).accepted
        write = ends.store.write
        stalled = asyncio.Event()

        def stalling(write_set: WriteSet) -> None:
            stalled.set()
            raise StoreStalledError("planted")

        ends.store.write = stalling  # type: ignore[method-assign]
        waiting = asyncio.ensure_future(
            ends.give(pb.SnapshotChunk(keys=[b"a"], values=[b""], until=b"a"), 1)
        )
        await stalled.wait()
        ends.store.write = write  # type: ignore[method-assign]
        chunk = pb.SnapshotChunk(keys=[b"b"], values=[b""], until=b"b")
        assert not (await ends.give(chunk, 2)).accepted
        assert (await waiting).accepted
        assert (await ends.give(chunk, 2)).accepted
        assert ends.rows(1) == {b"a": b"", b"b": b""}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (pb.SnapshotChunk(kept=2), "not told of"),
        (pb.SnapshotChunk(kept=2**63), "not told of"),
        (pb.SnapshotChunk(keys=[b"b", b"a"], values=[b"", b""], until=b"c"), "not those"),
        (pb.SnapshotChunk(keys=[b"a", b"a"], values=[b"", b""], until=b"c"), "not those"),
        (pb.SnapshotChunk(keys=[b"d"], values=[b""], until=b"c"), "not those"),
        (pb.SnapshotChunk(keys=[b"0"], values=[b""], until=b"c", kept=1), "not those"),
        (pb.SnapshotChunk(until=b"0", kept=1), "not those"),
        (pb.SnapshotChunk(keys=[b"a"], values=[b""]), "no piece"),
        (pb.SnapshotChunk(keys=[b"a"], values=[b""], last=True), "no piece"),
        (pb.SnapshotChunk(until=b"a", last=True), "no piece"),
        (pb.SnapshotChunk(kept=1, last=True, pairs=3, proof=b"another's"), "damaged"),
        (pb.SnapshotChunk(kept=1, last=True, pairs=2), "damaged"),
    ],
)
def test_what_does_not_fit_is_refused_and_writes_nothing(
    chunk: pb.SnapshotChunk, reason: str
) -> None:
    """Behind one piece of three pairs. A whole that has another proof is thrown away."""

    async def main() -> None:
        ends = Ends()
        assert not await ends.send(view_of(8), 1, lost_at=2)
        before = ends.rows(1)
        ends.begin()
        told = await ends.give(pb.SnapshotChunk(pieces=True), 0)
        assert [piece.last_key for piece in told.pieces] == [b"1 001"]
        refused = await ends.give(chunk, 1)
        assert not refused.accepted
        assert reason in refused.reason
        assert ends.rows(1) == before
        assert ends.installed == []
        assert bool(ends.discarded) is (reason == "damaged")

    asyncio.run(main())


def test_a_leader_that_was_deposed_during_the_last_flush_leaves_its_pieces_to_the_next() -> None:
    """Everything has arrived by then: nothing of it is sent again."""

    async def main() -> None:
        ends = Ends()
        flush = ends.store.flush

        def deposed(done: object) -> None:
            ends.refused_leader = True
            flush(done)  # type: ignore[arg-type]

        ends.store.flush = deposed  # type: ignore[method-assign]
        assert not await ends.send(view_of(20), 1)
        ends.refused_leader = False
        ends.store.flush = flush  # type: ignore[method-assign]
        assert await ends.send(view_of(20), 1)
        assert ends.sent_keys == []
        assert ends.rows(1) == view_of(20)

    asyncio.run(main())


def test_what_nobody_goes_on_with_is_deleted() -> None:
    """Behind KEPT_SECONDS of silence."""

    async def main() -> None:
        ends = Ends()
        now = asyncio.get_running_loop().time()
        assert not await ends.send(view_of(20), 1, lost_at=4)
        ends.receiver.sweep(now + KEPT_SECONDS - 60)
        assert ends.receiver.running == 1
        ends.receiver.sweep(now + KEPT_SECONDS + 60)
        assert ends.receiver.running == 0
        assert ends.discarded == [1]

    asyncio.run(main())


def taken(pieces: ReceivedPieces, until: bytes) -> None:
    pieces.replace(until)
    pieces.written(until, b"digest of " + until, 1)


def test_a_piece_that_loses_its_first_rows_is_not_trusted_any_more() -> None:
    """It ends where it did, so that the sender looks at what is left of it as one."""
    pieces = ReceivedPieces()
    for until in (b"c", b"f", b"i"):
        taken(pieces, until)
    pieces.begin()
    assert pieces.keep(1) == 1
    assert pieces.replace(b"d") == (b"c\0", b"d\0")
    pieces.written(b"d", b"new", 1)
    assert [(piece.last_key, piece.digest) for piece in pieces.offered()] == [
        (b"f", b""),
        (b"i", b"digest of i"),
    ]
    assert pieces.keep(1) is None
    assert pieces.replace(b"f") == (b"d\0", b"f\0")
    pieces.written(b"f", b"new", 1)
    assert pieces.keep(1) == 1
    assert pieces.replace(None) is None, "nothing lies behind"


def test_so_many_pieces_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind them is not told of, and deleted before it is written again."""
    monkeypatch.setattr(snapshot_pieces, "PIECES_MAX", 2)
    pieces = ReceivedPieces()
    for until in (b"a", b"b", b"c", b"d"):
        taken(pieces, until)
    whole = pieces.proof
    pieces.begin()
    assert [piece.last_key for piece in pieces.offered()] == [b"a", b"b"]
    assert pieces.keep(2) == 2
    assert pieces.replace(b"c") == (b"b\0", b"c\0")
    pieces.written(b"c", b"digest of c", 1)
    assert pieces.replace(b"d") == (b"c\0", b"d\0")
    pieces.written(b"d", b"digest of d", 1)
    assert pieces.proof == whole
