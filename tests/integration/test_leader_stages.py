"""What a leader tells of the time of an append, and whom."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.link.features import STAGES
from svc_cluster.model.leader_stages import LeaderStages
from svc_cluster.model.record import StoredBatch
from tests.at_once import build_batch
from tests.integration.conversation import pair

BASIN, STREAM = "staged-basin", "s"


class Watch:
    """Keeps what it is told."""

    trace = None

    def __init__(self) -> None:
        self.told: list[LeaderStages] = []

    def led(self, stages: LeaderStages) -> None:
        self.told.append(stages)


def one() -> StoredBatch:
    return build_batch([(None, (), b"x")])


@pytest.mark.parametrize("key", [b"", b"k" * 32], ids=["plain", "repeatable"])
def test_a_gateway_that_takes_stages_is_told_them(tmp_path: Path, key: bytes) -> None:
    """Each is a part of the time that the append took; only the sync and the way into the store
    must have taken some, in a group of one."""

    async def main() -> None:
        async with pair(tmp_path, (STAGES,)) as two:
            await two.stream(BASIN, STREAM)
            clock, watch = SystemClock(), Watch()
            begun = clock.monotonic()
            ack = await two.client.append(
                BASIN, STREAM, one(), None, None, request_key=key, watch=watch
            )
            took = clock.monotonic() - begun
            assert ack.start.seq_num == 0
            (stages,) = watch.told
            assert min(stages.queue, stages.quorum) >= 0
            assert min(stages.wal, stages.apply) > 0
            assert stages.total <= took
            assert two.wire.answers[-1].number, "the last answer is the append's"

    asyncio.run(main())


def test_a_repeated_answer_has_the_stages_of_now(tmp_path: Path) -> None:
    """What is kept under a request key are the positions, not how long the first one took: the
    second is queued and nothing else."""

    async def main() -> None:
        async with pair(tmp_path, (STAGES,)) as two:
            await two.stream(BASIN, STREAM)
            watch, key = Watch(), b"k" * 32
            acks = [
                await two.client.append(
                    BASIN, STREAM, one(), None, None, request_key=key, watch=watch
                )
                for _ in range(2)
            ]
            assert [ack.is_repeated for ack in acks] == [False, True]
            assert acks[0].start == acks[1].start
            assert watch.told[1].wal == watch.told[1].apply == 0

    asyncio.run(main())


def test_a_gateway_of_an_earlier_release_is_told_none(tmp_path: Path) -> None:
    """Its greeting does not name the feature: an answer has nothing that it would skip."""

    async def main() -> None:
        async with pair(tmp_path) as two:
            await two.stream(BASIN, STREAM)
            watch = Watch()
            ack = await two.client.append(BASIN, STREAM, one(), None, None, watch=watch)
            assert ack.start.seq_num == 0
            assert watch.told == []

    asyncio.run(main())
