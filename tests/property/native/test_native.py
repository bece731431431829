"""The native core, compiled from this tree: on every input what Python says, or nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import ReadBudget, RecordIn
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX, RECORDS_MAX
from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.plain_read import RecordForm, run_steps
from svc_cluster.model.record import BatchPlacement, SequencedBatch, TimestampingMode
from tests.at_once import build_batch
from tests.native_build import SANITIZERS, compiled, compiler, core_of_this_tree
from tests.native_fuzz import sanitized
from tests.property.codec.inputs import json_append, spoilt
from tests.property.native import inputs
from tests.property.native.differential import append_agrees, cut_agrees, read_agrees, using
from tests.property.native.inputs import Read

pytestmark = pytest.mark.skipif(compiler() is None, reason="no compiler with Python's headers")


@pytest.fixture(scope="module")
def core() -> ModuleType:
    return core_of_this_tree()


RANDOM = st.randoms(use_true_random=False)
TEXT = st.text(st.sampled_from('a"\\/é€\U0001f600\n\x01\x7f\u2028=+A'), max_size=12)
NUMBER = st.none() | st.integers(-1, 2**64) | st.sampled_from((0, 2**64 - 1))
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "body": st.none() | TEXT,
        "headers": st.none() | st.lists(st.tuples(TEXT, TEXT), max_size=3),
        "timestamp": NUMBER,
        "b\\u006fdy": TEXT,
    },
)
APPEND = st.fixed_dictionaries(
    {"records": st.lists(RECORD, max_size=3)},
    optional={"match_seq_num": NUMBER, "fencing_token": st.none() | TEXT, "also": st.none()},
)


@given(append=APPEND, ascii_only=st.booleans(), indent=st.none() | st.just(1))
@settings(max_examples=500)
def test_any_append_is_what_python_makes_of_it(
    core: ModuleType, append: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    """Numbers at their edges, every kind of escape, members that are missing or unknown."""
    body = json.dumps(append, ensure_ascii=ascii_only, indent=indent).encode()
    for data_format in DataFormat:
        append_agrees(core, body, data_format)


@given(rng=RANDOM, data_format=st.sampled_from(DataFormat))
@settings(max_examples=500)
def test_spoilt_appends_are_what_python_makes_of_them(
    core: ModuleType, rng: random.Random, data_format: DataFormat
) -> None:
    """Cut, repeated, changed and noise, of every shape."""
    body = inputs.append_body(rng, is_base64=data_format is DataFormat.BASE64)
    for each in (spoilt(rng, body), spoilt(rng, json_append(rng))):
        append_agrees(core, each, data_format)


@pytest.mark.parametrize("data_format", DataFormat)
def test_every_plain_append_is_answered(core: ModuleType, data_format: DataFormat) -> None:
    """None is for what is not plain: whatever a client writes by the book is taken. A fencing token
    that is too long is not, and Python says so."""
    rng = random.Random(1)
    for _ in range(1000):
        body = inputs.append_body(rng, is_base64=data_format is DataFormat.BASE64)
        has_long_token = b'"' + 37 * b"x" + b'"' in body
        assert append_agrees(core, body, data_format) is not has_long_token, body


@given(rng=RANDOM, is_plain=st.booleans())
@settings(max_examples=500)
def test_any_read_is_what_python_makes_of_it(
    core: ModuleType, rng: random.Random, is_plain: bool
) -> None:
    """Every form, start and bound; batches that are not what was stored, or not as many records."""
    read_agrees(core, inputs.read(rng, is_plain=is_plain))


@given(rng=RANDOM, is_plain=st.booleans())
@settings(max_examples=500)
def test_the_part_of_a_batch_that_is_read_says_what_all_of_it_says(
    core: ModuleType, rng: random.Random, is_plain: bool
) -> None:
    """By the core and by Python: the same part, which has the records that the read returns and
    lets it end where it would."""
    cut_agrees(core, inputs.bounded_read(rng, is_plain=is_plain))


def test_the_part_of_a_plain_batch_is_found_by_the_core(core: ModuleType) -> None:
    """What begins within a batch, or ends there, is left of it."""
    rng = random.Random(1)
    reads = [inputs.bounded_read(rng, is_plain=True) for _ in range(1000)]
    assert sum(cut_agrees(core, read) for read in reads) > 300


def test_every_plain_read_is_answered(core: ModuleType) -> None:
    """Where Python would give out a record that is not long, the core has encoded it."""
    rng = random.Random(1)
    answered = 0
    for _ in range(1000):
        read = inputs.read(rng, is_plain=True)
        unbounded = Read(read.batches, 0, ReadBudget(), read.form)
        is_short = all(len(batch.records) < 60_000 for batch in read.batches)
        if read.batches and is_short:
            assert read_agrees(core, unbounded), read
            answered += 1
    assert answered > 500


RECORDS: dict[str, list[RecordIn]] = {
    "the most records": [(2**64 - 1, ((b"n", b"v"),), b"x")] * RECORDS_MAX,
    "many runs": [(None, (), b"x" * 1000)] * 900,
    "many headers": [(1, ((b"n", b""),) * 20, b"")] * 800,
    "more headers than are taken": [(1, ((b"n", b""),) * 400, b"")] * 500,
    "a long body": [(5, (), b"y" * 700_000), (6, (), b"z")],
    "a command": [(None, ((b"", b"fence"),), b"token"), (None, (), b"z")],
    "text that is none": [(None, (), b"z"), (None, (), b"\xff")],
    "escapes": [(None, (), bytes(range(32)) * 4000)],
}


@pytest.mark.parametrize("form", RecordForm)
@pytest.mark.parametrize("shape", RECORDS)
def test_large_batches_are_what_python_makes_of_them(
    core: ModuleType, shape: str, form: RecordForm
) -> None:
    """Runs end where Python's end, by records, bytes and headers, from every start."""
    batch = build_batch(RECORDS[shape])
    count = batch.record_count
    placement = BatchPlacement(
        first_seq_num=SeqNum(10),
        record_count=count,
        metered_bytes=batch.metered_bytes,
        base_timestamp_ms=TimestampMs(3),
        arrival_ms=TimestampMs(9),
        last_timestamp_ms=TimestampMs(9),
        mode=TimestampingMode.CLIENT_PREFER,
        uncapped=True,
        expires_at_ms=None,
    )
    behind = replace(placement, first_seq_num=placement.end_seq_num)
    batches = [SequencedBatch(place, batch.records) for place in (placement, behind)]
    for start in (0, 10 + count // 2, 10 + count):
        for budget in (
            ReadBudget(),
            ReadBudget(count=RECORDS_MAX, metered_bytes=METERED_BYTES_MAX),
            ReadBudget(count=1),
            ReadBudget(until_ms=2**64 - 1),
        ):
            read_agrees(core, Read(batches, start, budget, form))


@pytest.mark.parametrize(
    "body",
    [
        b'{"records":[%b]}' % b",".join([b"{}"] * RECORDS_MAX),
        b'{"records":[%b]}' % b",".join([b"{}"] * (RECORDS_MAX + 1)),
        b'{"records":[{"body":"%b"}]}' % (b"x" * (METERED_BYTES_MAX - 8)),
        b'{"records":[{"body":"%b"}]}' % (b"x" * (METERED_BYTES_MAX - 7)),
        b'{"records":[{"headers":[%b]}]}' % b",".join([b'["a",""]'] * 20_000),
        b'{"records":[{"headers":[["a","b"]],"body":"c","headers":[["a","b"]]}]}',
        b'{"records":[{}],"records":[{}]}',
        b'{"records":[{}]} x',
        b'{"records":[{"timestamp":01}]}',
        b'{"records":[{"timestamp":1.0}]}',
        b'{"records":[{"timestamp":-0}]}',
        b'{"records":[{"timestamp":18446744073709551616}]}',
        b'{"records":[{"body":"\\ud83d\\ude00 \\u0000 \\ud83d"}]}',
        b'{"records":[{"body":"\xed\xa0\x80"}]}',
        b'{"records":[{"headers":[["","fence"]],"body":"t"}]}',
        b'{"records":[{"body":"QQ=="},{"body":"QUI="}]}',
        b'{"records":[{"body":"QR=="}]}',
        b'{"records":[{"body":"QUJ="}]}',
        b'{"records":[{"body":"QQ="}]}',
        b'{"records":[{"body":"="}]}',
        b'{"records":[{"body":"===="}]}',
        b'{"records":[{"body":null,"headers":null,"timestamp":null}],"fencing_token":null}',
        b'{"records":[{}],"fencing_token":"%b"}' % (b"t" * 36),
        b'{"records":[{}],"fencing_token":"%b"}' % (b"t" * 37),
        # Python takes a body to pieces, and so refuses it in other words, where it is heavy
        b'{"records":[{"body":"%b"}],"fencing_token":"%b"}' % (b"\\n" * 140_000, b"t" * 70_000),
        b"",
        b"{",
        b'{"records":[{"body":"',
    ],
)
def test_appends_at_the_limits_are_what_python_makes_of_them(core: ModuleType, body: bytes) -> None:
    """At each bound and one beyond; whatever is refused is refused in Python's words."""
    for data_format in DataFormat:
        append_agrees(core, body, data_format)


@pytest.mark.parametrize("form", RecordForm)
def test_a_batch_that_ends_or_differs_anywhere_is_what_python_makes_of_it(
    core: ModuleType, form: RecordForm
) -> None:
    """Cut behind every byte, and every byte one higher or lower, as lengths and tags may be."""
    batch = build_batch([(300, ((b"name", b""), (b"n", b"value")), b"body"), (None, (), b"x")])
    placement = BatchPlacement(
        first_seq_num=SeqNum(1),
        record_count=batch.record_count,
        metered_bytes=batch.metered_bytes,
        base_timestamp_ms=TimestampMs(3),
        arrival_ms=TimestampMs(9),
        last_timestamp_ms=TimestampMs(9),
        mode=TimestampingMode.CLIENT_PREFER,
        uncapped=False,
        expires_at_ms=None,
    )
    data = batch.records
    changed = [data[:end] for end in range(len(data))]
    for place, byte in enumerate(data):
        others = (bytes((other % 256,)) for other in (byte - 1, byte + 1))
        changed += [data[:place] + other + data[place + 1 :] for other in others]
    for each in (data, *changed):
        one = SequencedBatch(placement, each)
        answered = read_agrees(core, Read([one], 0, ReadBudget(), form))
        assert answered or each != data
        stored = (each, 1, 2, 3, 9, False, False)
        if len(each) < len(data):
            assert core.encode_read((stored,), form, 0, None, None, None, 0) is None


def test_placements_that_lie_about_sizes_lose_no_record(core: ModuleType) -> None:
    """How many batches are looked at for a run goes by their placements; how far it goes does
    not."""
    batch = build_batch([(None, (), b"x")])
    batches = []
    for first in range(20):
        placement = BatchPlacement(
            first_seq_num=SeqNum(first),
            record_count=1,
            metered_bytes=200_000,
            base_timestamp_ms=TimestampMs(3),
            arrival_ms=TimestampMs(9),
            last_timestamp_ms=TimestampMs(9),
            mode=TimestampingMode.ARRIVAL,
            uncapped=False,
            expires_at_ms=None,
        )
        batches.append(SequencedBatch(placement, batch.records))
    with using(core):
        runs = list(run_steps(batches, 0, ReadBudget(), None, RecordForm.UTF8))
    assert sum(piece.count for run in runs for piece in run or ()) == 20


def test_values_that_are_no_64_bits_are_left_to_python(core: ModuleType) -> None:
    """Neither an answer nor an exception for a number that is too large or negative; what is no
    number at all is a fault of the caller."""
    stored = (b"\x0a\x00", 0, 1, 0, 0, False, False)
    assert core.encode_read((stored,), 0, 0, None, None, None, 0) == (
        *(b"\x0a\x00", 1, 8, 0, 1, 0),
    )
    for place in (1, 2, 3, 4):
        for value in (-1, 2**64):
            odd = (*stored[:place], value, *stored[place + 1 :])
            assert core.encode_read((odd,), 0, 0, None, None, None, 0) is None
    assert core.encode_read((stored,), 3, 0, None, None, None, 0) is None
    assert core.encode_read((stored,), 0, 0, -1, None, None, 0) is None
    for wrong in (
        ([stored], 0, 0, None, None, None, 0),
        ((stored[:6],), 0, 0, None, None, None, 0),
    ):
        with pytest.raises(TypeError):
            core.encode_read(*wrong)
    assert core.cut_stored(stored, 0, None, None, None, 0) == (0, 2, 0, 1, 8, 0, 0)
    assert core.cut_stored((*stored[:1], -1, *stored[2:]), 0, None, None, None, 0) is None
    assert core.cut_stored(stored, -1, None, None, None, 0) is None
    with pytest.raises(TypeError):
        core.cut_stored(stored[:6], 0, None, None, None, 0)
    with pytest.raises(TypeError):
        core.cut_stored(stored, 0, None, None, None)
    with pytest.raises(TypeError):
        core.encode_append("{}", False)
    with pytest.raises(TypeError):
        core.encode_append(b"{}")


def test_it_reads_and_writes_nothing_beyond_its_bounds(tmp_path: Path) -> None:
    """Under both sanitizers, which end the process at the first fault. `make native-fuzz` takes it
    further."""
    cc = compiler()
    assert cc is not None
    made = compiled(tmp_path, *SANITIZERS)
    command = [sys.executable, "-m", "tests.property.native", "--core", str(made)]
    done = subprocess.run(
        [*command, "--inputs", "400", "--seed", "7"],
        env=os.environ | sanitized(cc),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
