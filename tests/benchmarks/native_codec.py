"""What the native core saves: `python -m tests.benchmarks.native_codec [--rounds N]`.

Every case by Python alone and with the core, turn by turn in one process; the best of all rounds is
told, in microseconds of processor time a body or an answer, and their ratio. The last part is the
longest that one call of the core takes with what is dear for it.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from svc_cluster import _native
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.base.steps import at_once
from svc_cluster.codec.batch_codec import ReadBudget, RecordIn
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX, RECORDS_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.plain_append import BODY_BYTES_MAX
from svc_cluster.codec.plain_read import JSON_FORMS, Piece, RecordForm, run_steps
from svc_cluster.codec.read_batch import json_steps, proto_steps
from svc_cluster.model.record import BatchPlacement, SequencedBatch, TimestampingMode
from tests.at_once import build_batch, decode_json_append

_DATA_FORMATS = {form: data_format for data_format, form in JSON_FORMS.items()}
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def append_body(count: int, size: int, data_format: DataFormat, *, headers: int = 0) -> bytes:
    rng = random.Random(1)
    records: list[dict[str, Any]] = []
    for _ in range(count):
        text = "".join(rng.choices(ALPHABET, k=size))
        if data_format is DataFormat.BASE64:
            text = base64.b64encode(rng.randbytes(size)).decode()
        record: dict[str, Any] = {"body": text}
        if headers:
            record["headers"] = [["name", "dmFsdWUx"]] * headers
        records.append(record)
    return json.dumps({"records": records}, separators=(",", ":")).encode()


def sequenced(records: list[RecordIn], batches: int = 1) -> list[SequencedBatch]:
    batch = build_batch(records)
    place = BatchPlacement(
        first_seq_num=SeqNum(1_000_000),
        record_count=batch.record_count,
        metered_bytes=batch.metered_bytes,
        base_timestamp_ms=TimestampMs(1_700_000_000_000),
        arrival_ms=TimestampMs(1_700_000_000_007),
        last_timestamp_ms=TimestampMs(1_700_000_000_007),
        mode=TimestampingMode.CLIENT_PREFER,
        uncapped=False,
        expires_at_ms=None,
    )
    out = []
    for _ in range(batches):
        out.append(SequencedBatch(place, batch.records))
        place = replace(place, first_seq_num=place.end_seq_num)
    return out


def answer(batches: list[SequencedBatch], form: RecordForm, start: int, count: int) -> bytes:
    """As a unary read makes it."""
    budget = ReadBudget(count=count, metered_bytes=METERED_BYTES_MAX)
    pieces: list[Piece] = []
    for run in run_steps(batches, start, budget, None, form):
        pieces += run or ()
    if form is RecordForm.PROTOBUF:
        return at_once(proto_steps(pieces, None))
    return at_once(json_steps(pieces, None, _DATA_FORMATS[form]))


def best(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Seconds by Python alone and with the core, which make the same."""
    found = {False: float("inf"), True: float("inf")}
    made: list[object] = []
    for wanted in (False, True):
        _native.use(wanted=wanted)
        made.append(call())
    assert made[0] == made[1], "the bytes are the same"
    for _ in range(rounds):
        for wanted in (False, True):
            _native.use(wanted=wanted)
            begin = time.thread_time()
            repeats = 0
            while repeats == 0 or time.thread_time() - begin < 0.01:
                call()
                repeats += 1
            found[wanted] = min(found[wanted], (time.thread_time() - begin) / repeats)
    return found[False], found[True]


def cases() -> dict[str, Callable[[], object]]:
    out: dict[str, Callable[[], object]] = {}
    for data_format in DataFormat:
        for count, size in ((1, 1024), (100, 100), (100, 1024), (10, 100_000)):
            body = append_body(count, size, data_format)
            name = f"append {data_format.value}, {count} x {size} B"
            out[name] = lambda b=body, f=data_format: decode_json_append(b, f)  # type: ignore[misc]
        body = append_body(100, 100, data_format, headers=2)
        name = f"append {data_format.value}, 100 x 100 B, two headers"
        out[name] = lambda b=body, f=data_format: decode_json_append(b, f)  # type: ignore[misc]
    text = "".join(random.Random(1).choices(ALPHABET, k=100_000)).encode()
    stored = {
        "1 x 1024 B": (sequenced([(None, (), text[:1024])]), RECORDS_MAX),
        "100 x 100 B": (sequenced([(None, (), text[:100])] * 100), RECORDS_MAX),
        "1000 x 1000 B": (sequenced([(None, (), text[:1000])] * 1000), RECORDS_MAX),
        "1000 batches of 1 x 1000 B": (sequenced([(None, (), text[:1000])], 1000), RECORDS_MAX),
        "1 of 1000 x 1000 B": (sequenced([(None, (), text[:1000])] * 1000), 1),
        "10 x 100000 B": (sequenced([(None, (), text)] * 10), RECORDS_MAX),
    }
    for form in RecordForm:
        for name, (batches, count) in stored.items():
            start = 1_000_000 if count > 1 else 1_000_500
            out[f"read {form.name.lower()}, {name}"] = lambda b=batches, f=form, s=start, c=count: (  # type: ignore[misc]
                answer(b, f, s, c)
            )
    return out


def longest_calls() -> dict[str, float]:
    """The seconds of processor time of the longest call of each function."""
    headers = b",".join([b'["a",""]'] * 16_384)
    appends = {
        "append: blanks": b"{" + b" " * (BODY_BYTES_MAX - 20) + b'"records":[{}]}',
        "append: escapes": b'{"records":[{"body":"%b"}]}' % (b"\\u00e9" * 260_000),
        "append: text": b'{"records":[{"body":"%b"}]}' % ("é".encode() * 520_000),
        "append: headers": b'{"records":[{"headers":[%b]}]}' % headers,
        "append: not plain at its end": b'{"records":[{"body":"%b"}]} x' % (b"\\n" * 780_000),
    }
    out = {name: _timed(lambda b=body: _encode_append(b)) for name, body in appends.items()}  # type: ignore[misc]
    full = sequenced([(None, (), b"\x01" * 262)] * 970)
    crowded = sequenced([(None, ((b"a", b""),) * 16, b"")] * 1000, 4)
    for name, batches in (("read: escapes", full), ("read: headers", crowded)):
        out[name] = _timed(lambda b=batches: answer(b, RecordForm.UTF8, 0, RECORDS_MAX))  # type: ignore[misc]
    return out


def _encode_append(body: bytes) -> object:
    encode = _native.core.encode_append
    assert encode is not None, "the core is in use"
    return encode(body, False)


def _timed(call: Callable[[], object]) -> float:
    found = float("inf")
    for _ in range(5):
        begin = time.thread_time()
        call()
        found = min(found, time.thread_time() - begin)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if not _native.use(wanted=True):
        print("the native core is not built")
        return 1
    for name, call in cases().items():
        python, native = best(call, options.rounds)
        print(f"{name:45} {python * 1e6:10.1f} {native * 1e6:10.1f} {python / native:6.1f}")
    for name, seconds in longest_calls().items():
        print(f"{name:45} {seconds * 1e3:8.2f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
