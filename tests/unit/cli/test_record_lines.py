"""Lines to records and back, and the batches that are made of a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

from svc_cluster.cli.data.record_text import RecordFormat, parse_line, record_line
from svc_cluster.cli.data.standard_input import Batch, RecordInput
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.wire_records import METERED_BYTES_MAX, AppendRecord, ReadRecord

RECORD = ReadRecord(5, 77, [(b"\xff", b"v")], b"a\x00\xfe")


def test_what_is_printed_can_be_appended_again() -> None:
    """In base64 by the byte; as JSON what is text. A command record has no line of text."""
    line = record_line(RECORD, RecordFormat.JSON_BASE64)
    again = parse_line(line, RecordFormat.JSON_BASE64, 1)
    assert again == AppendRecord(RECORD.body, ((b"\xff", b"v"),), 77)
    shown = json.loads(record_line(RECORD, RecordFormat.JSON))
    assert shown == {
        "seq_num": 5,
        "timestamp": 77,
        "headers": [["\ufffd", "v"]],
        "body": "a\x00\ufffd",
    }
    assert record_line(RECORD, RecordFormat.TEXT) == b"a\x00\xfe\n"
    command = ReadRecord(0, 1, [(b"", b"fence")], b"t")
    assert record_line(command, RecordFormat.TEXT) == b""
    assert json.loads(record_line(command, RecordFormat.JSON))["headers"] == [["", "fence"]]


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (b"{", RecordFormat.JSON),
        (b"[]", RecordFormat.JSON),
        (b'{"bdoy":"x"}', RecordFormat.JSON),
        (b'{"body":1}', RecordFormat.JSON),
        (b'{"headers":[["a"]]}', RecordFormat.JSON),
        (b'{"body":"a"}', RecordFormat.JSON_BASE64),
        (b'{"timestamp":"now"}', RecordFormat.JSON),
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes, form: RecordFormat) -> None:
    """With its number, and what a record is."""
    with pytest.raises(ClientError, match="line 9 is no record in"):
        parse_line(line, form, 9)


def test_a_record_has_a_bound() -> None:
    """At it and one beyond."""
    most = METERED_BYTES_MAX - 8
    assert len(parse_line(b"x" * most, RecordFormat.TEXT, 1).body) == most
    with pytest.raises(ClientError, match="line 1 makes a record of 1048577 bytes"):
        parse_line(b"x" * (most + 1), RecordFormat.TEXT, 1)


def batches_of(
    data: bytes, *, linger_s: float = 60.0, form: RecordFormat = RecordFormat.TEXT
) -> list[Batch]:
    """What a pipe with this in it gives."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as out:
            out.write(data)

    writer = threading.Thread(target=write)
    writer.start()

    async def main() -> list[Batch]:
        return [each async for each in RecordInput(reading, form, linger_s).batches()]

    try:
        return asyncio.run(main())
    finally:
        os.close(reading)
        writer.join()


def test_batches_are_full_where_records_wait() -> None:
    """A thousand records, or a mebibyte; the last line needs no end, an empty one is a record."""
    found = batches_of(b"".join(b"%d\n" % n for n in range(2500)) + b"\nend")
    assert [len(batch.records) for batch in found] == [1000, 1000, 502]
    bodies = [record.body for batch in found for record in batch.records]
    assert bodies == [*(b"%d" % n for n in range(2500)), b"", b"end"]
    half = METERED_BYTES_MAX // 2
    found = batches_of((b"x" * (half - 8) + b"\n") * 3)
    assert [batch.metered_bytes for batch in found] == [2 * half, half]
    assert batches_of(b"") == []


def test_what_is_before_a_bad_line_is_a_batch() -> None:
    """So that the end says what was appended."""

    async def main(reading: int) -> list[int]:
        found = RecordInput(reading, RecordFormat.JSON, 60.0).batches()
        first = await anext(found)
        with pytest.raises(ClientError, match="line 3 is no record"):
            await anext(found)
        return [len(first.records)]

    reading, writing = os.pipe()
    os.write(writing, b'{"body":"a"}\n{}\nworse\n{}\n')
    os.close(writing)
    try:
        assert asyncio.run(main(reading)) == [2]
    finally:
        os.close(reading)


def test_a_line_without_an_end_is_refused_before_it_is_held(tmp_path: Path) -> None:
    """Whatever is behind it is not read."""
    long = tmp_path / "long"
    with long.open("wb") as out:
        out.truncate(64 * METERED_BYTES_MAX)
    with long.open("rb") as file:

        async def main() -> None:
            async for _ in RecordInput(file.fileno(), RecordFormat.TEXT, 60.0).batches():
                raise AssertionError

        with pytest.raises(ClientError, match="line 1 has more than"):
            asyncio.run(main())
        assert file.seek(0, os.SEEK_CUR) < 3 * METERED_BYTES_MAX


def test_a_record_waits_for_others_no_longer_than_told() -> None:
    """While the pipe stays open, what has come is given; what is stopped gives what is whole."""
    reading, writing = os.pipe()

    async def main() -> list[list[bytes]]:
        given = []
        lines = RecordInput(reading, RecordFormat.TEXT, 0.001)
        async for batch in lines.batches():
            given.append([record.body for record in batch.records])
            if len(given) == 1:
                os.write(writing, b"two\nthr")
            else:
                lines.stop()
        return given

    os.write(writing, b"one\n")
    try:
        assert asyncio.run(main()) == [[b"one"], [b"two"]]
    finally:
        os.close(reading)
        os.close(writing)
