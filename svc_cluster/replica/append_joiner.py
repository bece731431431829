"""Appends to one stream that wait behind each other share a command."""

from __future__ import annotations

from svc_cluster.base.ids import TimestampMs
from svc_cluster.replica.entry_draft import PlainAppend
from svc_cluster.stream.append_run import AppendRun
from svc_cluster.stream.apply import Applied, Outcome, Rejected, ack_of
from svc_cluster.stream.commands import AppendCommand, BasinCommand
from svc_cluster.stream.sequencer import Sequencer


class AppendJoiner:
    """The `Joiner` of a basin."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._run: AppendRun | None = None
        self._first: AppendCommand | None = None
        self._fault: Exception | None = None
        """What went wrong since `began`: `end` raises it, and nothing joins behind it."""

    def began(self, append: PlainAppend, command: BasinCommand) -> None:
        self._sequencer.begin()  # whatever is undone from here on, it is not this one
        try:
            assert isinstance(command, AppendCommand), "an append is never anything else"
            self._run = self._sequencer.begin_run(append.stream, append.batch, command)
            self._first = command
        except Exception as fault:
            self._fault = fault

    def join(self, append: PlainAppend, now_ms: TimestampMs) -> bool:
        run, first = self._run, self._first
        if run is None or first is None or append.is_conditional or self._fault is not None:
            return False
        try:
            assert now_ms == first.placement.arrival_ms, "an entry has one time"
            return run.join(append.stream, append.batch, append.session)
        except Exception as fault:
            self._fault = fault
            return False

    def end(self) -> tuple[BasinCommand, list[Outcome]] | None:
        run, first, fault = self._run, self._first, self._fault
        self._run = self._first = self._fault = None
        if fault is not None:
            raise fault
        if run is None or first is None or not run.joined:
            return None
        own: list[Outcome] = [Applied(ack) for ack in (ack_of(first), *run.joined)]
        return self._sequencer.end_run(run), own

    def told(self, own: Outcome, of_all: Outcome) -> Outcome:
        return of_all if isinstance(of_all, Rejected) else own
