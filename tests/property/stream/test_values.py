"""Keys, timestamps, entries and apply, for all inputs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import SeqNum, StreamId, TimestampMs
from svc_cluster.codec.entry_version import BASIN_KINDS, UnknownEntryError
from svc_cluster.codec.log_entry import EntryFormatError, comes_back
from svc_cluster.model.names import is_stream_name
from svc_cluster.model.record import BatchPlacement, CommandKind, CommandRecord, TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)
from svc_cluster.stream import batch_row, keys, rows, timestamping
from svc_cluster.stream.commands import (
    AppendCommand,
    BasinCommand,
    Bootstrap,
    CreateStream,
    DeleteStream,
    ExpirePrefix,
    IdempotentWrite,
    PurgeStream,
    Seal,
)
from tests.at_once import decode_batch, decode_entry, encode_entry
from tests.unit.stream.support import Replica, batch

U64 = st.integers(0, 2**64 - 1)
U32 = st.integers(0, 2**32 - 1)
SMALL = st.integers(0, 4)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAME = TEXT.filter(is_stream_name)
MODE = st.sampled_from(list(TimestampingMode))

CONFIG = st.builds(
    StreamConfig,
    storage_class=TEXT,
    retention=st.builds(Retention, st.none() | U64),
    timestamping_mode=MODE,
    timestamping_uncapped=st.booleans(),
    delete_on_empty_min_age_seconds=U64,
    shared_caching=st.booleans(),
)
PARTIAL = st.builds(
    PartialStreamConfig,
    storage_class=st.none() | TEXT,
    retention=st.none() | st.builds(Retention, st.none() | U64),
    timestamping_mode=st.none() | MODE,
    timestamping_uncapped=st.none() | st.booleans(),
    delete_on_empty_min_age_seconds=st.none() | U64,
    shared_caching=st.none() | st.booleans(),
)
BASIN_CONFIG = st.builds(
    BasinConfig,
    default_stream_config=st.none() | PARTIAL,
    stream_cipher=st.none() | TEXT,
    create_stream_on_append=st.booleans(),
    create_stream_on_read=st.booleans(),
)
COMMAND_RECORD = st.builds(
    CommandRecord,
    offset=SMALL | U32,
    kind=st.sampled_from(list(CommandKind)),
    token=TEXT,
    trim_point=SMALL | U64,
)
# Small numbers meet each other often enough for commands to take effect.
PLACEMENT = st.builds(
    BatchPlacement,
    first_seq_num=SMALL | U64,
    record_count=SMALL | U32,
    metered_bytes=U32,
    base_timestamp_ms=SMALL | U64,
    arrival_ms=U64,
    last_timestamp_ms=SMALL | U64,
    mode=MODE,
    uncapped=st.booleans(),
    expires_at_ms=st.none() | U64,
)
STREAM_ID = SMALL | U64
APPEND = st.builds(
    AppendCommand,
    stream_id=SMALL,
    placement=PLACEMENT,
    records=st.binary(max_size=20),
    start_timestamp_ms=SMALL | U64,
    commands=st.lists(COMMAND_RECORD, max_size=3).map(tuple),
    match_seq_num=st.none() | SMALL | U64,
    fencing_token=st.none() | TEXT,
    op_units=U32,
)
COMMAND: st.SearchStrategy[BasinCommand] = st.one_of(
    st.builds(Bootstrap, basin=TEXT, config=BASIN_CONFIG, created_at_ms=U64),
    st.builds(
        CreateStream,
        stream_id=STREAM_ID,
        name=TEXT,
        config=CONFIG,
        created_at_ms=U64,
        cipher=st.none() | TEXT,
    ),
    APPEND,
    st.builds(ExpirePrefix, stream_id=STREAM_ID, trim_point=SMALL | U64),
    st.builds(DeleteStream, stream_id=STREAM_ID, deleted_at_ms=U64),
    st.builds(PurgeStream, stream_id=STREAM_ID),
    st.builds(Seal, sealed_at_ms=U64),
)


@given(st.lists(st.tuples(U64, U64), max_size=10))
def test_order_of_batch_keys_is_the_order_of_batches(places: list[tuple[int, int]]) -> None:
    """By stream, then by sequence number; and every key stays in its stream's range."""
    packed = [keys.batch_key(StreamId(stream), last) for stream, last in sorted(places)]
    assert packed == sorted(packed)
    for stream, last in places:
        if stream < 2**64 - 1:
            start, end = keys.batches_range(StreamId(stream))
            assert start <= keys.batch_key(StreamId(stream), last) < end


@given(st.lists(NAME, max_size=10))
def test_order_of_name_keys_is_the_byte_order_of_names(names: list[str]) -> None:
    """And none of them meets another kind of key."""
    packed = sorted(keys.name_key(name) for name in names)
    assert [keys.name_of(key) for key in packed] == sorted(names, key=str.encode)
    assert all(keys.BASIN_KEY < key < keys.stream_key(StreamId(0)) for key in packed)


