"""What a run came to, and how it fails."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from tests.simulation.trace import Trace


@dataclass(slots=True)
class Report:
    """What a run came to."""

    seed: int
    options: str
    virtual_s: float = 0.0
    acked: int = 0
    unknown: int = 0
    refused: int = 0
    reads: int = 0
    failed_reads: int = 0
    trims: int = 0
    event_batches: int = 0
    session_batches: int = 0
    retries: int = 0
    lives: int = 0
    repaired: int = 0
    crashes: int = 0
    elections: int = 0
    snapshots: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    events: int = 0
    looks: int = 0
    amid_changes: int = 0
    """Faults that struck while a change of members was open."""
    rested: int = 0
    """Looks at which some basin was at rest."""
    digest: int = 0
    trace: bytes = b""


class SimulationFailedError(Exception):
    """A seed failed. The text holds what is needed to see why."""


class ErrorLog(logging.Handler):
    """Error lines fail a run, but those that it expects; with a trace, all lines go into it."""

    def __init__(self, trace: Trace, expected: Collection[str] = ()) -> None:
        super().__init__(logging.DEBUG)
        self.errors: list[str] = []
        self._expected = expected
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        facts = getattr(record, "fields", {})
        line = f"{record.getMessage()} {facts}"
        if record.levelno >= logging.ERROR and record.getMessage() not in self._expected:
            cause = "" if not record.exc_info else f" {record.exc_info[1]!r}"
            self.errors.append(line + cause)
            if record.exc_info:
                self.errors[-1] += "\n" + logging.Formatter().formatException(record.exc_info)
        self._trace.fact("log", record.levelname.lower(), line)
