"""Appends that share a command: which may, what the command says, and what each is acknowledged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.limits import BATCH_METERED_BYTES_MAX, BATCH_RECORDS_MAX
from svc_cluster.model.cipher import AEGIS_256, StreamIdentity
from svc_cluster.model.record import SessionSequence, StoredBatch, TimestampingMode
from svc_cluster.model.stream_config import PartialStreamConfig
from svc_cluster.stream.append_run import AppendRun
from tests.unit.stream.support import NOW, Leader, batch, trim

FIRST = batch(2)


def begun(
    first: StoredBatch = FIRST, config: PartialStreamConfig | None = None
) -> tuple[Leader, AppendRun]:
    """A run that its first append has begun, at the start of a stream."""
    leader = Leader()
    leader.create("s", config)
    leader.sequencer.begin()
    command = leader.sequencer.append("s", first, 0, None, TimestampMs(NOW))
    run = leader.sequencer.begin_run("s", first, command)
    assert run is not None
    return leader, run


def test_a_run_is_one_command_of_all_and_each_is_told_its_own_place() -> None:
    """Records, metered bytes and operations are summed, the condition is the first one's, and the
    stream is as behind three commands."""
    leader, run = begun(replace(FIRST, op_units=1))
    assert run.join("s", batch(1, timestamps=[NOW - 5], records=b"x"), None)
    assert run.join("s", replace(batch(3, records=b"yyy"), op_units=1), None)
    acks = [(a.start.seq_num, a.end.seq_num, a.tail.seq_num) for a in run.joined]
    assert acks == [(2, 3, 3), (3, 6, 6)]
    assert [a.end.timestamp_ms for a in run.joined] == [NOW, NOW]
    command = leader.sequencer.end_run(run)
    assert (command.records, command.op_units, command.match_seq_num) == (b"rrxyyy", 2, 0)
    assert (command.placement.record_count, command.placement.metered_bytes) == (6, 54)
    leader.run(command)
    stream = leader.stream("s")
    assert (stream.tail_seq_num, stream.metered_bytes_appended) == (6, 54)
    assert leader.append("s", 1).start.seq_num == 6


def test_a_run_that_nobody_joined_is_the_command_as_it_was() -> None:
    """Nothing is handed out a second time."""
    leader, run = begun()
    command = leader.sequencer.end_run(run)
    assert command.records == FIRST.records
    leader.run(command)
    assert leader.stream("s").tail_seq_num == 2


SEALED = StreamIdentity(1, 1, AEGIS_256)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("t", batch(1)),
        ("s", batch(1, commands=(trim(1),))),
        ("s", replace(batch(1), sealed_for=SEALED)),
        ("s", batch(0, timestamps=())),
        ("s", batch(BATCH_RECORDS_MAX - 1)),
        ("s", batch(1, metered_bytes=BATCH_METERED_BYTES_MAX - 17)),
        ("s", batch(1, records=b"r" * (BATCH_METERED_BYTES_MAX - 1))),
    ],
)
def test_what_sets_an_append_apart_has_a_command_of_its_own(name: str, other: StoredBatch) -> None:
    """Another stream, a record that acts, records sealed for another stream, nothing at all, and
    more than a batch holds: not one of them joins, and the run is as before."""
    leader, run = begun()
    assert not run.join(name, other, None)
    assert run.joined == []
    assert leader.sequencer.end_run(run).records == FIRST.records


@pytest.mark.parametrize(
    "other",
    [
        batch(BATCH_RECORDS_MAX - 2),
        batch(1, metered_bytes=BATCH_METERED_BYTES_MAX - 18),
        batch(1, records=b"r" * (BATCH_METERED_BYTES_MAX - 2)),
    ],
)
def test_a_run_is_as_large_as_a_batch_may_be(other: StoredBatch) -> None:
    """At each of its limits, with the two records of the first."""
    _, run = begun()
    assert run.join("s", other, None)


def test_an_append_that_acts_on_its_stream_begins_no_run() -> None:
    """What comes behind a trim has a command of its own."""
    leader = Leader()
    leader.create("s")
    acting = batch(1, commands=(trim(0),))
    command = leader.sequencer.append("s", acting, None, None, TimestampMs(NOW))
    assert leader.sequencer.begin_run("s", acting, command) is None


def test_a_batch_without_the_timestamps_that_are_required_does_not_join() -> None:
    """It is refused by itself, behind the run."""
    required = PartialStreamConfig(timestamping_mode=TimestampingMode.CLIENT_REQUIRE)
    _, run = begun(batch(1, timestamps=[NOW]), required)
    assert not run.join("s", batch(1), None)
    assert run.join("s", batch(1, timestamps=[NOW + 1]), None)


def test_a_session_joins_in_its_order_only() -> None:
    """The numbers of one session: the next joins, a later one and the same one again do not."""
    _, run = begun()
    session = b"1234567890123456"
    joined = [run.join("s", batch(1), SessionSequence(session, n)) for n in (0, 2, 1, 1, 2)]
    assert joined == [True, False, True, False, True]


def test_what_is_undone_of_a_run_is_not_its_first() -> None:
    """Undone, those that joined have left no trace, a session's number included; the first one's
    command is proposed as it was."""
    leader, run = begun()
    session = b"1234567890123456"
    assert run.join("s", batch(1), SessionSequence(session, 0))
    leader.sequencer.end_run(run)
    leader.sequencer.undo()
    assert leader.sequencer.view.stream_by_name("s") is not None
    again = leader.sequencer.append(
        "s", batch(1), 2, None, TimestampMs(NOW), session=SessionSequence(session, 0)
    )
    assert again.placement.first_seq_num == 2
