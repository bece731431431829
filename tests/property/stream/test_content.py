"""Digests of what a basin holds: equal content, equal digests, in whatever form and whatever led
there; any other content is seen in the chunk that it lies in."""

from __future__ import annotations

import random

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import SeqNum, StreamId, TimestampMs
from svc_cluster.base.write_set import WriteSet
from svc_cluster.model.content import Chunk, ChunkBuilder
from svc_cluster.model.idempotency_table import IdempotencyRow
from svc_cluster.model.record import Position
from svc_cluster.stream import keys, rows
from svc_cluster.stream.basin_content import BasinContent
from svc_cluster.stream.batch_row import HEADER_BYTES
from tests.at_once import whole
from tests.unit.stream.support import NOW, Leader, MemoryStore, batch, trim

CONTENT = BasinContent()
NAMES = ("a", "b/c", "z" * 300)
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["append", "append", "append", "trim"])),
    min_size=1,
    max_size=25,
)
SEEDS = st.integers(0, 2**32)


def basin(steps: list[tuple[str, str]], seed: int) -> MemoryStore:
    """What a replica has stored behind these steps."""
    leader, rng = Leader(), random.Random(seed)
    for name in NAMES:
        leader.create(name)
    for name, what in steps:
        if what == "append":
            count = rng.randint(1, 5)
            body = rng.randbytes(rng.choice((1, 50, 2_000)))
            leader.append(name, batch(count, records=body), now_ms=NOW + rng.randint(0, 90_000))
        else:
            point = rng.randint(0, leader.stream(name).tail_seq_num)
            leader.append(name, batch(1, commands=(trim(point),)))
    leader.run(leader.sequencer.delete_stream(NAMES[-1], NOW))
    if rng.random() < 0.5:
        leader.run(leader.sequencer.purge(StreamId(len(NAMES)), NOW))
    write_set = WriteSet()
    leader.state.idempotency.write(write_set, {b"k" * 32: IdempotencyRow(5, b"answer")}, [])
    leader.store.write(write_set)
    return leader.store


def copied(store: MemoryStore) -> MemoryStore:
    other = MemoryStore()
    write_set = WriteSet()
    for key, value in store.values.items():
        write_set.put(key, value)
    other.write(write_set)
    return other


def chunk_behind(store: MemoryStore, after: bytes, cost_max: int) -> Chunk:
    builder = ChunkBuilder(cost_max)
    for visit in CONTENT.visits(store, after):
        if builder.add(visit):
            return builder.full()
    return builder.last()


def chunks(store: MemoryStore, cost_max: int, ends: list[bytes] | None = None) -> list[Chunk]:
    """One round, which goes on where this store's chunks end, or where `ends` says."""
    found, after = [], b""
    while True:
        chunk = chunk_behind(store, after, cost_max)
        found.append(chunk)
        after = chunk.end if ends is None else ends[len(found) - 1]
        if not after:
            return found


def content_keys(store: MemoryStore) -> list[bytes]:
    return [visit.row.key for visit in CONTENT.visits(store, b"") if visit.row is not None]


@given(STEPS, SEEDS, st.integers(1, 5_000))
@settings(max_examples=60, deadline=None)
def test_a_round_in_chunks_sees_every_row_once(
    steps: list[tuple[str, str]], seed: int, cost_max: int
) -> None:
    """However long the chunks are; none has a flaw; and a second replica has the same chunks."""
    store = basin(steps, seed)
    found = chunks(store, cost_max)
    assert (
        sum(chunk.rows for chunk in found) == len(content_keys(store)) == whole(CONTENT, store).rows
    )
    assert [chunk.flaw for chunk in found] == [""] * len(found)
    assert found == chunks(copied(store), cost_max)
    # a chunk ends with the row that fills it, so it is not longer than that and one row more
    assert len(found) >= sum(len(key) for key in content_keys(store)) // (cost_max + 2_500)


@given(STEPS, SEEDS, st.integers(1, 5_000), SEEDS)
@settings(max_examples=150, deadline=None)
def test_any_change_of_the_content_is_seen_in_one_round(
    steps: list[tuple[str, str]], seed: int, cost_max: int, harm_seed: int
) -> None:
    """Rows are gone, one at a time or a range; two values are exchanged; a byte is another; a row
    is there that is nobody's. Some chunk of the round that the others go by differs."""
    store, rng = basin(steps, seed), random.Random(harm_seed)
    odd, there = copied(store), content_keys(store)
    write_set, harm = WriteSet(), rng.choice(["row", "range", "swap", "byte", "added"])
    place = rng.randrange(len(there))
    if harm == "row":
        write_set.delete(there[place])
    elif harm == "range":
        write_set.delete_range(there[place], rng.choice([*there[place + 1 :], b"\xff"]))
    elif harm == "swap":
        other = rng.choice([key for key in there if key[0] == there[place][0]])
        assume(store.values[other] != store.values[there[place]])
        write_set.put(other, store.values[there[place]])
        write_set.put(there[place], store.values[other])
    elif harm == "byte":
        batches = [key for key in there if key[0] == 4]
        assume(batches)
        place = there.index(rng.choice(batches))
        value = bytearray(store.values[there[place]])
        at = rng.randrange(HEADER_BYTES, len(value))  # of the records: not every bit ahead counts
        value[at] ^= 1 << rng.randrange(8)
        write_set.put(there[place], bytes(value))
    else:
        write_set.put(there[place] + b"\0", b"\x90")
    odd.write(write_set)
    wanted = chunks(store, cost_max)
    seen = chunks(odd, cost_max, [chunk.end for chunk in wanted])
    assert [one.identity for one in seen] != [one.identity for one in wanted]


