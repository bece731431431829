"""`svc-cluster stream append`, `read`, `tail`, `follow`, `trim` and `fence`."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from svc_cluster.cli.data.printing import say_json, size
from svc_cluster.cli.data.read_options import Format, ReadFormat, ReadOptions
from svc_cluster.cli.data.record_output import RecordOutput
from svc_cluster.cli.data.record_text import RecordFormat
from svc_cluster.cli.data.standard_input import STANDARD_INPUT, RecordInput
from svc_cluster.cli.data.stream_key_file import KeyFile, stream_key
from svc_cluster.cli.data.stream_names import StreamName, stream_name
from svc_cluster.cli.data.stream_verbs import Named, streams
from svc_cluster.cli.data.verb import INTERRUPTED, UsageFault, VerbCall, on_interrupt
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.definite_append import PATIENCE_SECONDS, BatchAck, DefiniteAppender
from svc_cluster.client.stream_reading import (
    StreamBounds,
    StreamFollowing,
    StreamStart,
    read_pages,
)
from svc_cluster.client.wire_records import AppendRecord

LINGER_SECONDS: Final = 0.05
"""So long the first record that comes through a pipe waits for others."""
PROGRESS_SECONDS: Final = 0.5
"""Between two lines of progress on a terminal."""
FENCING_BYTES_MAX: Final = 36
U64_MAX: Final = 2**64 - 1

FencingToken = Annotated[
    str | None, typer.Option(help="Only if this is the stream's fencing token.")
]
Patient = Annotated[
    float,
    typer.Option(
        "--patience",
        min=0,
        max=43_200,
        help="Seconds without an answer before it is given up.",
    ),
]


__all__ = ["streams"]


@streams.verb("append")
async def append(
    call: VerbCall,
    stream: Named,
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A record a line; - is standard input.")
    ] = Path("-"),
    format_: Format = RecordFormat.TEXT,
    match_seq_num: Annotated[
        int | None,
        typer.Option(min=0, max=U64_MAX, help="Only if the first record gets this number."),
    ] = None,
    fencing_token: FencingToken = None,
    linger: Annotated[
        float, typer.Option(min=0, max=60, help="Seconds that a record waits for others.")
    ] = LINGER_SECONDS,
    patience: Patient = PATIENCE_SECONDS,
    key_file: KeyFile = None,
) -> None:
    """Append the lines of a file or a pipe, in their order, each once. It ends with how many were
    appended and where; what fails for a moment is tried again under the same request token, so
    that nothing is appended twice. With --match-seq-num every record has the number behind the one
    before it, or none is appended."""
    name = stream_name(stream)
    call.client.key = stream_key(key_file)
    with _opened(source) as handle:
        place = STANDARD_INPUT if handle == 0 else str(source)
        lines = RecordInput(handle, format_, linger, place)
        appender = DefiniteAppender(
            call.client, name.basin, name.stream, call.patience(patience), call.new_token
        )
        appending = _Appending(call, name)
        on_interrupt(lines.stop)
        is_conditional = match_seq_num is not None
        try:
            async for batch in lines.batches():
                ack = await appender.append(
                    batch.records, match_seq_num=match_seq_num, fencing_token=fencing_token
                )
                match_seq_num = ack.end.seq_num if is_conditional else None
                appending.note(ack, batch.metered_bytes)
        except ClientError as cause:
            appending.clear()
            raise ClientError(f"{cause} ({appending.told()} before it)") from cause
    appending.end()
    if lines.is_stopped:
        raise SystemExit(INTERRUPTED)


class _Appending:
    """What has been appended, and how it is told."""

    def __init__(self, call: VerbCall, name: StreamName) -> None:
        self._call = call
        self._name = name
        self._records = 0
        self._bytes = 0
        self._first: BatchAck | None = None
        self._last: BatchAck | None = None
        self._shows = sys.stderr.isatty()
        self._shown_at = call.clock.monotonic()

    def note(self, ack: BatchAck, metered_bytes: int) -> None:
        self._records += ack.end.seq_num - ack.start.seq_num
        self._bytes += metered_bytes
        self._first = self._first or ack
        self._last = ack
        now = self._call.clock.monotonic()
        if self._shows and now - self._shown_at >= PROGRESS_SECONDS:
            self._shown_at = now
            sys.stderr.write(f"\r\x1b[K{self.told()}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the line of progress away."""
        if self._shows:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def told(self) -> str:
        if self._first is None or self._last is None:
            return "nothing was appended"
        noun = "record" if self._records == 1 else "records"
        first, last = self._first.start.seq_num, self._last.end.seq_num - 1
        places = f"number {first}" if first == last else f"numbers {first} to {last}"
        if last - first + 1 != self._records:  # others append too
            places = f"between the numbers {first} and {last}"
        return f"{self._records} {noun} of {size(self._bytes)} appended to {self._name}, {places}"

    def end(self) -> None:
        self.clear()
        if not self._call.is_json:
            say(self.told())
            return
        first, last = self._first, self._last
        say_json(
            {
                "records": self._records,
                "metered_bytes": self._bytes,
                "start": None if first is None else first.start,
                "end": None if last is None else last.end,
                "tail": None if last is None else last.tail,
            }
        )


