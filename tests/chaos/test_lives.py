"""Two lives of one stream are judged as one history: no record of one may look like the other's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tests.chaos.recorder import ChaosRecorder
from tests.linearizability.history import SeenRecord
from tests.linearizability.restored import Backup, Life, judge
from tests.simulation.api import (
    Acked,
    Item,
    OnBatch,
    Records,
    SessionBatch,
    SessionEvents,
    TokenMismatchError,
)
from tests.simulation.workload import Client, WorkloadOptions

APPENDS = 12
CLIENTS = 6


class Kept:
    """A stream in memory that whoever takes it over may have."""

    def __init__(self, records: Sequence[SeenRecord] = (), token: str = "") -> None:
        self.records = list(records)
        self.token = token

    async def append(
        self,
        basin: str,
        stream: str,
        items: Sequence[Item],
        match_seq_num: int | None = None,
        fencing_token: str | None = None,
        request_token: str | None = None,
    ) -> Acked:
        if fencing_token not in (None, self.token):
            raise TokenMismatchError(self.token)
        for item in items:
            self.token = item.body if item.fence else self.token
        start = len(self.records)
        self.records += [
            SeenRecord(start + place, 1000, item.body) for place, item in enumerate(items)
        ]
        return Acked(start, len(self.records), len(self.records))

    async def append_session(
        self, basin: str, stream: str, batches: Sequence[SessionBatch], events: SessionEvents
    ) -> None:
        raise NotImplementedError

    async def read(
        self, basin: str, stream: str, start: int, count: int, wait_s: int = 0
    ) -> Records:
        raise NotImplementedError

    async def check_tail(self, basin: str, stream: str) -> int:
        return len(self.records)

    async def follow(
        self, basin: str, stream: str, start: int, seconds: float, on_batch: OnBatch
    ) -> None:
        raise NotImplementedError

    async def create_basin(self, basin: str) -> None: ...

    async def create_stream(self, basin: str, stream: str) -> None: ...

    async def delete_stream(self, basin: str, stream: str) -> None: ...

    async def delete_basin(self, basin: str) -> None: ...


async def lived(run: int, kept: Kept) -> Life:
    """What clients do that take the stream over, each from the same beginnings as in any life."""
    recorder = ChaosRecorder(run)
    history = recorder.stream("basin", "stream")
    options = WorkloadOptions(
        think_s=0.001, conditional=False, follow=False, read_share=0.0, tail_share=0.0
    )
    clients = [
        Client(recorder, [kept], options, random.Random(number)) for number in range(CLIENTS)
    ]
    running = [asyncio.create_task(client.run()) for client in clients]
    while recorder.counts.acked < APPENDS:
        await asyncio.sleep(0)
    for client in clients:
        client.stopping = True
    await asyncio.gather(*running)
    return Life(tuple(history.operations), tuple(kept.records))


def test_both_lives_take_the_stream_over_with_tokens_of_their_own() -> None:
    """The record that sets a token has nothing else for its body; numbers of clients and tokens
    begin anew in the second life."""

    async def main() -> None:
        kept = Kept()
        first = await lived(1, kept)
        taken = [record for record in first.final if record.body.startswith("t")]
        assert taken, "nobody has taken it over"
        second = await lived(2, Kept(first.final, kept.token))
        end = max(operation.ret for operation in first.operations)
        assert judge(first, Backup(end, end + 1, first.final), second) == []

    asyncio.run(main())
