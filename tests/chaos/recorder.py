"""The shared recorder, with the seconds that real clusters are measured in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.linearizability.history import Append, Outcome
from tests.simulation.recorder import Retries
from tests.simulation.workload import Item, Recorder, SimClient, StreamHistory


class Timed(NamedTuple):
    """An append as it was lived, in seconds of the monotonic clock."""

    begun: float
    known: float
    outcome: Outcome


class ChaosRecorder(Recorder):
    """Also knows when appends began and when their outcome was known."""

    def __init__(self, run: int) -> None:
        super().__init__(run)
        self.timed: list[Timed] = []

    def new_token(self, client: int) -> str:
        """One that no other run takes either: lives of one stream are judged together, and the
        token is the body of the record that sets it."""
        return f"{super().new_token(client)}.{self.run}"

    async def append(
        self,
        api: SimClient,
        history: StreamHistory,
        client: int,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        retries: Retries | None = None,
    ) -> Append:
        begun = time.monotonic()
        append = await super().append(
            api, history, client, items, match_seq_num, fencing_token, retries
        )
        self.timed.append(Timed(begun, time.monotonic(), append.outcome))
        return append

    def first_success_after(self, moment: float) -> float | None:
        """When the first append that was begun after `moment` was acknowledged."""
        known = [
            each.known
            for each in reversed(self.timed)
            if each.begun > moment and each.outcome is Outcome.OK
        ]
        return min(known, default=None)

    def outcomes_between(self, begin: float, end: float) -> dict[str, int]:
        """Outcomes of the appends begun in [begin, end), by name."""
        found: dict[str, int] = {}
        for each in self.timed:
            if begin <= each.begun < end:
                found[each.outcome.value] = found.get(each.outcome.value, 0) + 1
        return found

    @property
    def unknown(self) -> int:
        return self.counts.unknown

    @property
    def operations(self) -> int:
        return sum(len(history.operations) for history in self.streams)
