"""Bytes of log entries: round trips, golden values, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf.message import Message

from svc_cluster._pb.cluster.v1 import config_pb2
from svc_cluster._pb.cluster.v1 import log_entry_pb2 as pb
from svc_cluster.base.ids import SeqNum, StreamId, TimestampMs
from svc_cluster.codec.entry_version import BASIN_KINDS, UnknownEntryError
from svc_cluster.codec.log_entry import EntryFormatError
from svc_cluster.model.record import BatchPlacement, CommandKind, CommandRecord, TimestampingMode
from svc_cluster.model.stream_config import (
    BasinConfig,
    PartialStreamConfig,
    Retention,
    StreamConfig,
)
from svc_cluster.model.usage import Counts, UsageReport
from svc_cluster.stream.commands import (
    AppendCommand,
    BasinCommand,
    Bootstrap,
    ConfigureBasin,
    ConfigureStream,
    CountUsage,
    CreateStream,
    DeleteEmptyStream,
    DeleteStream,
    ExpireIdempotencyKeys,
    ExpirePrefix,
    FreezeBasin,
    IdempotentWrite,
    KeepUsage,
    PurgeStream,
    ReportUsage,
    Seal,
)
from tests.at_once import decode_entry, encode_entry

MS = TimestampMs
ID = StreamId(3)

FULL_APPEND = AppendCommand(
    stream_id=ID,
    placement=BatchPlacement(
        first_seq_num=SeqNum(300),
        record_count=2,
        metered_bytes=40,
        base_timestamp_ms=MS(5),
        arrival_ms=MS(9),
        last_timestamp_ms=MS(8),
        mode=TimestampingMode.ARRIVAL,
        uncapped=True,
        expires_at_ms=MS(99),
    ),
    records=b"\x0a\x00\x0a\x00",
    start_timestamp_ms=MS(7),
    commands=(
        CommandRecord(0, CommandKind.FENCE, token="é"),
        CommandRecord(1, CommandKind.TRIM, trim_point=2**64 - 1),
    ),
    match_seq_num=300,
    fencing_token="tok",
)
PLAIN_APPEND = AppendCommand(
    stream_id=StreamId(1),
    placement=BatchPlacement(
        SeqNum(0), 1, 8, MS(0), MS(0), MS(0), TimestampingMode.CLIENT_PREFER, False, None
    ),
    records=b"",
    start_timestamp_ms=MS(0),
)
REQUEST_KEY = bytes(range(32))
USAGE = UsageReport(
    bytes(range(16)),
    7,
    (
        (29, Counts(read_bytes=3)),
        (
            30,
            Counts(read_ops_unary=1, read_ops_streaming=2, read_bytes=300, ops={"list-streams": 4}),
        ),
    ),
)
FULL_CONFIG = BasinConfig(
    PartialStreamConfig("express", Retention(60), TimestampingMode.CLIENT_REQUIRE, True, 7),
    "aegis-256",
    True,
    True,
)

GOLDEN: list[tuple[BasinCommand, str]] = [
    (
        FULL_APPEND,
        "09010a400a3e080310ac0218022028280530093807400848025001586360ac026a03746f6b720610011a"
        "02c3a9720f0801100220ffffffffffffffffff017a040a000a00",
    ),
    (PLAIN_APPEND, "09010a080a06080118012008"),
    (Bootstrap("basin-one", BasinConfig(), MS(5)), "09010a11120f0a09626173696e2d6f6e6510051a00"),
    (
        Bootstrap("basin-one", FULL_CONFIG, MS(5)),
        "09010a3512330a09626173696e2d6f6e6510051a240a130a07657870726573731202083c18012001"
        "2807120961656769732d32353618012001",
    ),
    (
        CreateStream(ID, "s/é", StreamConfig(), MS(5)),
        "09010a1a1a1808031204732fc3a918052a087374616e646172643080f524",
    ),
    (
        CreateStream(
            ID,
            "s",
            StreamConfig("express", Retention(None), TimestampingMode.ARRIVAL, True, 9),
            MS(5),
            "aes-256-gcm",
        ),
        "09010a251a2308031201731805220b6165732d3235362d67636d2a0765787072657373380240014809",
    ),
    (ExpirePrefix(ID, 300), "09010a072205080310ac02"),
    (DeleteStream(ID, MS(5)), "09010a062a0408031005"),
    (PurgeStream(ID), "09010a0432020803"),
    (Seal(MS(5)), "09010a043a020805"),
    (
        CreateStream(ID, "s", StreamConfig(), MS(5), creation_hash=b"hash"),
        "09010a1d1a1b080312017318052a087374616e646172643080f524520468617368",
    ),
    (
        ConfigureStream(
            ID, StreamConfig("express", Retention(None), TimestampingMode.ARRIVAL, True, 9)
        ),
        "09010a174a15080312110a07657870726573731200180220012809",
    ),
    (
        CreateStream(ID, "s", StreamConfig(shared_caching=True), MS(5)),
        "09010a191a17080312017318052a087374616e646172643080f5245801",
    ),
    (
        ConfigureStream(ID, StreamConfig(shared_caching=True)),
        "09010a1e4a1c080312180a087374616e6461726412040880f5241800200028003001",
    ),
    (
        ConfigureStream(ID, StreamConfig()),
        "09010a1c4a1a080312160a087374616e6461726412040880f524180020002800",
    ),
    (
        ConfigureBasin(FULL_CONFIG),
        "09010a2842260a240a130a07657870726573731202083c180120012807120961656769732d32353618012001",
    ),
    (ConfigureBasin(BasinConfig()), "09010a0442020a00"),
    (DeleteEmptyStream(ID, MS(5)), "09010a06520408031005"),
    (
        IdempotentWrite(REQUEST_KEY, MS(5), b"\x52\x00", PLAIN_APPEND),
        "09010a345a320a20000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f10051a02"
        "520022080a06080118012008",
    ),
    (
        IdempotentWrite(REQUEST_KEY, MS(5), b"\x12\x00"),
        "09010a2a5a280a20000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f10051a02"
        "1200",
    ),
    (ExpireIdempotencyKeys(MS(300), 9), "09010a07620508ac021009"),
    (replace(PLAIN_APPEND, op_units=1), "09010a0b0a09080118012008f00101"),
    (
        Bootstrap("basin-one", BasinConfig(), MS(5), True),
        "09010a1312110a09626173696e2d6f6e6510051a002001",
    ),
    (ExpirePrefix(ID, 300, MS(5)), "09010a092207080310ac021805"),
    (PurgeStream(ID, MS(5)), "09010a06320408031005"),
    (CountUsage(MS(5)), "09010a05aa01020805"),
    (KeepUsage(), "09010a05ba01020801"),
    (FreezeBasin("moves"), "09010a0af201070a056d6f766573"),
    (FreezeBasin(""), "09010a03f20100"),
    (
        ReportUsage(MS(5), USAGE),
        "09010a3eb2013b080512370a10000102030405060708090a0b0c0d0e0f10071a04081d40031a1b081e300138"
        "0240ac024a100a0c6c6973742d73747265616d731004",
    ),
]


@pytest.mark.parametrize(("command", "golden"), GOLDEN)
def test_bytes_of_version_1_are_fixed(command: BasinCommand, golden: str) -> None:
    """Logs outlive programs: both directions, forever."""
    assert encode_entry([command]).hex() == golden
    assert decode_entry(bytes.fromhex(golden)) == [command]


@pytest.mark.parametrize(
    "config",
    [
        BasinConfig(PartialStreamConfig()),
        BasinConfig(PartialStreamConfig(retention=Retention(None))),
        BasinConfig(PartialStreamConfig(timestamping_uncapped=False)),
        BasinConfig(PartialStreamConfig(delete_on_empty_min_age_seconds=0)),
        BasinConfig(PartialStreamConfig(timestamping_mode=TimestampingMode.CLIENT_PREFER)),
        BasinConfig(PartialStreamConfig(storage_class="")),
    ],
)
def test_unset_is_not_zero(config: BasinConfig) -> None:
    """Presence survives where it has a meaning."""
    command = Bootstrap("basin-one", config, MS(5))
    assert decode_entry(encode_entry([command])) == [command]


@pytest.mark.parametrize(("match", "token"), [(None, None), (0, ""), (0, None), (None, "")])
def test_conditions_keep_their_presence(match: int | None, token: str | None) -> None:
    """Zero and the empty token are conditions."""
    command = AppendCommand(
        PLAIN_APPEND.stream_id, PLAIN_APPEND.placement, b"r", MS(0), (), match, token
    )
    assert decode_entry(encode_entry([command])) == [command]


def test_entry_keeps_order_and_number_of_its_commands() -> None:
    """Also of none."""
    commands = [command for command, _ in GOLDEN] * 3
    assert decode_entry(encode_entry(commands)) == commands
    assert decode_entry(encode_entry([])) == []


def _keyed() -> pb.Command:
    return pb.Command(keyed_write=pb.IdempotentWrite(key=bytes(32)))


def _raw(**fields: object) -> bytes:
    return b"\x09\x01" + pb.LogEntry(commands=[pb.Command(**fields)]).SerializeToString()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x09",
        b"\x08\x01",
        b"\x09\x00",
        b"\x09\x81",
        b"\x09\x01\xff",
        encode_entry([FULL_APPEND])[:-1],
        _raw(),
        _raw(keyed_write=pb.IdempotentWrite(key=bytes(31))),
        _raw(keyed_write=pb.IdempotentWrite(key=bytes(33))),
        _raw(keyed_write=pb.IdempotentWrite(key=bytes(32), write=pb.Command())),
        _raw(keyed_write=pb.IdempotentWrite(key=bytes(32), write=_keyed())),
        _raw(keyed_write=pb.IdempotentWrite(key=bytes(32), write=pb.Command(seal=pb.Seal()))),
        _raw(append=pb.Append(command_records=[pb.CommandRecord()])),
        b"\x09\x01" + bytes.fromhex("0a041a0212ff")[:-1] + b"\xff",
    ],
)
def test_what_is_an_entry_of_no_release_is_refused(payload: bytes) -> None:
    """Wrong type, another group's version, broken bytes, no command at all, members that are not
    what they must be."""
    with pytest.raises(EntryFormatError):
        decode_entry(payload)


def _with_member(message: Message) -> bytes:
    """The message with a member that nobody has declared."""
    return message.SerializeToString() + b"\xf8\x07\x01"


def _nested(tag: int, content: bytes) -> bytes:
    return bytes([tag << 3 | 2, len(content)]) + content


UNKNOWN = {
    "version 2": b"\x09\x02",
    "the last version there can be": b"\x09\x7f" + bytes(3),
    "a kind of command": b"\x09\x01\x0a\x03\xba\x01\x00",
    "a kind with a request key": _raw(
        keyed_write=pb.IdempotentWrite(
            key=bytes(32), write=pb.Command.FromString(bytes.fromhex("ba0100"))
        )
    ),
    "a timestamping mode": _raw(append=pb.Append(timestamping_mode=3)),
    "a kind of command record": _raw(append=pb.Append(command_records=[pb.CommandRecord(kind=3)])),
    "a mode of a new stream": _raw(create_stream=pb.CreateStream(timestamping_mode=9)),
    "a mode of a new basin's streams": _raw(
        bootstrap=pb.Bootstrap(
            config=config_pb2.BasinConfig(
                default_stream_config=config_pb2.PartialStreamConfig(timestamping_mode=9)
            )
        )
    ),
    "a member of the entry": b"\x09\x01" + _with_member(pb.LogEntry()),
    "a member of a known command": b"\x09\x01"
    + _nested(1, _nested(7, _with_member(pb.Seal(sealed_at_ms=5)))),
    "a member beside the command": b"\x09\x01"
    + _nested(1, _with_member(pb.Command(seal=pb.Seal(sealed_at_ms=5)))),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_a_newer_release_may_have_written_is_not_refused_but_unknown(what: str) -> None:
    """The versions of this kind of group that are to come, and kinds, values and members that are
    not known: whoever knows them applies them, so nobody may reject them."""
    with pytest.raises(UnknownEntryError):
        decode_entry(UNKNOWN[what])


def test_a_replica_of_an_older_release_knows_fewer_kinds() -> None:
    """Also inside a repeatable request; everything else it reads as ever."""
    known = BASIN_KINDS - {"configure_basin"}
    change = ConfigureBasin(BasinConfig())
    for command in (change, IdempotentWrite(REQUEST_KEY, MS(5), b"", change)):
        payload = encode_entry([PLAIN_APPEND, command])
        assert decode_entry(payload) == [PLAIN_APPEND, command]
        with pytest.raises(UnknownEntryError, match="configure_basin"):
            decode_entry(payload, known)
    assert decode_entry(encode_entry([PLAIN_APPEND]), known) == [PLAIN_APPEND]


def test_invalid_utf8_in_a_name_is_refused() -> None:
    """Strings are UTF-8 or the entry is none."""
    entry = encode_entry([CreateStream(ID, "zz", StreamConfig(), MS(5))])
    assert entry.count(b"zz") == 1
    with pytest.raises(EntryFormatError):
        decode_entry(entry.replace(b"zz", b"z\xff"))
