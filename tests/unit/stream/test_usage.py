"""What applying a log counts: bytes and operations by minute, what is stored, who has reported."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import (
    BasinDeletionPendingError,
    InvalidError,
    UnavailableError,
)
from svc_cluster.base.ids import StreamId, TimestampMs
from svc_cluster.model.record import SequencedBatch
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig
from svc_cluster.model.usage import (
    COUNT_MAX,
    FINE_MINUTES,
    MINUTE_MS,
    REPORTER_BYTES,
    Counts,
    UsageReport,
)
from svc_cluster.stream import keys, usage_requests
from svc_cluster.stream.basin_usage import PRESENCES_MAX, stored_metered_bytes
from svc_cluster.stream.commands import (
    BasinCommand,
    Bootstrap,
    CountUsage,
    CreateStream,
    ExpirePrefix,
    PurgeStream,
    ReportUsage,
)
from svc_cluster.stream.effects import RejectionReason
from svc_cluster.stream.rows import StreamState
from svc_cluster.stream.usage_rows import decode_basin_reading, decode_reading
from tests.unit.stream.support import (
    BASIN,
    Leader,
    Replica,
    append_command,
    batch,
    placement,
    reasons,
    trim,
)

MINUTE = 30_000_000
"""Some minute, long after the epoch."""
REPORTER = b"r" * REPORTER_BYTES
OTHER = b"o" * REPORTER_BYTES


def at(minute: int, second: int = 0) -> TimestampMs:
    return TimestampMs(minute * MINUTE_MS + second * 1000)


def report(sequence: int, *minutes: tuple[int, Counts], reporter: bytes = REPORTER) -> UsageReport:
    return UsageReport(reporter, sequence, minutes or ((MINUTE, Counts(read_ops_unary=1)),))


def counted(replica: Replica, minute: int) -> Counts | None:
    """As the table says, and as the store alone would say after a restart."""
    found = replica.state.usage.table.counts(minute)
    replica.restart()
    assert replica.state.usage.table.counts(minute) == found
    return found


def stored(replica: Replica) -> int:
    """Of the basin: as the last reading says, which must be the sum of all streams' batches."""
    reading = replica.state.usage.reading
    assert reading is not None
    total = 0
    for entry in replica.state.list_streams("", "", 1000)[0]:
        stream = replica.state.stream(entry.stream_id)
        assert stream is not None
        held = stored_metered_bytes(replica.store, stream)
        assert replica.state.usage.stream_reading(stream).stored_bytes == held
        total += held
    assert reading[1].stored_bytes == total
    return total


def reading_rows(replica: Replica, stream_id: int) -> list[tuple[int, int]]:
    pairs = replica.store.scan(*keys.readings_range(StreamId(stream_id)))
    decode = decode_reading if stream_id else lambda v: decode_basin_reading(v).stored_bytes
    return [(keys.reading_minute(key), decode(value)) for key, value in pairs]


def test_appends_count_in_the_minute_they_arrived_in_by_storage_class() -> None:
    """Metered bytes and units of every batch are in the bucket of its arrival, nothing elsewhere;
    an entry with several appends adds to one bucket."""
    leader = Leader()
    leader.create("plain", PartialStreamConfig(storage_class="standard"))
    leader.create("fast", PartialStreamConfig(storage_class="express"))
    first = leader.sequencer.append("plain", batch(3), None, None, at(MINUTE, 59))
    second = leader.sequencer.append("plain", batch(2), None, None, at(MINUTE, 59))
    leader.run(first, second)
    leader.append("fast", batch(5, metered_bytes=700), now_ms=at(MINUTE + 1))
    assert counted(leader, MINUTE) == Counts(append_bytes_standard=45)
    assert counted(leader, MINUTE + 1) == Counts(append_bytes_express=700)
    assert counted(leader, MINUTE + 2) is None


def test_units_of_operations_travel_with_the_batch() -> None:
    """The unit that a gateway puts on a batch is counted with it; a refused batch counts none."""
    replica = Replica()
    replica.apply([Bootstrap(BASIN, BasinConfig(), at(MINUTE), counts_usage=True)])
    leader = Leader()
    leader.create("s")
    one = batch()
    units = type(one)(one.records, 1, 9, op_units=1)
    leader.append("s", units, now_ms=at(MINUTE))
    leader.append("s", one, now_ms=at(MINUTE))
    wrong = append_command(1, placement(7, arrival=at(MINUTE)))
    assert reasons(leader.apply([wrong])) == [RejectionReason.WRONG_FIRST_SEQ_NUM]
    assert counted(leader, MINUTE) == Counts(append_ops_standard=1, append_bytes_standard=18)