@given(STEPS, SEEDS, st.integers(1, 5_000))
@settings(max_examples=40, deadline=None)
def test_what_is_not_purged_yet_is_no_difference(
    steps: list[tuple[str, str]], seed: int, cost_max: int
) -> None:
    """Batches wholly below the trim point and those of streams that are gone may go when their
    replica likes: the chunks end at the same rows, and none has a flaw."""
    store = basin(steps, seed)
    lazy = copied(store)
    write_set = WriteSet()
    for key, value in store.scan(*keys.streams_range()):
        stream = rows.decode_stream(keys.stream_of(key), value)
        for below in range(max(stream.trim_point - 3, 0), stream.trim_point):
            write_set.put(keys.batch_key(stream.stream_id, below), b"what was there")
    for number in range(3):
        write_set.put(keys.batch_key(StreamId(99), number), b"another stream's")
    lazy.write(write_set)
    assert chunks(lazy, cost_max) == chunks(store, cost_max)


@given(STEPS, SEEDS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_missing_records_are_a_flaw_that_the_replica_sees_alone(
    steps: list[tuple[str, str]], seed: int, harm_seed: int
) -> None:
    """A stream of which something is left must reach from its trim point to its tail."""
    store, rng = basin(steps, seed), random.Random(harm_seed)
    batches: dict[StreamId, list[bytes]] = {}
    for key in content_keys(store):
        if key[0] == 4:
            batches.setdefault(keys.batch_key_parts(key)[0], []).append(key)
    several = [found for found in batches.values() if len(found) > 1]
    assume(several)
    write_set = WriteSet()
    write_set.delete(rng.choice(rng.choice(several)))
    store.write(write_set)
    for cost_max in (1, 700, 10**9):
        flaws = [chunk.flaw for chunk in chunks(store, cost_max) if chunk.flaw]
        assert len(flaws) == 1
        assert "missing" in flaws[0]


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_what_changes_between_two_chunks_is_no_flaw(seed: int) -> None:
    """Each chunk is as of a later index: streams were trimmed, appended to, deleted and purged
    behind the place that the round had come to, or before it."""
    leader, rng = Leader(), random.Random(seed)
    for name in NAMES:
        leader.create(name)
    after = b""
    for _ in range(40):
        for _ in range(rng.randint(0, 4)):
            name = rng.choice(NAMES)
            stream = leader.state.stream_by_name(name)
            if stream is None or stream.deleted_at_ms is not None:
                continue
            if rng.random() < 0.6:
                leader.append(name, batch(rng.randint(1, 5), records=rng.randbytes(100)))
            elif rng.random() < 0.9:
                point = rng.randint(stream.trim_point, stream.tail_seq_num)
                leader.append(name, batch(1, commands=(trim(point),)))
            else:
                leader.run(leader.sequencer.delete_stream(name, NOW))
                leader.run(leader.sequencer.purge(stream.stream_id, NOW))
        chunk = chunk_behind(leader.store, after, rng.choice((1, 600, 3_000)))
        assert not chunk.flaw
        after = chunk.end


def test_a_batch_in_another_ones_place_is_a_flaw() -> None:
    """Two batches of one stream whose values were exchanged."""
    leader = Leader()
    leader.create("a")
    for count in (1, 2, 3):
        leader.append("a", count)
    store = leader.store
    first, second = (keys.batch_key(StreamId(1), number) for number in (0, 2))
    write_set = WriteSet()
    write_set.put(first, store.values[second])
    write_set.put(second, store.values[first])
    store.write(write_set)
    assert "does not belong" in whole(CONTENT, store).flaw


def test_a_row_that_no_release_wrote_is_a_flaw_and_no_error() -> None:
    """Whatever its bytes are, of every kind of row; and what stands behind it is still seen."""
    store = basin([("a", "append")] * 3, 1)
    for key in content_keys(store):
        if key[0] not in (1, 2, 3, 4, 5):
            continue
        for value in (b"", b"\xc1", b"\x90", b"\xff" * 80):
            odd = copied(store)
            write_set = WriteSet()
            write_set.put(key, value)
            odd.write(write_set)
            found = whole(CONTENT, odd)
            assert found.flaw, (key, value)
            assert found.identity != whole(CONTENT, store).identity


def test_a_row_of_an_older_release_is_equal_content() -> None:
    """A field that came later, with its default, is the same as none; and what was written on the
    way, which the digest of the applied row depends on, is no content."""
    store = basin([("a", "append"), ("b/c", "append")], 1)
    older = copied(store)
    write_set = WriteSet()
    shortened = 0
    for key, value in store.scan(*keys.streams_range()):
        fields = msgspec.msgpack.decode(value)
        if fields[-1] == b"":
            write_set.put(key, msgspec.msgpack.encode(fields[:-1]))
            shortened += 1
    applied = rows.decode_applied(store.values[keys.APPLIED_KEY])
    other = msgspec.structs.replace(applied, digest=applied.digest ^ 1)
    write_set.put(keys.APPLIED_KEY, rows.encode_applied(other))
    older.write(write_set)
    assert shortened
    assert older.values != store.values
    assert whole(CONTENT, older) == whole(CONTENT, store)


def test_the_digest_of_version_1_is_that_for_ever() -> None:
    """Another digest of this content is another version: replicas of both would convict each
    other."""
    leader = Leader()
    leader.create("a")
    leader.append("a", batch(2, records=b"two records"), now_ms=TimestampMs(1_000_123))
    leader.append("a", batch(1, commands=(trim(1),)))
    assert leader.stream("a").tail == Position(SeqNum(3), TimestampMs(1_000_123))
    found = whole(CONTENT, leader.store)
    assert (found.rows, f"{found.digest:016x}") == (GOLDEN_ROWS, GOLDEN_DIGEST)


GOLDEN_ROWS, GOLDEN_DIGEST = 11, "a099e75501c7d445"
