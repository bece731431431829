"""Whether appends of several clients go to their leader one by one or together, each is told the
same, and the same is stored: for every rule of timestamps, at every time."""

from __future__ import annotations

import asyncio
import random

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.gateway.cluster.append_coalescer import AppendCoalescer, Appended, joins
from svc_cluster.model.record import AppendAck, Position, StoredBatch, TimestampingMode
from svc_cluster.model.stream_config import StreamConfig
from svc_cluster.stream import timestamping
from tests.property.gateway.hostile import in_batches
from tests.simulation.loop import run

FAR = 1e9
"""A deadline that is never over: monotonic seconds."""


class Leader:
    """One stream, by the rules of the real one; all that is asked of it has one arrival time, as
    what stands in one entry has."""

    def __init__(self, config: StreamConfig, tail: Position, now_ms: TimestampMs) -> None:
        self.config, self.tail, self.now_ms = config, tail, now_ms
        self.records = b""
        self.requests: list[int] = []

    async def ask(
        self, basin: str, stream: str, batch: StoredBatch, requests: int, deadline: float
    ) -> Appended:
        await asyncio.sleep(0.01)
        self.requests.append(requests)
        place = timestamping.place(
            batch,
            first_seq_num=self.tail.seq_num,
            base_timestamp_ms=self.tail.timestamp_ms,
            config=self.config,
            now_ms=self.now_ms,
        )
        start = Position(place.first_seq_num, timestamping.first_timestamp(place, batch))
        self.tail = Position(place.end_seq_num, place.last_timestamp_ms)
        self.records += batch.records
        return Appended(AppendAck(start, self.tail, self.tail))


def some_batch(rng: random.Random) -> StoredBatch:
    records = rng.randint(1, 5)
    given = rng.choice((0, 0, 0, 0, 0, records, rng.randint(0, records)))
    most = rng.randint(0, 200) if given else None
    first = rng.randint(0, most) if most is not None and rng.random() < 0.8 else None
    return StoredBatch(
        rng.randbytes(rng.randint(1, 30)),
        records,
        rng.randint(1, 60),
        timestamp_max_ms=most,
        timestamps_given=given,
        timestamp_first_ms=first,
    )


@in_batches(300)
def test_together_is_as_one_by_one(sources: list[random.Random]) -> None:
    """A refusal concerns the same requests: where all of them went together, each asks again."""

    async def outcome(asked: AppendCoalescer, batch: StoredBatch) -> AppendAck | type[Exception]:
        try:
            return (await asked.append("b", "s", batch, FAR)).ack
        except InvalidError as refusal:
            return type(refusal)

    async def main() -> None:
        joined = 0
        for rng in sources:
            config = StreamConfig(
                timestamping_mode=rng.choice(list(TimestampingMode)),
                timestamping_uncapped=rng.random() < 0.5,
            )
            tail = Position(SeqNum(rng.randint(0, 9)), TimestampMs(rng.randint(0, 150)))
            now_ms = TimestampMs(rng.randint(0, 150))
            batches = [some_batch(rng) for _ in range(rng.randint(2, 9))]
            plain = [batch for batch in batches if joins(batch)]
            together, alone = (Leader(config, tail, now_ms) for _ in range(2))
            loop = asyncio.get_running_loop()
            by_itself = AppendCoalescer(alone.ask, loop.time)
            one_by_one = [await outcome(by_itself, batch) for batch in plain]
            asked = AppendCoalescer(together.ask, loop.time)
            tasks = [loop.create_task(outcome(asked, batch)) for batch in plain]
            assert list(await asyncio.gather(*tasks)) == one_by_one
            assert (together.records, together.tail) == (alone.records, alone.tail)
            assert asked.under_way == 0
            joined += sum(requests > 1 for requests in together.requests)
        assert joined, "some of them went together"

    run(lambda loop: main())
