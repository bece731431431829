"""One input, by the native core and by Python alone: nothing may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from svc_cluster import _native
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.steps import at_once
from svc_cluster.codec.batch_codec import cut_steps
from svc_cluster.codec.batch_cut import HEADERS_MAX, cut_batches
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.plain_read import JSON_FORMS, EncodedRun, RecordForm, run_steps
from svc_cluster.codec.read_batch import json_steps, proto_steps
from svc_cluster.model.read_bounds import ReadBounds
from svc_cluster.model.record import SequencedBatch
from tests.at_once import decode_json_append
from tests.property.native.inputs import Read

_DATA_FORMATS = {form: data_format for data_format, form in JSON_FORMS.items()}


@contextmanager
def using(module: ModuleType | None) -> Iterator[None]:
    """Around what is done with this core; None: with Python alone."""
    core = _native.core
    before = core.cut_stored, core.encode_append, core.encode_read
    core.cut_stored = None if module is None else module.cut_stored
    core.encode_append = None if module is None else module.encode_append
    core.encode_read = None if module is None else module.encode_read
    try:
        yield
    finally:
        core.cut_stored, core.encode_append, core.encode_read = before


def append_agrees(module: ModuleType, body: bytes, data_format: DataFormat) -> bool:
    """Whether the core answered at all. Raises AssertionError where it answers otherwise."""
    with using(None):
        expected = _outcome(lambda: decode_json_append(body, data_format))
    with using(module):
        assert _outcome(lambda: decode_json_append(body, data_format)) == expected
    return module.encode_append(body, data_format is DataFormat.BASE64) is not None


def read_agrees(module: ModuleType, read: Read) -> bool:
    """Whether the core encoded anything. Raises AssertionError where that is not what Python makes
    of it: the same runs of the same bytes, and the same left of the budget."""
    encoded: list[bool] = []
    with using(None):
        expected = _outcome(lambda: _runs(read, []))
    with using(module):
        assert _outcome(lambda: _runs(read, encoded)) == expected
    return any(encoded)


def cut_agrees(module: ModuleType, read: Read) -> bool:
    """Whether the core found the part of any batch. Raises AssertionError where that is not the one
    that Python finds, or where a read of what is left is another than one of the whole batches."""
    with using(None):
        whole = _outcome(lambda: _cut_records(read, read.batches))
        by_python = _cut(read)
        left = _outcome(lambda: _cut_records(read, by_python))
    with using(module):
        by_core = _cut(read)
    assert left == whole
    if by_core != by_python:
        assert _has_many_headers(read), "Python finds the same"
        with using(None):
            assert _outcome(lambda: _cut_records(read, by_core)) == whole
    return any(one is not other for one, other in zip(by_core, read.batches, strict=True))


def _cut(read: Read) -> list[SequencedBatch]:
    budget = read.budget
    bounds = ReadBounds(budget.count, budget.metered_bytes, budget.until_ms)
    # only the first and the last are cut, and only the last goes beyond the bounds
    return cut_batches(read.batches[:1], read.start_seq_num, bounds, budget.from_ms, 0)


def _cut_records(read: Read, batches: list[SequencedBatch]) -> list[Any]:
    """The records that a read of the first batch gives out, and whether it is over then."""
    budget = replace(read.budget)
    runs = cut_steps(batches[:1], read.start_seq_num, budget, None)
    return [[each for run in runs for each in run or ()], budget.exhausted]


def _has_many_headers(read: Read) -> bool:
    return any(batch.records.count(b"\x12") > HEADERS_MAX for batch in read.batches)


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ServiceError as error:
        return type(error), str(error)


def _runs(read: Read, encoded: list[bool]) -> list[Any]:
    budget = replace(read.budget)
    out: list[Any] = []
    for run in run_steps(read.batches, read.start_seq_num, budget, None, read.form):
        if run is None:
            continue
        encoded += [isinstance(piece, EncodedRun) for piece in run]
        steps = (
            proto_steps(run, None)
            if read.form is RecordForm.PROTOBUF
            else json_steps(run, None, _DATA_FORMATS[read.form])
        )
        count = sum(piece.count for piece in run)
        size = sum(piece.metered_bytes for piece in run)
        ends = (run[0].seq_num, run[-1].end_seq_num) if run else None
        out.append((at_once(steps), count, size, ends))
    return [out, budget]
