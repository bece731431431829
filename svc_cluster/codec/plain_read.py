"""What a read returns, in runs that are encoded already where the native core can do it.

The core makes of stored batches what `batch_codec` and `read_batch` make, without an object of each
record. A run that is not plain (a record that is long, text that is no UTF-8, a sealed stream) is
cut by `batch_codec`, and encoded later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from svc_cluster._native import AT_END, AT_LIMIT, IS_FULL, Stored, core
from svc_cluster.codec.batch_codec import (
    RUN_BYTES_MAX,
    Open,
    ReadBudget,
    RecordOut,
    cut_steps,
)
from svc_cluster.codec.batch_rules import RECORDS_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.model.record import SequencedBatch, TimestampingMode


class RecordForm(IntEnum):
    """How records are written in an answer, by the number that the core knows it by."""

    PROTOBUF = 0
    BASE64 = 1
    """JSON, as the two of `DataFormat`."""
    UTF8 = 2


JSON_FORMS = {DataFormat.BASE64: RecordForm.BASE64, DataFormat.UTF8: RecordForm.UTF8}


@dataclass(frozen=True, slots=True)
class EncodedRun:
    """Records one behind the other, in JSON with commas between them."""

    encoded: bytes
    count: int
    metered_bytes: int
    seq_num: int
    """The first one has it; of no meaning without records."""
    end_seq_num: int
    """Behind the last one; the same."""


Piece = RecordOut | EncodedRun


def run_steps(
    batches: Sequence[SequencedBatch],
    start_seq_num: int,
    budget: ReadBudget,
    open_record: Open | None,
    form: RecordForm,
) -> Iterator[Sequence[Piece] | None]:
    """Does what `cut_steps` does, and gives out runs of the same records, some of them encoded in
    `form`."""
    has_more = True
    while has_more and open_record is None and not budget.stopped:
        found = _encoded_run(batches, start_seq_num, budget, form)
        if found is None:
            break
        run, has_more = found
        yield [run] if run.count else []
        start_seq_num = run.end_seq_num
    if has_more:
        yield from cut_steps(batches, start_seq_num, budget, open_record)


def _encoded_run(
    batches: Sequence[SequencedBatch], start_seq_num: int, budget: ReadBudget, form: RecordForm
) -> tuple[EncodedRun, bool] | None:
    """The next run, and whether there is another. None: it is not plain. `budget` is reduced."""
    encode = core.encode_read
    if encode is None:
        return None
    stored, is_all = _first_batches(batches, start_seq_num, budget)
    bounds = (budget.count, budget.metered_bytes, budget.until_ms, budget.from_ms)
    found = encode(stored, form, start_seq_num, *bounds)
    if found is None:
        return None
    run, outcome = EncodedRun(*found[:5]), found[5]
    if outcome == AT_END and not is_all:
        if run.count == 0:
            return None
        outcome = IS_FULL
    if budget.count is not None:
        budget.count -= run.count
    if budget.metered_bytes is not None:
        budget.metered_bytes -= run.metered_bytes
    if outcome == AT_LIMIT:
        budget.stopped = True
    return run, outcome == IS_FULL


def _first_batches(
    batches: Sequence[SequencedBatch], start_seq_num: int, budget: ReadBudget
) -> tuple[tuple[Stored, ...], bool]:
    """What a run may need of the batches from `start_seq_num` on, and whether that is all."""
    out: list[Stored] = []
    count = size = 0
    for batch in batches:
        placement = batch.placement
        if placement.end_seq_num <= start_seq_num:
            continue
        if (size > RUN_BYTES_MAX or count > RECORDS_MAX) and budget.from_ms <= 0:
            return tuple(out), False
        if out:  # the first one is perhaps wanted in part
            count += placement.record_count
            size += placement.metered_bytes
        out.append(
            (
                batch.records,
                placement.first_seq_num,
                placement.record_count,
                placement.base_timestamp_ms,
                placement.arrival_ms,
                placement.mode is TimestampingMode.ARRIVAL,
                placement.uncapped,
            )
        )
    return tuple(out), True