def test_one_row_is_written_for_each_touched_bucket_and_entry() -> None:
    """However many appends an entry has: one row of counts, one reading a stream, one of the
    basin."""
    leader = Leader()
    leader.create("a")
    leader.create("b")
    commands = [
        leader.sequencer.append(name, batch(), None, None, at(MINUTE))
        for name in ("a", "b", "a", "b", "a")
    ]
    planned = leader.run(*commands)
    kinds = [key[0] for key, value, _ in planned.write_set.ops if value is not None]
    assert kinds.count(keys.USAGE_MINUTES_KIND) == 1
    assert kinds.count(keys.reading_key(StreamId(1), 0)[0]) == 3


@pytest.mark.parametrize("trim_point", [0, 1, 3, 4, 5, 8, 9, 10, 100])
def test_what_is_stored_is_exact_when_trimmed_anywhere(trim_point: int) -> None:
    """Whole batches go; the one that holds the trim point stays. Also where the batches, and the
    trim, are of one entry."""
    for together in (False, True):
        leader = Leader()
        leader.create("s")
        wanted = [batch(3), batch(2), batch(4), batch(1, commands=(trim(trim_point),))]
        if together:
            leader.run(*(leader.sequencer.append("s", b, None, None, at(MINUTE)) for b in wanted))
        else:
            for one in wanted:
                leader.append("s", one, now_ms=at(MINUTE))
        stream = leader.stream("s")
        ends, kept = (3, 5, 9, 10), 0
        for end, one in zip(ends, wanted, strict=True):
            kept += one.metered_bytes if end > stream.trim_point else 0
        assert stored(leader) == kept
        assert reading_rows(leader, 1)[-1] == (MINUTE, kept)


def test_expiry_and_purge_take_off_what_they_remove() -> None:
    """Retention takes off what it drops, in its minute; a purge takes the rest and the readings."""
    leader = Leader()
    leader.create("s")
    leader.create("t")
    for _ in range(4):
        leader.append("s", batch(2), now_ms=at(MINUTE))
    leader.append("t", batch(1), now_ms=at(MINUTE))
    leader.run(leader.sequencer.expire(StreamId(1), 4, at(MINUTE + 3)))
    assert stored(leader) == 36 + 9
    assert reading_rows(leader, 1)[-2:] == [(MINUTE, 72), (MINUTE + 3, 36)]
    leader.run(leader.sequencer.delete_stream("s", at(MINUTE + 4)))
    assert stored(leader) == 36 + 9
    leader.run(leader.sequencer.purge(StreamId(1), at(MINUTE + 5)))
    assert stored(leader) == 9
    assert reading_rows(leader, 1) == []
    assert reading_rows(leader, 0)[-1] == (MINUTE + 5, 9)


def test_entries_from_before_times_were_in_them_still_count() -> None:
    """An expiry or a purge without a time changes the newest reading."""
    leader = Leader()
    leader.create("s")
    for _ in range(2):
        leader.append("s", batch(2), now_ms=at(MINUTE))
    leader.apply([ExpirePrefix(StreamId(1), 2)])
    assert (stored(leader), reading_rows(leader, 1)[-1]) == (18, (MINUTE, 18))
    leader.run(leader.sequencer.delete_stream("s", at(MINUTE)))
    leader.apply([PurgeStream(StreamId(1))])
    assert stored(leader) == 0


def test_a_clock_that_goes_back_changes_no_minute_that_is_over() -> None:
    """After a leader whose clock was ahead, counts are by the new leader's clock; the newest
    reading stays the last row and is what a restart begins from."""
    leader = Leader()
    leader.create("s")
    leader.append("s", batch(1), now_ms=at(MINUTE + 5))
    leader.append("s", batch(1), now_ms=at(MINUTE))
    assert counted(leader, MINUTE) == Counts(append_bytes_standard=9)
    assert counted(leader, MINUTE + 5) == Counts(append_bytes_standard=9)
    assert reading_rows(leader, 1)[-1] == (MINUTE + 5, 18)
    assert stored(leader) == 18


def test_a_report_counts_once() -> None:
    """However often it is in the log: again, late behind a newer one, twice in an entry, after a
    restart. Another reporter's has a number of its own."""
    leader = Leader()

    def take(*reports: UsageReport) -> list[RejectionReason | None]:
        return reasons(leader.apply([ReportUsage(at(MINUTE), one) for one in reports]))

    assert take(report(4)) == [None]
    assert take(report(4), report(3), report(5), report(5)) == [None] * 4
    leader.restart()
    assert take(report(5), report(4), report(1, reporter=OTHER)) == [None] * 3
    assert counted(leader, MINUTE) == Counts(read_ops_unary=3)


