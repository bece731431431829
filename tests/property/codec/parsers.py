"""What each parser must do with any input at all: refuse it as declared, or take it rightly."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.errors import (
    DecryptionFailedError,
    ErrorCode,
    InternalError,
    InvalidError,
    MalformedError,
)
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import AppendInput, ReadBudget
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.session_frame import (
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    FrameDecoder,
    SessionFrame,
    encode_frame,
    encode_terminal,
)
from svc_cluster.codec.sse import parse_event_id
from svc_cluster.gateway.records.record_cipher import RecordCipher
from svc_cluster.gateway.request.plain_input import plain_append_input
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.model.cipher import AEGIS_256, AES_256_GCM, KEY_BYTES, StreamIdentity
from svc_cluster.model.record import BatchPlacement, SequencedBatch, TimestampingMode
from tests.at_once import build_batch, cut, decode_json_append, decode_proto_append, seal_batch
from tests.property.codec import inputs

REFUSED: Final = "refused"
TAKEN: Final = "taken"


def _declared(error: MalformedError, code: ErrorCode) -> None:
    """A parser has one code for what is malformed."""
    assert error.code is code, error.code


def check_proto(rng: random.Random, data: bytes) -> str:
    """Taken: counted as the records are when each is looked at, and stored so that it decodes to
    the same batch again. What is plain is taken alike, and what is refused is not plain."""
    plain = plain_append_input(data)
    try:
        found = decode_proto_append(data)
    except MalformedError as error:
        assert plain is None
        _declared(error, ErrorCode.BAD_PROTO)
        return REFUSED
    except InvalidError:
        assert plain is None
        return "invalid"
    assert plain in (None, found)
    batch = found.batch
    message = pb.AppendInput.FromString(data)
    records = [
        (
            record.timestamp if record.HasField("timestamp") else None,
            [(header.name, header.value) for header in record.headers],
            record.body,
        )
        for record in message.records
    ]
    assert batch == build_batch(records)
    assert batch.metered_bytes <= METERED_BYTES_MAX
    assert (found.match_seq_num is not None) == message.HasField("match_seq_num")
    assert (found.fencing_token is not None) == message.HasField("fencing_token")
    assert decode_proto_append(batch.records) == AppendInput(batch, None, None)
    return TAKEN


def check_frames(rng: random.Random, data: bytes) -> str:
    """The same frames however the bytes are cut; what was not compressed is written back to the
    very bytes; no message exceeds its bound."""
    whole, refused = _decode([data])
    pieces = []
    rest = data
    while rest:
        size = rng.choice((1, 2, 3, 4, 7, 100, len(rest)))
        pieces.append(rest[:size])
        rest = rest[size:]
    assert _decode(pieces) == (whole, refused)
    position = 0
    messages_refused = 0
    for frame in whole:
        if frame.is_terminal:
            try:
                status, body = frame.failure()
            except MalformedError:
                messages_refused += 1
            else:
                assert encode_terminal(status, body)[4:] == frame.payload
        else:
            try:
                message = frame.message()
            except MalformedError as error:
                _declared(error, ErrorCode.BAD_FRAME)
                messages_refused += 1
            else:
                assert len(message) <= MESSAGE_BYTES_MAX
                if not frame.compression:
                    again = encode_frame(message, reconnect_advised=frame.reconnect_advised)
                    assert again[:3] == data[position : position + 3]
                    assert again[4:] == data[position + 4 : position + len(again)]
        position += 4 + len(frame.payload)
    if refused or messages_refused:
        return REFUSED
    assert position == len(data)
    return TAKEN


def _decode(pieces: list[bytes]) -> tuple[list[SessionFrame], bool]:
    decoder = FrameDecoder()
    found: list[SessionFrame] = []
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (frame := decoder.next_frame()) is not None:
                found.append(frame)
            assert decoder.held_bytes < 3 + FRAME_BYTES_MAX
        decoder.finish()
    except MalformedError as error:
        _declared(error, ErrorCode.BAD_FRAME)
        return found, True
    return found, False


def check_json(rng: random.Random, data: bytes) -> str:
    """Taken: another JSON reader sees the same records, and no member twice."""
    encoding = rng.choice(tuple(DataFormat))
    try:
        found = decode_json_append(data, encoding)
    except MalformedError as error:
        _declared(error, ErrorCode.BAD_JSON)
        return REFUSED
    except InvalidError:
        return "invalid"
    body = json.loads(data)
    records = pb.AppendInput.FromString(found.batch.records).records
    assert len(records) == found.batch.record_count == len(body["records"])
    assert found.match_seq_num == body.get("match_seq_num")
    assert found.fencing_token == body.get("fencing_token")
    for stored, record in zip(records, body["records"], strict=True):
        timestamp = stored.timestamp if stored.HasField("timestamp") else None
        assert timestamp == record.get("timestamp")
        assert len(stored.headers) == len(record.get("headers") or ())
        assert bool(stored.body) == bool(record.get("body"))
    return TAKEN


def check_event_id(rng: random.Random, data: bytes) -> str:
    """Taken: written back, it is taken to be the same."""
    text = data.decode("latin-1")
    try:
        found = parse_event_id(text)
    except MalformedError as error:
        _declared(error, ErrorCode.BAD_HEADER)
        return REFUSED
    assert max(found.seq_num, found.count, found.metered_bytes) < 2**64
    assert parse_event_id(found.encode().decode()) == found
    return TAKEN


def check_sealed(rng: random.Random, data: bytes) -> str:
    """Taken: sealed and opened, every record is what it was without; nothing of a batch that was
    changed on its way opens to anything else."""
    try:
        batch = decode_proto_append(data).batch
    except (MalformedError, InvalidError):
        return REFUSED
    identity = StreamIdentity(rng.getrandbits(64), 1, rng.choice((AEGIS_256, AES_256_GCM)))
    cipher = RecordCipher(identity, RecordKey(rng.randbytes(KEY_BYTES)), rng.randbytes)
    sealed = seal_batch(batch, identity, cipher.seal)
    count = batch.record_count
    place = BatchPlacement(
        first_seq_num=SeqNum(rng.getrandbits(32)),
        record_count=count,
        metered_bytes=batch.metered_bytes,
        base_timestamp_ms=TimestampMs(0),
        arrival_ms=TimestampMs(rng.getrandbits(40)),
        last_timestamp_ms=TimestampMs(2**64),
        mode=rng.choice(tuple(TimestampingMode)),
        uncapped=rng.random() < 0.5,
        expires_at_ms=None,
    )
    plain = cut([SequencedBatch(place, batch.records)], 0, ReadBudget())
    assert cut([SequencedBatch(place, sealed.records)], 0, ReadBudget(), cipher.open) == plain
    spoilt = bytearray(sealed.records)
    spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    try:
        found = cut([SequencedBatch(place, bytes(spoilt))], 0, ReadBudget(), cipher.open)
    except (DecryptionFailedError, InternalError):
        return TAKEN
    # It hit what stands in the clear: a timestamp or a command record.
    commands = {place.first_seq_num + command.offset for command in batch.commands}
    for one, other in zip(plain, found, strict=True):
        if one.seq_num not in commands:
            assert (one.seq_num, one.headers, one.body) == (
                other.seq_num,
                other.headers,
                other.body,
            )
    return TAKEN


@dataclass(frozen=True, slots=True)
class Parser:
    """`make`: a well-formed input. `check`: raises unless the parser does what it must."""

    name: str
    make: Callable[[random.Random], bytes]
    check: Callable[[random.Random, bytes], str]


PARSERS: Final = (
    Parser("protobuf append", inputs.append_input, check_proto),
    Parser("session frames", inputs.frames, check_frames),
    Parser("JSON append", inputs.json_append, check_json),
    Parser("last-event-id", inputs.event_id, check_event_id),
    Parser("sealed batch", inputs.append_input, check_sealed),
)


class FuzzFailureError(Exception):
    """An input that a parser did the wrong thing with; the cause says what."""


def fuzz(parser: Parser, count: int, seed: int) -> Counter[str]:
    """How often each outcome was seen. Raises FuzzFailureError, which tells seed and input."""
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        data = inputs.spoilt(rng, parser.make(rng))
        try:
            outcomes[parser.check(rng, data)] += 1
        except Exception as fault:
            text = f"{parser.name}, seed {seed}, input {number}: {data[:2000]!r}"
            raise FuzzFailureError(text) from fault
    return outcomes
