"""Records on standard output, as they come."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from svc_cluster.cli.data.record_text import RecordFormat, is_spoilt, record_line
from svc_cluster.cli.data.verb import UsageFault, VerbCall
from svc_cluster.cli.terminal import last_words, to_output
from svc_cluster.client.wire_records import ReadRecord


class RecordOutput:
    """Prints the records of one run. At its end it is said how many of them JSON has spoilt."""

    def __init__(self, call: VerbCall, wanted: RecordFormat | None) -> None:
        """`wanted`: what a line is; None: what the output's form asks for. Raises UsageFault."""
        if call.is_json and wanted is RecordFormat.TEXT:
            raise UsageFault("-o json prints each record as JSON: leave out --format text")
        self._form = wanted or (RecordFormat.JSON if call.is_json else RecordFormat.TEXT)
        self._spoilt = 0

    def __enter__(self) -> Self:
        return self

    def write(self, records: list[ReadRecord]) -> None:
        """A reader that is slow slows the read down."""
        if self._form is RecordFormat.JSON:
            self._spoilt += sum(map(is_spoilt, records))
        out = sys.stdout.buffer
        with to_output():
            out.write(b"".join([record_line(record, self._form) for record in records]))
            out.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._spoilt:
            told = "1 record is" if self._spoilt == 1 else f"{self._spoilt} records are"
            last_words(
                f"svc-cluster: {told} not UTF-8, and what is not was printed as U+FFFD: "
                "--format json-base64 keeps every byte\n"
            )