def test_reports_add_up_by_minute_and_operation() -> None:
    leader = Leader()
    one = Counts(read_ops_unary=1, read_ops_streaming=2, read_bytes=3, ops={"create-stream": 1})
    two = Counts(read_bytes=4, ops={"list-streams": 5, "create-stream": 1})
    leader.apply([ReportUsage(at(MINUTE), report(1, (MINUTE - 1, one), (MINUTE, two)))])
    leader.apply([ReportUsage(at(MINUTE), report(2, (MINUTE - 1, two)))])
    assert counted(leader, MINUTE) == two
    assert counted(leader, MINUTE - 1) == Counts(
        read_ops_unary=1,
        read_ops_streaming=2,
        read_bytes=7,
        ops={"create-stream": 2, "list-streams": 5},
    )


IMPOSSIBLE = {
    "another length of reporter": UsageReport(b"r", 1, report(1).minutes),
    "no number": UsageReport(REPORTER, 0, report(1).minutes),
    "no minutes": UsageReport(REPORTER, 1, ()),
    "too many minutes": report(1, *((n, Counts(read_bytes=1)) for n in range(129))),
    "a minute that is none": report(1, (2**32, Counts(read_bytes=1))),
    "more than anybody counts": report(1, (MINUTE, Counts(read_bytes=COUNT_MAX + 1))),
    "appends": report(1, (MINUTE, Counts(append_bytes_standard=1))),
    "an unknown operation": report(1, (MINUTE, Counts(ops={"format-disk": 1}))),
    "an account's operation": report(1, (MINUTE, Counts(ops={"list-basins": 1}))),
    "more operations than anybody counts": report(
        1, (MINUTE, Counts(ops={"list-streams": COUNT_MAX + 1}))
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_report_that_no_gateway_writes_is_refused_and_rejected(name: str) -> None:
    """The leader refuses it; in a log it is rejected, without effect, on every replica."""
    leader = Leader()
    usage = leader.state.usage
    impossible = IMPOSSIBLE[name]
    with pytest.raises(InvalidError):
        leader.sequencer.decide(
            lambda view: usage_requests.report(view, usage, impossible, at(MINUTE))
        )
    before = dict(leader.store.values)
    assert reasons(leader.apply([ReportUsage(at(MINUTE), impossible)])) == [
        RejectionReason.MALFORMED
    ]
    changed = {key for key, value in leader.store.values.items() if before.get(key) != value}
    assert changed <= {keys.APPLIED_KEY}


def test_a_leader_does_not_hand_out_what_was_taken_and_puts_minutes_where_they_can_be() -> None:
    """A number that is applied comes to nothing; a minute ahead of the leader's clock, or older
    than an hour, is counted at the edge."""
    leader = Leader()
    usage = leader.state.usage

    def ask(wanted: UsageReport) -> ReportUsage | None:
        return leader.sequencer.decide(
            lambda view: usage_requests.report(view, usage, wanted, at(MINUTE))
        )

    one = Counts(read_bytes=1)
    command = ask(report(1, (MINUTE - 70, one), (MINUTE - 61, one), (MINUTE, one), (2**31, one)))
    assert command is not None
    assert command.report.minutes == (
        (MINUTE - 60, Counts(read_bytes=2)),
        (MINUTE, Counts(read_bytes=2)),
    )
    leader.run(command)
    assert ask(report(1)) is None
    leader.run(leader.sequencer.seal(at(MINUTE)))
    with pytest.raises(BasinDeletionPendingError):
        ask(report(2))


def test_a_basin_from_before_counting_begins_when_its_log_says_so() -> None:
    """Without the flag nothing is written, so that replicas which apply old entries later stay
    equal; the command takes over what is stored, also by earlier commands of its own entry."""
    replica = Replica()
    replica.apply([Bootstrap(BASIN, BasinConfig(), at(MINUTE))])
    other = Leader()
    create = other.sequencer.create_stream("s", None, at(MINUTE))
    assert isinstance(create, CreateStream)
    replica.apply([create])
    replica.apply([append_command(1, placement(0, 2, arrival=at(MINUTE), metered_bytes=18))])
    replica.apply([ReportUsage(at(MINUTE), report(1))])
    assert not any(key[0] >= keys.USAGE_REPORTERS_KIND for key in replica.store.values)
    with pytest.raises(UnavailableError):
        usage_requests.report(replica.state, replica.state.usage, report(1), at(MINUTE))
    assert usage_requests.begin(replica.state, replica.state.usage, at(MINUTE)) is not None
    second = append_command(1, placement(2, 1, arrival=at(MINUTE + 1), metered_bytes=9))
    third = append_command(1, placement(3, 1, arrival=at(MINUTE + 1), metered_bytes=9))
    replica.apply([second, CountUsage(at(MINUTE + 1)), third])
    assert stored(replica) == 36
    assert counted(replica, MINUTE + 1) == Counts(append_bytes_standard=9)
    assert replica.state.usage.had_streams(at(MINUTE + 1), at(MINUTE + 2))
    replica.apply([CountUsage(at(MINUTE + 2))])
    assert stored(replica) == 36
    assert usage_requests.begin(replica.state, replica.state.usage, at(MINUTE)) is None


def test_a_stream_from_before_counting_is_read_when_it_is_needed() -> None:
    """Its first reading is worked out from its batches, whichever restart comes before."""
    for restarts in (False, True):
        leader = Leader()
        leader.create("s")
        for _ in range(3):
            leader.append("s", batch(2), now_ms=at(MINUTE))
        for key in [k for k in leader.store.values if k[0] >= keys.USAGE_REPORTERS_KIND]:
            leader.store._remove([key])
        leader.restart()
        leader.apply([CountUsage(at(MINUTE + 1))])
        if restarts:
            leader.restart()
        assert stored(leader) == 54
        tail = placement(6, 1, arrival=at(MINUTE + 2), base=at(MINUTE), last=at(MINUTE + 2))
        assert reasons(leader.apply([append_command(1, tail, commands=(trim(3),))])) == [None]
        assert stored(leader) == 18 + 18 + 9


def test_old_minutes_go_and_the_last_reading_before_them_stays() -> None:
    """Rows older than 31 days are deleted as new minutes begin; of readings the newest of the old
    ones holds until the next, so it is kept."""
    leader = Leader()
    leader.create("s")
    for minute in (MINUTE, MINUTE + 1, MINUTE + 2):
        leader.append("s", now_ms=at(minute))
    late = MINUTE + 2 + FINE_MINUTES
    leader.append("s", now_ms=at(late))
    table = leader.state.usage.table
    assert [minute for minute, _ in table.rows(0, 2**40, 10)] == [MINUTE + 2, late]
    assert reading_rows(leader, 1) == [(MINUTE + 1, 18), (MINUTE + 2, 27), (late, 36)]
    assert reading_rows(leader, 0)[0] == (MINUTE + 1, 18)
    leader.append("s", now_ms=at(late + FINE_MINUTES + 1))
    assert [minute for minute, _ in table.rows(0, 2**40, 10)] == [late + FINE_MINUTES + 1]


def test_many_old_rows_go_as_a_range() -> None:
    """A basin that was silent for a month has no long list of deletions in one entry."""
    leader = Leader()
    leader.create("s")
    for minute in range(200):
        leader.append("s", now_ms=at(MINUTE + minute))
    planned = leader.run(
        leader.sequencer.append("s", batch(), None, None, at(MINUTE + 2 * FINE_MINUTES))
    )
    assert len(planned.write_set.ops) < 20
    table = leader.state.usage.table
    assert [minute for minute, _ in table.rows(0, 2**40, 10)] == [MINUTE + 2 * FINE_MINUTES]
    assert [value for _, value in reading_rows(leader, 1)] == [1800, 1809]


def test_silent_reporters_are_forgotten_when_a_new_one_comes() -> None:
    leader = Leader()
    leader.apply([ReportUsage(at(MINUTE), report(1))])
    leader.apply([ReportUsage(at(MINUTE + 24 * 60), report(1, reporter=OTHER))])
    assert leader.state.usage.table.last_sequence(REPORTER) == 1
    newest = b"n" * REPORTER_BYTES
    leader.apply([ReportUsage(at(MINUTE + 24 * 60 + 1), report(1, reporter=newest))])
    assert leader.state.usage.table.last_sequence(REPORTER) == 0
    assert leader.state.usage.table.last_sequence(OTHER) == 1


def test_a_basin_is_active_from_its_first_stream_until_its_last_is_purged() -> None:
    leader = Leader()
    usage = leader.state.usage
    assert not usage.had_streams(0, at(2 * MINUTE))
    leader.run(leader.sequencer.create_stream("s", None, at(MINUTE)))
    leader.run(leader.sequencer.create_stream("t", None, at(MINUTE + 1)))
    for name, number in (("s", 1), ("t", 2)):
        leader.run(leader.sequencer.delete_stream(name, at(MINUTE + 2)))
        leader.run(leader.sequencer.purge(StreamId(number), at(MINUTE + 2 + number)))
    leader.restart()
    usage = leader.state.usage
    assert not usage.had_streams(0, at(MINUTE))
    assert usage.had_streams(at(MINUTE), at(MINUTE))
    assert usage.had_streams(at(MINUTE + 3), at(MINUTE + 9))
    assert not usage.had_streams(at(MINUTE + 4), at(MINUTE + 9))


def test_times_with_streams_are_bounded() -> None:
    """However often a basin becomes empty; what is dropped of the times joins the oldest."""
    leader = Leader()
    for number in range(1, PRESENCES_MAX + 5):
        minute = MINUTE + 3 * number
        leader.run(leader.sequencer.create_stream("s", None, at(minute)))
        leader.run(leader.sequencer.delete_stream("s", at(minute + 1)))
        leader.run(leader.sequencer.purge(StreamId(number), at(minute + 1)))
    usage = leader.state.usage
    assert len(usage.presence) == PRESENCES_MAX
    assert usage.presence[0][0] == at(MINUTE + 3)
    assert usage.had_streams(at(MINUTE + 3), at(MINUTE + 4))


def test_replicas_that_restart_anywhere_write_the_same_rows() -> None:
    """What is cached makes no difference to what is written: the digests are equal."""
    leader = Leader()
    follower = Replica(cached_max=1)
    # the follower has missed the bootstrap that the leader was made with
    follower.apply([Bootstrap(BASIN, BasinConfig(), TimestampMs(1), counts_usage=True)])
    create_s = leader.sequencer.create_stream("s", None, at(MINUTE))
    create_t = leader.sequencer.create_stream("t", None, at(MINUTE))
    entries: list[list[BasinCommand | None]] = [[create_s], [create_t]]
    for command in (create_s, create_t):
        leader.run(command)
    for number in range(8):
        name = "st"[number % 2]
        append = leader.sequencer.append(
            name, batch(1, commands=(trim(number // 3),)), None, None, at(MINUTE + number // 2)
        )
        leader.run(append)
        entries.append([append])
    for entry in entries:
        follower.apply([command for command in entry if command is not None])
        follower.restart()
    assert follower.state.digest == leader.state.digest
    assert follower.store.values == leader.store.values


def test_a_stream_without_batches_in_the_store_keeps_those_of_the_entry() -> None:
    """The helper alone: the store knows nothing of the stream, the entry has three batches."""
    stream = StreamState(
        StreamId(1),
        "s",
        Leader().create("x").config,
        at(MINUTE),
        tail_seq_num=append_command(1, placement(6, 2)).placement.end_seq_num,
        trim_point=placement(3).first_seq_num,
        metered_bytes_appended=24,
    )
    batches = [
        SequencedBatch(placement(first, count, metered_bytes=count * 3), b"")
        for first, count in ((0, 3), (3, 3), (6, 2))
    ]
    assert stored_metered_bytes(Replica().store, stream, batches) == 15


def test_bytes_of_rows_are_fixed() -> None:
    """Rows are kept for a month and longer: what one version writes every later one reads. A field
    is added at the end, with a default."""
    replica = Replica()
    created = CreateStream(StreamId(1), "s", Leader().create("x").config, at(MINUTE))
    counts = Counts(read_ops_unary=1, read_bytes=300, ops={"list-streams": 2, "create-stream": 1})
    replica.apply(
        [
            Bootstrap(BASIN, BasinConfig(), at(MINUTE), counts_usage=True),
            created,
            append_command(1, placement(arrival=at(MINUTE), metered_bytes=500)),
            ReportUsage(at(MINUTE), report(7, (MINUTE, counts))),
        ]
    )
    rows = {
        key.hex(): value.hex()
        for key, value in replica.store.values.items()
        if key[0] >= keys.USAGE_REPORTERS_KIND
    }
    minute = f"{MINUTE:016x}"
    assert rows == {
        "fa" + REPORTER.hex(): f"{7:016x}{MINUTE:016x}",
        f"fb{0:016x}{minute}": f"{500:016x}{1:016x}",
        f"fb{1:016x}{minute}": f"{500:016x}",
        f"fc{minute}": "980000cd01f4000100cd012c82"
        "ad6372656174652d73747265616d01"
        "ac6c6973742d73747265616d7302",
        "fd": "9192cf000001a3185c5000c0",
    }
    decoded = Replica()
    decoded.store.values.update(replica.store.values)
    assert decoded.state.usage.table.counts(MINUTE) == replica.state.usage.table.counts(MINUTE)
