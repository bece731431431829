"""Which deleted ranges are known, and which of them are worth a compaction."""

from __future__ import annotations

import random
from itertools import pairwise

from svc_cluster.storage import dead_ranges, dead_records
from svc_cluster.storage.dead_ranges import (
    DEAD_BYTES_MIN,
    DeadRange,
    DeadRanges,
    TableFile,
    plan_compactions,
)

MIB = 1024 * 1024


def key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def dead(start: int, end: int, mib: int | None) -> DeadRange:
    return DeadRange(key(start), key(end), None if mib is None else mib * MIB)


def files(count: int, level: int = 6, mib: int = 64) -> list[TableFile]:
    """Files of 100 keys each, one behind the other."""
    return [TableFile(level, key(at * 100), key(at * 100 + 99), mib * MIB) for at in range(count)]


def collected(*ranges: DeadRange) -> DeadRanges:
    out = DeadRanges()
    for one in ranges:
        out.add(one)
    return out


def test_trims_of_one_stream_become_one_range() -> None:
    """Each trim begins where the one before ended; what they free adds up."""
    ranges = collected(*(dead(at, at + 10, 1) for at in range(0, 100, 10)))
    assert ranges.ranges() == [dead(0, 100, 10)]


def test_ranges_are_kept_as_a_set_of_keys() -> None:
    """Whatever the order of random ranges, each key is dead exactly when a range held it, no two
    ranges touch, and sizes add up unless one is unknown."""
    for seed in range(200):
        rng = random.Random(seed)
        ranges, keys, sizes = DeadRanges(), set(), 0
        for _ in range(rng.randint(1, 30)):
            start = rng.randrange(100)
            end = start + rng.randrange(12)
            ranges.add(dead(start, end, 1))
            keys |= set(range(start, end))
            sizes += end > start
        found = ranges.ranges()
        held = [
            number
            for one in found
            for number in range(int.from_bytes(one.start), int.from_bytes(one.end))
        ]
        assert held == sorted(keys)
        assert all(one.end < other.start for one, other in pairwise(found))
        assert sum(one.size or 0 for one in found) == sizes * MIB


def test_an_unknown_size_stays_unknown() -> None:
    """Nobody takes it for nothing."""
    assert collected(dead(0, 10, None), dead(10, 20, 3)).ranges() == [dead(0, 20, None)]
    assert collected(dead(0, 10, None)).is_worth_a_look()
    assert not collected(dead(0, 10, 1)).is_worth_a_look()


def test_compacted_ranges_are_forgotten_and_later_ones_stay() -> None:
    """Also one that began within the compacted range and reaches beyond it."""
    ranges = collected(dead(0, 10, 1), dead(20, 30, 1), dead(40, 60, 1))
    ranges.take(key(0), key(50))
    assert ranges.ranges() == [dead(40, 60, 1)]


def test_the_number_of_ranges_is_bounded() -> None:
    """Neighbours are taken together; nothing that was deleted is forgotten."""
    ranges = DeadRanges()
    for number in range(dead_ranges.RANGES_MAX + 10):
        ranges.add(dead(number * 10, number * 10 + 1, 1))
    assert len(ranges) <= dead_ranges.RANGES_MAX
    found = ranges.ranges()
    assert sum(one.size or 0 for one in found) == (dead_ranges.RANGES_MAX + 10) * MIB
    assert (found[0].start, found[-1].end) == (key(0), key((dead_ranges.RANGES_MAX + 9) * 10 + 1))


def test_a_trim_of_most_of_a_stream_is_compacted() -> None:
    """90 % of 32 files."""
    assert plan_compactions([dead(0, 2880, 1843)], files(32)) == [(key(0), key(2880))]


def test_few_dead_bytes_are_left_alone() -> None:
    """A small share of what lives, or less than is worth the work."""
    assert plan_compactions([dead(0, 150, 100)], files(32)) == []
    small = [DeadRange(key(0), key(100), DEAD_BYTES_MIN - 1)]
    assert plan_compactions(small, files(1, mib=4)) == []
    assert plan_compactions([], files(32)) == []


def test_the_densest_files_are_compacted_first_and_no_more_than_needed() -> None:
    """Of a hundred files, twelve are nearly all dead and the others hold a little each: rewriting
    those would cost much more than it gives."""
    dense = [dead(at * 100, at * 100 + 90, 58) for at in range(0, 24, 2)]
    thin = [dead(at * 100, at * 100 + 2, 1) for at in range(40, 100, 2)]
    chosen = plan_compactions(dense + thin, files(100))
    assert chosen
    assert set(chosen) <= {(one.start, one.end) for one in dense}
    total = 100 * 64 * MIB
    all_dead = (12 * 58 + 30) * MIB
    left = all_dead - len(chosen) * 58 * MIB
    assert left <= dead_ranges.DEAD_SHARE_END * (total - all_dead)


def test_ranges_that_share_a_file_are_compacted_at_once() -> None:
    """One rewriting of the file serves all of them."""
    many = [dead(at, at + 5, 4) for at in range(0, 100, 10)]
    assert plan_compactions(many, files(2)) == [(key(0), key(95))]


def test_a_range_of_unknown_size_counts_by_its_files() -> None:
    """A whole replica that was destroyed, and one that never had anything on disk."""
    assert plan_compactions([dead(0, 1600, None)], files(32)) == [(key(0), key(1600))]
    assert plan_compactions([dead(9000, 9900, None)], files(32)) == []


def test_data_that_has_not_left_level_zero_is_compacted_too() -> None:
    """There may be no deeper level, or the range lies ahead of all that is in it."""
    flat = [TableFile(0, key(0), key(999), 64 * MIB) for _ in range(3)]
    assert plan_compactions([dead(0, 900, 170)], flat) == [(key(0), key(900))]
    mixed = [*flat, TableFile(6, key(5000), key(6000), MIB)]
    assert plan_compactions([dead(0, 900, 170)], mixed) == [(key(0), key(900))]


def test_notes_of_ranges_are_read_as_they_were_written() -> None:
    """They stand behind the keys of every replica."""
    for one in (dead(0, 5, 7), dead(3, 9, None)):
        pair = dead_records.encode(one)
        assert list(dead_records.decode([pair])) == [one]
        assert (b"\xff" * 8 + b"x") < pair[0] < dead_records.END_KEY or pair[0] > b"\xff" * 9
        first, end = dead_records.keys_of(one.start, one.end)
        assert first <= pair[0] < end
