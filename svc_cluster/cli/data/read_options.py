"""The options that say which records are read, and as what they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from svc_cluster.cli.data.record_text import RecordFormat
from svc_cluster.cli.data.verb import UsageFault
from svc_cluster.cli.shared_options import SharedOptions
from svc_cluster.client.stream_reading import StreamBounds, StreamStart

Format = Annotated[
    RecordFormat,
    typer.Option("--format", "-f", help="What a line is.", show_choices=True),
]
ReadFormat = Annotated[
    RecordFormat | None,
    typer.Option(
        "--format",
        "-f",
        help="What a line is: text, or with -o json: json.",
        show_choices=True,
    ),
]
SeqNum = Annotated[int | None, typer.Option("--seq-num", "-s", min=0, help="From this number on.")]
Timestamp = Annotated[
    int | None, typer.Option(min=0, help="From this Unix millisecond on.", metavar="MS")
]
TailOffset = Annotated[
    int | None, typer.Option(min=0, help="From so many records before the tail on.")
]
Count = Annotated[int | None, typer.Option("--count", "-n", min=0, help="At most so many records.")]
Bytes = Annotated[
    int | None, typer.Option("--bytes", "-b", min=0, help="At most so many metered bytes.")
]
Until = Annotated[
    int | None, typer.Option(min=0, help="Before this Unix millisecond.", metavar="MS")
]
Clamp = Annotated[bool, typer.Option("--clamp", help="A start behind the tail is the tail.")]


@dataclass(frozen=True, slots=True)
class ReadOptions(SharedOptions):
    """Where a read begins and ends, and how its records are printed."""

    seq_num: SeqNum = None
    timestamp: Timestamp = None
    tail_offset: TailOffset = None
    count: Count = None
    bytes_: Bytes = None
    until: Until = None
    clamp: Clamp = False
    format_: ReadFormat = None

    @property
    def bounds(self) -> StreamBounds:
        return StreamBounds(self.count, self.bytes_, self.until)

    def start(self, default: StreamStart) -> StreamStart:
        """The start that was given. Raises UsageFault for more than one."""
        given = {
            "seq_num": self.seq_num,
            "timestamp": self.timestamp,
            "tail_offset": self.tail_offset,
        }
        starts = [StreamStart(kind, value) for kind, value in given.items() if value is not None]
        if len(starts) > 1:
            raise UsageFault("a read has one start: --seq-num, --timestamp or --tail-offset")
        return starts[0] if starts else default
