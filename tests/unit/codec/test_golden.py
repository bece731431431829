"""The exact bytes of frames, events and stored batches, against files.

A stored batch is on disks for ever and a frame is between programs of different ages: a difference
here is a break with one of them. `python -m tests.unit.codec.test_golden` writes the files anew;
commit that only if you understand the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import ReadBudget, RecordOut
from svc_cluster.codec.json_body import DataFormat, encode_read_batch
from svc_cluster.codec.proto_body import encode_append_ack
from svc_cluster.codec.proto_body import encode_read_batch as encode_read_batch_proto
from svc_cluster.codec.session_frame import Compression, SessionFrame, encode_frame, encode_terminal
from svc_cluster.codec.sse import DONE, EventId, batch_event, error_event, ping_event
from svc_cluster.gateway.records.record_cipher import RecordCipher
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.model.cipher import AEGIS_256, AES_256_GCM, KEY_BYTES, StreamIdentity
from svc_cluster.model.record import (
    AppendAck,
    BatchPlacement,
    Position,
    SequencedBatch,
    StoredBatch,
    TimestampingMode,
)
from svc_cluster.stream.batch_row import encode_batch
from tests.at_once import build_batch, cut, decode_batch, decode_proto_append, seal_batch

FOLDER: Final = Path(__file__).parent / "golden"
TAIL: Final = Position(SeqNum(9), TimestampMs(1_700_000_000_009))
RECORDS: Final = [
    RecordOut(7, 1_700_000_000_007, [(b"name", b"value"), (b"name", b"")], b"b\xffdy", 40),
    RecordOut(8, 1_700_000_000_009, [], b"", 8),
]
GOLDEN_PLACEMENT: Final = BatchPlacement(
    first_seq_num=SeqNum(5),
    record_count=4,
    metered_bytes=79,
    base_timestamp_ms=TimestampMs(1_700_000_000_000),
    arrival_ms=TimestampMs(1_700_000_000_005),
    last_timestamp_ms=TimestampMs(1_700_000_000_005),
    mode=TimestampingMode.CLIENT_PREFER,
    uncapped=False,
    expires_at_ms=TimestampMs(1_700_604_800_005),
)
REFUSAL: Final = b'{"seq_num_mismatch":9}'


def stored() -> StoredBatch:
    return build_batch(
        [
            (1_700_000_000_001, [(b"name", b"value"), (b"name", b"")], b"b\xffdy"),
            (None, [(b"", b"fence")], b"owner"),
            (None, [(b"", b"trim")], (5).to_bytes(8, "big")),
            (0, [], b""),
        ]
    )


def frames() -> dict[str, bytes]:
    ack = AppendAck(Position(SeqNum(7), TimestampMs(1_700_000_000_007)), TAIL, TAIL)
    input_ = stored().records + b"\x10\x00\x1a\x00"
    return {
        "append input, match_seq_num 0, empty fencing token": encode_frame(input_),
        "append ack": encode_frame(encode_append_ack(ack)),
        "append ack, reconnect advised": encode_frame(
            encode_append_ack(ack), reconnect_advised=True
        ),
        "read batch, stored": encode_frame(encode_read_batch_proto(RECORDS, None)),
        "read batch, live": encode_frame(encode_read_batch_proto(RECORDS, TAIL)),
        "heartbeat": encode_frame(encode_read_batch_proto((), TAIL)),
        "heartbeat of an empty stream": encode_frame(
            encode_read_batch_proto((), Position(SeqNum(0), TimestampMs(0)))
        ),
        "terminal": encode_terminal(412, REFUSAL),
    }


def events() -> dict[str, bytes]:
    return {
        "batch, base64": batch_event(
            EventId(8, 2, 48), encode_read_batch(RECORDS, None, DataFormat.BASE64)
        ),
        "batch, live, text": batch_event(
            EventId(8, 2, 48), encode_read_batch(RECORDS, TAIL, DataFormat.UTF8)
        ),
        "ping": ping_event(1_700_000_000_010, TAIL),
        "error": error_event(REFUSAL),
        "end": DONE,
    }


def batches() -> dict[str, bytes]:
    batch = stored()
    placement = GOLDEN_PLACEMENT
    row = encode_batch(placement, 1000, batch.records)
    assert decode_batch(row).placement == placement
    return {"records": batch.records, "row": row, **sealed_batches(batch)}


def _next_bytes(numbers: Iterator[int], size: int) -> bytes:
    return next(numbers).to_bytes(size, "big")


def sealed_batches(batch: StoredBatch) -> dict[str, bytes]:
    """The same records sealed with each cipher, under a key and nonces that count up."""
    found = {}
    for cipher in (AEGIS_256, AES_256_GCM):
        identity = StreamIdentity(0x0102, 0x0304, cipher)
        numbers = itertools.count(1)
        key = RecordKey(bytes(range(KEY_BYTES)))
        sealing = RecordCipher(identity, key, partial(_next_bytes, numbers))
        sealed = seal_batch(batch, identity, sealing.seal)
        opened = cut(
            [SequencedBatch(GOLDEN_PLACEMENT, sealed.records)], 0, ReadBudget(), sealing.open
        )
        assert opened == cut([SequencedBatch(GOLDEN_PLACEMENT, batch.records)], 0, ReadBudget())
        found[f"records sealed with {cipher}"] = sealed.records
    return found


FILES: Final = {"frames.hex": frames, "events.txt": events, "batches.hex": batches}


def written(file: str) -> str:
    parts = []
    for name, data in FILES[file]().items():
        if file.endswith(".hex"):
            lines = [data[at : at + 32].hex(" ") for at in range(0, len(data), 32)]
            parts.append(f"# {name}\n" + "\n".join(lines) + "\n")
        else:
            parts.append(f"# {name}\n{data.decode()}")
    return "\n".join(parts)


def read_frames(file: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for part in (FOLDER / file).read_text().split("# ")[1:]:
        name, _, digits = part.partition("\n")
        found[name] = bytes.fromhex(digits)
    return found


@pytest.mark.parametrize("file", FILES)
def test_the_bytes_are_those_of_the_file(file: str) -> None:
    """Nothing that others hold or send has changed its form."""
    assert written(file) == (FOLDER / file).read_text()


def test_compressed_frames_of_the_file_are_read() -> None:
    """What was once compressed is decompressed; how it is compressed today is the libraries'."""
    message = encode_read_batch_proto([RECORDS[0]] * 40, None)
    for name, data in read_frames("compressed.hex").items():
        compression = Compression[name]
        assert data[3] >> 5 == compression
        assert int.from_bytes(data[:3], "big") == len(data) - 3
        assert SessionFrame(data[4:], compression).message() == message


def test_the_stored_records_are_an_append_input() -> None:
    """What is stored is decoded by the decoder of the wire, to the same batch."""
    assert decode_proto_append(read_frames("batches.hex")["records"]).batch == stored()


def rewrite() -> None:
    FOLDER.mkdir(exist_ok=True)
    for file in FILES:
        (FOLDER / file).write_text(written(file))
    message = encode_read_batch_proto([RECORDS[0]] * 40, None)
    parts = []
    for compression in (Compression.ZSTD, Compression.GZIP):
        data = encode_frame(message, compression)
        lines = [data[at : at + 32].hex(" ") for at in range(0, len(data), 32)]
        parts.append(f"# {compression.name}\n" + "\n".join(lines) + "\n")
    (FOLDER / "compressed.hex").write_text("\n".join(parts))


if __name__ == "__main__":
    rewrite()
