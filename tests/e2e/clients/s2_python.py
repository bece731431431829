"""What S2's official Python client does with a cluster: `python s2_python.py URL`.

Runs in an environment of the client's own (requirements/clients.lock): it needs another protobuf
than the service, and both register a file of one name. Ends with an exception at the first answer
that is not as the client has it of S2.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from s2_sdk import (
    S2,
    AppendInput,
    BasinConfig,
    Batching,
    CommandRecord,
    Compression,
    Encryption,
    Endpoints,
    EnsureStatus,
    FencingTokenMismatchError,
    ReadLimit,
    ReadUnwrittenError,
    Record,
    S2Basin,
    S2ServerError,
    S2Stream,
    SeqNum,
    SeqNumMismatchError,
    StreamConfig,
    TailOffset,
    Timestamp,
    Timestamping,
    TimestampingMode,
)

BASIN = "s2-client-basin"
BODY = b"a body that is worth compressing; " * 100


@contextmanager
def refused(kind: type[Exception]) -> Iterator[list[Any]]:
    """What is done inside must raise `kind`; the error is in the list then."""
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    assert caught, f"{kind.__name__} was expected"


def client(url: str, compression: Compression) -> S2:
    return S2("any token", endpoints=Endpoints(url, url), compression=compression)


async def basins_and_streams(s2: S2) -> None:
    """Create, list, configuration, delete."""
    info = await s2.create_basin("s2-other-basin")
    assert info.name == "s2-other-basin"
    names = [basin.name for basin in (await s2.list_basins(prefix="s2-")).items]
    assert names == [BASIN, "s2-other-basin"]
    with refused(S2ServerError) as again:
        await s2.create_basin("s2-other-basin")
    assert again[0].code == "resource_already_exists"
    basin = s2.basin("s2-other-basin")
    wanted = StreamConfig(
        retention_policy=3600,
        timestamping=Timestamping(mode=TimestampingMode.CLIENT_REQUIRE, uncapped=False),
    )
    made = await basin.create_stream("a/stream with spaces", config=wanted)
    assert made.name == "a/stream with spaces"
    listed = (await basin.list_streams()).items
    assert [(one.name, one.created_at) for one in listed] == [(made.name, made.created_at)]
    config = await basin.get_stream_config(made.name)
    assert config.retention_policy == 3600
    assert config.timestamping == wanted.timestamping
    await basin.delete_stream(made.name)
    with refused(S2ServerError) as deleted:
        await basin.stream(made.name).check_tail()
    assert deleted[0].code in ("stream_deletion_pending", "stream_not_found")
    await s2.delete_basin("s2-other-basin")


async def ensured_and_reconfigured(s2: S2) -> None:
    """Ensure and reconfigure, and streams that are made by being used."""
    name = "s2-ensured-basin"
    wanted = BasinConfig(
        default_stream_config=StreamConfig(retention_policy=60), create_stream_on_append=True
    )
    statuses = [
        (await s2.ensure_basin(name, config=config)).status for config in (None, wanted, wanted)
    ]
    assert statuses == [
        EnsureStatus.CREATED,
        EnsureStatus.CONFIG_UPDATED,
        EnsureStatus.CONFIG_UNCHANGED,
    ]
    told = await s2.get_basin_config(name)
    assert (await s2.ensure_basin(name, config=told)).status is EnsureStatus.CONFIG_UNCHANGED
    changed = await s2.reconfigure_basin(name, config=BasinConfig(create_stream_on_read=True))
    assert changed.default_stream_config == told.default_stream_config
    assert (changed.create_stream_on_append, changed.create_stream_on_read) == (True, True)
    basin = s2.basin(name)
    ensured = await basin.ensure_stream("ensured", config=StreamConfig(delete_on_empty_min_age=900))
    again = await basin.ensure_stream("ensured", config=StreamConfig(delete_on_empty_min_age=900))
    assert (ensured.status, again.status) == (EnsureStatus.CREATED, EnsureStatus.CONFIG_UNCHANGED)
    assert ensured.stream == again.stream
    config = await basin.reconfigure_stream(
        "ensured", config=StreamConfig(retention_policy="infinite")
    )
    assert config == await basin.get_stream_config("ensured")
    assert (config.storage_class, config.retention_policy) == ("express", "infinite")
    assert config.delete_on_empty_min_age == 900
    own = StreamConfig(timestamping=Timestamping(mode=TimestampingMode.ARRIVAL, uncapped=True))
    made = basin.stream("made by an append")
    ack = await made.append(AppendInput([Record(b"first")], stream_config=own))
    assert ack.start.seq_num == 0
    config = await basin.get_stream_config("made by an append")
    assert (config.storage_class, config.retention_policy) == ("express", 60)
    assert config.timestamping == own.timestamping
    assert (await basin.stream("made by its tail").check_tail()).seq_num == 0


async def appends_and_reads(stream: S2Stream) -> None:
    """Unary append and read, conditions, commands, all three kinds of start."""
    assert (await stream.check_tail()).seq_num == 0
    with refused(ReadUnwrittenError):
        await stream.read(start=SeqNum(0))
    ack = await stream.append(
        AppendInput([Record(BODY, [(b"name", b"value"), (b"name", b"")]), Record(b"")])
    )
    assert (ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num) == (0, 2, 2)
    batch = await stream.read(start=SeqNum(0))
    assert [(one.seq_num, one.body) for one in batch.records] == [(0, BODY), (1, b"")]
    assert batch.records[0].headers == [(b"name", b"value"), (b"name", b"")]
    with refused(SeqNumMismatchError) as mismatch:
        await stream.append(AppendInput([Record(b"x")], match_seq_num=0))
    assert mismatch[0].expected_seq_num == 2
    await stream.append(AppendInput([CommandRecord.fence("mine")], match_seq_num=2))
    with refused(FencingTokenMismatchError) as fenced:
        await stream.append(AppendInput([Record(b"x")], fencing_token="other"))
    assert fenced[0].expected_fencing_token == "mine"
    await stream.append(AppendInput([Record(b"fenced")], fencing_token="mine"))
    await stream.append(AppendInput([CommandRecord.trim(1)], fencing_token="mine"))
    batch = await stream.read(start=SeqNum(0), ignore_command_records=True)
    assert [one.seq_num for one in batch.records] == [1, 3]
    batch = await stream.read(start=TailOffset(2), limit=ReadLimit(count=1))
    assert [one.body for one in batch.records] == [b"fenced"]
    batch = await stream.read(start=Timestamp(batch.records[0].timestamp), limit=ReadLimit(count=1))
    assert batch.records
    with refused(ReadUnwrittenError):
        await stream.read(start=SeqNum(100))
    assert not (await stream.read(start=SeqNum(100), clamp_to_tail=True, wait=1)).records


async def sessions(stream: S2Stream) -> None:
    """An append session, a producer, and a read session that follows both."""
    seen: list[bytes] = []
    expected = [b"session %d " % number + BODY for number in range(60)]
    expected += [b"produced %d" % number for number in range(500)]

    async def follow() -> None:
        async with stream.read_session(start=SeqNum(0)) as session:
            async for batch in session:
                seen.extend(record.body for record in batch.records)
                if len(seen) >= len(expected):
                    return

    following = asyncio.create_task(follow())
    async with stream.append_session() as session:
        bodies = expected[:60]
        tickets = [
            await session.submit(AppendInput([Record(one), Record(two)]))
            for one, two in zip(bodies[::2], bodies[1::2], strict=True)
        ]
        acks = [await ticket for ticket in tickets]
        assert [ack.start.seq_num for ack in acks] == list(range(0, 60, 2))
    async with stream.producer(match_seq_num=60, batching=Batching(max_records=50)) as producer:
        produced = [await producer.submit(Record(body)) for body in expected[60:]]
        indexes = [(await ticket).seq_num for ticket in produced]
        assert indexes == list(range(60, 560))
    async with asyncio.timeout(60):
        await following
    assert seen == expected


async def refused_sessions(basin: S2Basin, stream: S2Stream) -> None:
    """A condition that fails ends the session with that error; a missing stream is a plain one."""
    with refused(SeqNumMismatchError):
        async with stream.append_session() as session:
            await (await session.submit(AppendInput([Record(b"x")], match_seq_num=7)))
    with refused(S2ServerError) as missing:
        async for _ in basin.stream("missing").read_session(start=SeqNum(0)):
            pass
    assert missing[0].code == "stream_not_found"


async def encrypted(s2: S2, cipher: Encryption) -> None:
    """A basin with a cipher: appends, sessions and reads with the key, none without."""
    key, other = os.urandom(32), os.urandom(32)
    name = f"s2-encrypted-{cipher.value}"
    await s2.create_basin(name, config=BasinConfig(stream_cipher=cipher))
    basin = s2.basin(name)
    info = await basin.create_stream("s")
    assert info.cipher == cipher
    stream = basin.stream("s", encryption_key=key)
    ack = await stream.append(AppendInput([Record(BODY, [(b"name", b"value")]), Record(b"")]))
    assert ack.tail.seq_num == 2
    async with stream.append_session() as session:
        await (await session.submit(AppendInput([CommandRecord.fence("mine"), Record(b"last")])))
    batch = await stream.read(start=SeqNum(0))
    assert [one.body for one in batch.records] == [BODY, b"", b"mine", b"last"]
    assert batch.records[0].headers == [(b"name", b"value")]
    seen: list[bytes] = []
    async for batch in stream.read_session(start=SeqNum(0), limit=ReadLimit(count=4)):
        seen.extend(record.body for record in batch.records)
    assert seen == [BODY, b"", b"mine", b"last"]
    assert (await basin.stream("s").check_tail()).seq_num == 4
    keyless = basin.stream("s")
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: keyless.read(start=SeqNum(0)),
        lambda: keyless.append(AppendInput([Record(b"x")])),
    ]
    for attempt in attempts:
        with refused(S2ServerError) as without:
            await attempt()
        assert (without[0].code, cipher.value in str(without[0])) == ("bad_header", True)
    with refused(S2ServerError) as wrong:
        await basin.stream("s", encryption_key=other).read(start=SeqNum(0))
    assert wrong[0].code == "decryption_failed"
    print(f"encryption with {cipher.value}: ok", flush=True)


async def everything(s2: S2, kind: str) -> None:
    if kind == Compression.NONE.value:
        await s2.create_basin(BASIN)
        await basins_and_streams(s2)
        for cipher in Encryption:
            await encrypted(s2, cipher)
        await ensured_and_reconfigured(s2)
    basin = s2.basin(BASIN)
    steps: dict[str, Callable[[S2Stream], Awaitable[None]]] = {
        "unary": appends_and_reads,
        "sessions": sessions,
        "refused": lambda stream: refused_sessions(basin, stream),
    }
    for name, step in steps.items():
        await basin.create_stream(f"{name}-{kind}")
        await step(basin.stream(f"{name}-{kind}"))
        print(f"{name} with compression {kind}: ok", flush=True)


async def main() -> None:
    for compression in Compression:
        async with client(sys.argv[1], compression) as s2:
            await everything(s2, compression.value)


if __name__ == "__main__":
    asyncio.run(main())
