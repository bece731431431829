"""Inputs of the native core: appends as clients write them, stored batches, and reads of them."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass
from typing import Any, Final

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import ReadBudget, RecordIn
from svc_cluster.codec.plain_read import RecordForm
from svc_cluster.model.record import BatchPlacement, SequencedBatch, TimestampingMode
from tests.at_once import build_batch
from tests.property.codec.inputs import U64_EDGES, mutated

_TEXTS: Final = (
    "",
    "a",
    "plain text of some length",
    "é",
    "𝄞",
    "€ and more",
    '"',
    "\\",
    "/",
    "\x01",
)
_SPOILT: Final = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\x00")
_NULLS: Final = ("timestamp", "headers", "body")


def text(rng: random.Random) -> str:
    return "".join(rng.choices(_TEXTS, k=rng.choice((0, 1, 1, 2, 3, 9, 40))))


def append_body(rng: random.Random, *, is_base64: bool) -> bytes:
    """A body of the plain shape, written in any of the ways in which JSON may be."""

    def wire(data: str) -> str:
        return base64.b64encode(data.encode()).decode() if is_base64 else data

    records: list[dict[str, Any]] = []
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        record: dict[str, Any] = {}
        if rng.random() < 0.5:
            record["timestamp"] = rng.choice((*U64_EDGES, rng.getrandbits(45)))
        if rng.random() < 0.4:
            names = [wire("n" + text(rng)) for _ in range(rng.choice((0, 1, 2, 5)))]
            record["headers"] = [[name, wire(text(rng))] for name in names]
        if rng.random() < 0.9:
            record["body"] = wire(text(rng))
        if rng.random() < 0.1:
            record.setdefault(rng.choice(_NULLS), None)
        records.append(_shuffled(rng, record))
    body: dict[str, Any] = {"records": records}
    if rng.random() < 0.3:
        body["match_seq_num"] = rng.choice((None, *U64_EDGES))
    if rng.random() < 0.3:
        body["fencing_token"] = rng.choice((None, "", "token", "x" * 36, "x" * 37))
    spaced = rng.random() < 0.3
    return json.dumps(
        _shuffled(rng, body),
        ensure_ascii=rng.random() < 0.5,
        indent=rng.choice((None, 0, "\t")) if spaced else None,
        separators=None if spaced else (",", ":"),
    ).encode()


def _shuffled(rng: random.Random, members: dict[str, Any]) -> dict[str, Any]:
    return dict(rng.sample(list(members.items()), len(members)))


@dataclass(frozen=True, slots=True)
class Read:
    batches: list[SequencedBatch]
    start_seq_num: int
    budget: ReadBudget
    form: RecordForm


def read(rng: random.Random, *, is_plain: bool) -> Read:
    """Batches one behind the other and bounds. With `is_plain` they are as they were stored, and
    their text is UTF-8."""
    batches: list[SequencedBatch] = []
    seq_num = rng.choice((0, 0, 7, 2**32, 2**53))
    begin = seq_num
    latest = rng.choice((0, 1000))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        batch = _sequenced(rng, seq_num, latest, is_plain=is_plain)
        batches.append(batch)
        seq_num = batch.placement.end_seq_num
        latest = batch.placement.last_timestamp_ms
    budget = ReadBudget(
        count=_bound(rng, (0, 1, 3, 1000)),
        metered_bytes=_bound(rng, (0, 7, 8, 30, 300, 2**64 - 1)),
        until_ms=_bound(rng, (0, 1, 1005, 2**63, 2**64 - 1)),
        from_ms=rng.choice((0, 0, 0, 5, 1003, latest, 2**64 - 1)),
    )
    start = rng.randint(begin, seq_num) if rng.random() < 0.5 else 0
    return Read(batches, start, budget, rng.choice(tuple(RecordForm)))


def bounded_read(rng: random.Random, *, is_plain: bool) -> Read:
    """One batch, and bounds that fall within it more often than not."""
    first = rng.choice((0, 7, 2**53))
    batch = _sequenced(rng, first, rng.choice((0, 1000)), is_plain=is_plain)
    place = batch.placement
    budget = ReadBudget(
        count=rng.choice((None, 0, 1, 2, 5)),
        metered_bytes=rng.choice((None, 0, 8, 30, rng.randint(0, place.metered_bytes))),
        until_ms=rng.choice((None, None, 999, 1002, 2**64 - 1)),
        from_ms=rng.choice((0, 0, 0, 1000, 1002, 2**64 - 1)),
    )
    start = rng.choice((0, first + rng.randint(0, max(1, place.record_count))))
    return Read([batch], start, budget, rng.choice(tuple(RecordForm)))


def _bound(rng: random.Random, values: tuple[int, ...]) -> int | None:
    return rng.choice(values) if rng.random() < 0.3 else None


def _bytes(rng: random.Random, *, is_plain: bool) -> bytes:
    data = text(rng).encode()
    if not is_plain and rng.random() < 0.1:
        data += rng.choice(_SPOILT)
    return data


def _records(rng: random.Random, *, is_plain: bool) -> list[RecordIn]:
    records: list[RecordIn] = []
    for _ in range(rng.choice((1, 1, 2, 7, 30))):
        headers = [
            (b"n" + _bytes(rng, is_plain=is_plain), _bytes(rng, is_plain=is_plain))
            for _ in range(rng.choice((0, 0, 1, 3)))
        ]
        given = rng.choice((None, *U64_EDGES, 999, 1001, 1002, 1003))
        records.append((given, headers, _bytes(rng, is_plain=is_plain)))
    if rng.random() < 0.05:  # runs that are full
        size = rng.choice((1, 300, 70_000, 300_000))
        records += [(None, ((b"a", b"b"),) * rng.choice((0, 1, 900)), b"x" * size)] * 3
    if rng.random() < 0.02:
        records += [(None, (), b"")] * (1000 - len(records))
    return records


def _sequenced(rng: random.Random, first: int, base_ms: int, *, is_plain: bool) -> SequencedBatch:
    batch = build_batch(_records(rng, is_plain=is_plain))
    data = batch.records
    count, metered_bytes = batch.record_count, batch.metered_bytes
    if not is_plain and rng.random() < 0.3:
        data = mutated(rng, data)
    if not is_plain and rng.random() < 0.05:
        count += rng.choice((-1, 1, 5000))
    return SequencedBatch(
        BatchPlacement(
            first_seq_num=SeqNum(first),
            record_count=max(0, count),
            metered_bytes=metered_bytes,
            base_timestamp_ms=TimestampMs(base_ms),
            arrival_ms=TimestampMs(rng.choice((base_ms, 1000, 1001, 2**62))),
            last_timestamp_ms=TimestampMs(rng.choice((base_ms, max(base_ms, 1004)))),
            mode=rng.choice(tuple(TimestampingMode)),
            uncapped=rng.random() < 0.5,
            expires_at_ms=None,
        ),
        data,
    )