@streams.verb("read")
async def read(
    call: VerbCall,
    stream: Named,
    options: ReadOptions,
    key_file: KeyFile = None,
) -> None:
    """Print records up to the tail, from the first one where nothing else is said. As text, only
    bodies are printed and no command records."""
    start = options.start(StreamStart("seq_num", 0))
    name = stream_name(stream)
    call.client.key = stream_key(key_file)
    pages = read_pages(
        *(call.client, name.basin, name.stream, start, options.bounds, call.patience()),
        clamp=options.clamp,
    )
    with RecordOutput(call, options.format_) as out:
        async for records in pages:
            out.write(records)


@streams.verb("tail")
async def tail(
    call: VerbCall,
    stream: Named,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="So many records.")] = 10,
    is_following: Annotated[
        bool, typer.Option("--follow", help="And go on with what comes.")
    ] = False,
    format_: ReadFormat = None,
    patience: Patient = PATIENCE_SECONDS,
    key_file: KeyFile = None,
) -> None:
    """Print the last records."""
    name = stream_name(stream)
    call.client.key = stream_key(key_file)
    start = StreamStart("tail_offset", count)
    if is_following:
        await _follow(call, name, start, StreamBounds(), format_, patience, clamp=True)
        return
    bounds = StreamBounds(count)
    pages = read_pages(call.client, name.basin, name.stream, start, bounds, call.patience())
    with RecordOutput(call, format_) as out:
        async for records in pages:
            out.write(records)


@streams.verb("follow")
async def follow(
    call: VerbCall,
    stream: Named,
    options: ReadOptions,
    patience: Patient = PATIENCE_SECONDS,
    key_file: KeyFile = None,
) -> None:
    """Print records as they come, from the tail where nothing else is said. When its server goes
    away it goes on behind the last record that it has printed, so that none is lost or printed
    twice."""
    start = options.start(StreamStart("tail_offset", 0))
    call.client.key = stream_key(key_file)
    await _follow(
        *(call, stream_name(stream), start, options.bounds, options.format_, patience),
        clamp=options.clamp,
    )


async def _follow(
    call: VerbCall,
    name: StreamName,
    start: StreamStart,
    bounds: StreamBounds,
    form: RecordFormat | None,
    patience: float,
    *,
    clamp: bool,
) -> None:
    following = StreamFollowing(
        call.client, name.basin, name.stream, start, bounds, call.patience(patience), clamp=clamp
    )
    with RecordOutput(call, form) as out:
        async for records in following.batches():
            out.write(records)


@streams.verb("trim")
async def trim(
    call: VerbCall,
    stream: Named,
    seq_num: Annotated[
        int, typer.Argument(metavar="SEQ_NUM", min=0, max=U64_MAX, help="The first that is kept.")
    ],
    fencing_token: FencingToken = None,
    key_file: KeyFile = None,
) -> None:
    """Remove all records before a number. The command is a record of the stream itself."""
    call.client.key = stream_key(key_file)
    record = AppendRecord(seq_num.to_bytes(8, "big"), ((b"", b"trim"),))
    ack = await _command(call, stream_name(stream), record, fencing_token)
    if call.is_json:
        say_json({"seq_num": ack.start.seq_num, "trim_point": seq_num, "tail": ack.tail})
    else:
        say(f"records before {seq_num} are removed; the command has number {ack.start.seq_num}")


@streams.verb("fence")
async def fence(
    call: VerbCall,
    stream: Named,
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The new one, at most 36 bytes; '' for none.")
    ],
    fencing_token: Annotated[
        str | None, typer.Option(help="Only if this is the stream's fencing token now.")
    ] = None,
    key_file: KeyFile = None,
) -> None:
    """Set the stream's fencing token: an append that names another one is refused."""
    data = token.encode()
    if len(data) > FENCING_BYTES_MAX:
        raise UsageFault(f"a fencing token has at most {FENCING_BYTES_MAX} bytes: {len(data)}")
    call.client.key = stream_key(key_file)
    record = AppendRecord(data, ((b"", b"fence"),))
    ack = await _command(call, stream_name(stream), record, fencing_token)
    if call.is_json:
        say_json({"seq_num": ack.start.seq_num, "fencing_token": token, "tail": ack.tail})
    else:
        told = f"the fencing token is {token!r}" if token else "there is no fencing token"
        say(f"{told} from number {ack.end.seq_num} on")


async def _command(
    call: VerbCall, name: StreamName, record: AppendRecord, fencing_token: str | None
) -> BatchAck:
    appender = DefiniteAppender(
        call.client, name.basin, name.stream, call.patience(), call.new_token
    )
    return await appender.append([record], fencing_token=fencing_token)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    if str(path) == "-":
        yield 0
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as cause:
        raise UsageFault(f"{path} cannot be read: {cause.strerror}") from cause
    try:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise UsageFault(f"{path} cannot be read: {os.strerror(errno.EISDIR)}")
        yield handle
    finally:
        os.close(handle)
