"""The sequencer of a group that decides on applied state alone."""

from __future__ import annotations

from svc_cluster.base.ids import LogIndex


class AppliedSequencer:
    """The catalog's sequencer holds nothing: one command is in flight at a time."""

    def begin(self) -> None: ...

    def undo(self) -> None: ...

    def proposed(self, log_index: LogIndex) -> None: ...

    def applied(self, log_index: LogIndex) -> None: ...

    def reset(self) -> None: ...