@given(TEXT, TEXT, NAME)
def test_range_of_names_is_prefix_and_start_after(prefix: str, after: str, name: str) -> None:
    """Exactly the names that match."""
    start, end = keys.name_range(prefix, after)
    matches = name.startswith(prefix) and (not after or name.encode() > after.encode())
    assert (start <= keys.name_key(name) < end) is matches


@given(
    st.lists(st.none() | U64 | SMALL, min_size=1, max_size=20),
    MODE,
    st.booleans(),
    U64 | SMALL,
    U64 | SMALL,
)
def test_foretold_timestamps_are_the_stamped_ones(
    timestamps: list[int | None], mode: TimestampingMode, uncapped: bool, base: int, now: int
) -> None:
    """First and last; non-decreasing, none below the base."""
    if mode is TimestampingMode.CLIENT_REQUIRE:
        timestamps = [0 if value is None else value for value in timestamps]
    stored = batch(timestamps=timestamps)
    placement = timestamping.place(
        stored,
        first_seq_num=SeqNum(0),
        base_timestamp_ms=TimestampMs(base),
        config=StreamConfig(timestamping_mode=mode, timestamping_uncapped=uncapped),
        now_ms=TimestampMs(now),
    )
    stamped = timestamping.stamp(placement, timestamps)
    assert stamped[-1] == placement.last_timestamp_ms
    assert stamped[0] == timestamping.first_timestamp(placement, stored)
    assert stamped == sorted(stamped)
    assert stamped[0] >= base
    if not uncapped:
        assert stamped[-1] <= max(base, now)


@given(st.lists(COMMAND, max_size=5))
def test_entry_comes_back(commands: list[BasinCommand]) -> None:
    """Every command, every value of its fields; the same commands are the same bytes."""
    payload = encode_entry(commands)
    assert decode_entry(payload) == commands
    assert encode_entry(decode_entry(payload)) == payload


@given(
    st.lists(
        COMMAND
        | st.builds(
            IdempotentWrite,
            key=st.binary(max_size=1) | st.binary(min_size=32, max_size=32),
            decided_at_ms=U64,
            answer=st.binary(max_size=20),
            write=st.none() | APPEND | st.builds(DeleteStream, STREAM_ID, U64),
        ),
        min_size=1,
        max_size=5,
    ),
    st.just(BASIN_KINDS) | st.sets(st.sampled_from(sorted(BASIN_KINDS))).map(frozenset),
)
def test_what_comes_back_is_the_same_to_its_order(
    commands: list[BasinCommand], known: frozenset[str]
) -> None:
    """What a leader applies without decoding it is, to every type and order in it, what the others
    decode. No release that would refuse the entry says that it comes back."""
    kept = [command for command in commands if comes_back(command, known)]
    decoded = decode_entry(encode_entry(kept), known)
    assert decoded == kept
    assert repr(decoded) == repr(kept)


@given(st.binary(max_size=60), st.lists(COMMAND, min_size=1, max_size=2), st.data())
def test_damaged_entry_is_refused_or_read_and_nothing_else(
    noise: bytes, commands: list[BasinCommand], data: st.DataObject
) -> None:
    """No exception but the two that say so."""
    payload = encode_entry(commands)
    cut = data.draw(st.integers(0, len(payload)))
    for damaged in (b"\x09\x01" + noise, payload[:cut] + noise, payload[:cut]):
        try:
            decode_entry(damaged)
        except (EntryFormatError, UnknownEntryError):
            continue


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(COMMAND, max_size=6), max_size=6))
def test_apply_raises_for_no_content(entries: list[list[BasinCommand]]) -> None:
    """Whatever an entry says: the same on two replicas, and readable after a restart."""
    one, two = Replica(), Replica(cached_max=1)
    first: list[BasinCommand] = [Bootstrap("b", BasinConfig(), TimestampMs(0))]
    for commands in (first, *entries):
        planned = one.apply(commands)
        assert len(planned.outcomes) == len(commands)
        two.apply(decode_entry(encode_entry(commands)))
        two.restart()
    assert one.state.digest == two.state.digest
    assert one.store.values == two.store.values
    for entry in one.state.list_streams("", "", 100)[0]:
        assert one.state.stream_by_name(entry.name) == two.state.stream_by_name(entry.name)


@given(PLACEMENT, U64, st.binary(max_size=50))
def test_batch_value_comes_back(placement: BatchPlacement, before: int, records: bytes) -> None:
    """Every field at every value."""
    value = batch_row.encode_batch(placement, before, records)
    assert batch_row.decode_placement(value) == placement
    assert decode_batch(value).records == records
    assert batch_row.metered_before(value) == before


@given(
    st.builds(
        rows.StreamState,
        stream_id=U64,
        name=NAME,
        config=CONFIG,
        created_at_ms=U64,
        cipher=st.none() | TEXT,
        deleted_at_ms=st.none() | U64,
        tail_seq_num=U64,
        last_timestamp_ms=U64,
        trim_point=U64,
        fencing_token=TEXT,
        metered_bytes_appended=U64,
        last_arrival_ms=st.none() | U64,
    )
)
def test_stream_value_comes_back(stream: rows.StreamState) -> None:
    """Every field at every value."""
    assert rows.decode_stream(stream.stream_id, rows.encode_stream(stream)) == stream
