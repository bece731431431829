"""The soak and the load held at once, small: they run, they measure, and they see what grows."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

import pytest

from tests.e2e.cluster import running
from tests.e2e.space import disk_bytes
from tests.endurance import held, soak
from tests.endurance.followers import Follower
from tests.endurance.sampling import growth, sample


@pytest.mark.parametrize(
    ("values", "allowed", "grows"),
    [
        ([100.0] * 9, 0.0, False),
        ([100, 100, 100, 120, 130, 140, 150, 160, 170], 0.0, True),
        ([100, 100, 100, 120, 130, 140, 150, 160, 170], 60.0, False),
        ([100, 100, 100, 500, 500, 500, 110, 100, 105], 0.0, False),
        ([10, 10, 10, 20, 20, 20, 30, 30, 30], 0.0, False),
        ([1000, 1000, 1000, 1050, 1060, 1070, 1080, 1090, 1100], 0.0, False),
        ([5.0, 500.0], 0.0, False),
    ],
)
def test_growth_is_seen_and_noise_is_not(values: list[float], allowed: float, grows: bool) -> None:
    """The last third against the first, beyond a share, a spare and what is allowed."""
    assert bool(growth(values, 24.0, allowed)) == grows


def test_a_process_is_measured(tmp_path: Path) -> None:
    """This one; and nothing of one that is gone."""
    (tmp_path / "file").write_bytes(b"x" * 2**20)
    found = sample(os.getpid(), tmp_path)
    assert found is not None
    assert found.rss_mib > 5
    assert found.descriptors >= 3
    assert found.threads >= 1
    assert 0.9 < found.disk_mib < 1.2
    assert disk_bytes(tmp_path / "nothing") == 0
    assert sample(2**22 + 1, None) is None


@pytest.mark.timeout(300)
def test_a_short_soak(tmp_path: Path) -> None:
    """Some seconds of load and faults: nothing lost, everything measured."""
    options = argparse.Namespace(hours=0.004, fault_pause=4.0, sample=0.5, seed=5, record=False)
    assert asyncio.run(soak.main(options)) == 0


def test_what_is_refused_for_good_is_not_tried_again() -> None:
    """A quota is not waited for: a run of hours would end with that."""
    assert [held.is_made(status) for status in (201, 200, 409, 429, 503)] == [True] * 3 + [
        False
    ] * 2
    for status in (400, 401, 403, 404):
        with pytest.raises(RuntimeError, match=f"refused with {status}"):
            held.is_made(status)


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_follower_counts_what_comes_in_pieces(step: int) -> None:
    """However the bytes are cut, each batch counts once; a ping is none."""
    sent = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n" + 3 * (
        b"event: batch\nid: 1\ndata: {}\n\nevent: ping\ndata: {}\n\n"
    )

    async def main() -> tuple[int, bool]:
        follower = Follower(b"")
        for at in range(0, len(sent), step):
            follower.data_received(sent[at : at + step])
        await follower.answered
        follower.connection_lost(None)
        return follower.batches, follower.gone

    assert asyncio.run(main()) == (3, True)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 503 no\r\n\r\n", b"HTTP/1.1 20"])
def test_a_follower_that_is_refused_ends_the_run(sent: bytes) -> None:
    """It is not counted as one that merely saw nothing."""

    async def main() -> None:
        follower = Follower(b"")
        follower.data_received(sent)
        follower.connection_lost(None)
        with pytest.raises(RuntimeError):
            await follower.answered

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_a_little_held_at_once(tmp_path: Path) -> None:
    """As many as were asked for, all of them there to the end."""

    async def main() -> dict[str, object]:
        async with running(tmp_path / "cluster") as cluster:
            return await held.play(cluster, 0.002, 2.0)

    row = asyncio.run(main())
    assert row["faults"] == []
    assert [row[name] for name in ("connections", "followers", "basins", "streams", "tokens")] == [
        *(10, 4, 2, 200, 40),
    ]
