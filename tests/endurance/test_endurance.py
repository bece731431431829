"""The soak and the load held at once, small: they run, they measure, and they see what grows."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import random
from pathlib import Path
from typing import cast

import pytest

from svc_cluster.http.client import HttpResponse
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.cluster import running
from tests.e2e.load import Outcome, StreamWriter
from tests.e2e.space import disk_bytes
from tests.endurance import held, soak
from tests.endurance.followers import Follower
from tests.endurance.readers import compared
from tests.endurance.sampling import SPARE, growth, sample


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
    """However the bytes are cut, each record counts once; a tail and a ping are none."""
    tail = b'"tail":{"seq_num":9}'
    two = b'{"records":[{"seq_num":0},{"seq_num":1}],' + tail + b"}"
    sent = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n" + 3 * (
        b"event: batch\nid: 1\ndata: " + two + b"\n\nevent: ping\ndata: {" + tail + b"}\n\n"
    )

    async def main() -> tuple[int, bool]:
        follower = Follower(b"")
        for at in range(0, len(sent), step):
            follower.data_received(sent[at : at + step])
        await follower.answered
        follower.connection_lost(None)
        return follower.records, follower.gone

    assert asyncio.run(main()) == (6, True)


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


def test_a_wait_is_from_the_first_attempt_and_of_what_is_open_too() -> None:
    """An append that was tried again waited since the one before; one that nobody has answered
    has waited until now; what had ended before is not asked about."""
    writer = StreamWriter("http://nowhere", "basin", "stream", pause_s=1.0)
    writer.outcomes = [Outcome(0.0, 1.0, False), Outcome(2.0, 3.0, False), Outcome(9.0, 10.0, True)]
    assert held.waits_since([writer], 2.5, 20.0) == [1.0, 6.0]
    writer.pending = [b"x"]
    assert held.waits_since([writer], 2.5, 20.0) == [1.0, 6.0, 9.0]
    assert held.waits_since([writer], 15.0, 20.0) == [9.0]


@pytest.mark.timeout(60)
def test_a_connection_that_was_ended_in_order_is_not_held() -> None:
    """It looks whole until it is asked."""

    async def gone(lasts: int) -> int:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(EOFError):
                for _ in range(lasts):
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await held.asked_again(await held.connections(port, 3))

    assert [asyncio.run(gone(lasts)) for lasts in (1, 2)] == [3, 0]


def soak_of(**fields: object) -> soak.Soak:
    nowhere = cast("OwnCluster", None)
    return soak.Soak(nowhere, random.Random(1), 100.0, 1.0, 1.0, **fields)  # type: ignore[arg-type]


def test_what_was_not_measured_is_not_flat() -> None:
    """A process of which there are too few samples is a fault, as is one that grows."""
    found = soak_of()
    found._grown()
    assert len(found.wrong) == 8
    flat = {f"{kind} {name}": [50.0] * 60 for kind in ("node", "gateway") for name in SPARE}
    found = soak_of(kept=flat, written=[1.0] * 60)
    found._grown()
    assert found.wrong == []
    flat["gateway rss_mib"] = [float(20 * at) for at in range(60)]
    found = soak_of(kept=flat, written=[1.0] * 60)
    found._grown()
    assert [text.partition(" grows")[0] for text in found.wrong] == ["gateway rss_mib"]


@pytest.mark.parametrize(("written", "grows"), [(10.0, False), (4.0, True)])
def test_the_disk_may_grow_by_what_is_kept(written: float, grows: bool) -> None:
    """By twice what was appended between the two thirds that are compared, and no more."""
    kept = {f"{kind} {name}": [50.0] * 60 for kind in ("node", "gateway") for name in SPARE}
    kept["node disk_mib"] = [100 + 16.0 * at for at in range(60)]
    found = soak_of(kept=kept, written=[written * at for at in range(60)])
    found._grown()
    assert bool(found.wrong) == grows


def test_a_process_that_ends_by_itself_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was hit may be another one."""
    found = soak_of(pids={"gateway": 1, "node 1": 2, "node 2": 3})
    monkeypatch.setattr(soak.Soak, "_pids", lambda _: {"gateway": 1, "node 1": 2, "node 2": 4})
    found._judge_pids("node 2")
    assert found.wrong == []
    found.pids["node 1"] = 7
    found._judge_pids("node 2")
    assert found.wrong == ["node 1 ended and nobody had told it to"]


def read_answer(*bodies: bytes, first: int = 0, status: int = 200) -> HttpResponse:
    records = [
        {"seq_num": number, "timestamp": 1, "headers": [], "body": base64.b64encode(body).decode()}
        for number, body in enumerate(bodies, first)
    ]
    body = json.dumps({"records": records, "tail": {"seq_num": 9, "timestamp": 1}}).encode()
    return HttpResponse(status, {}, body)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (read_answer(b"b", b"c", first=1), 2),
        (read_answer(b"b", b"c", b"unknown", first=1), 2),
        (read_answer(b"b", b"x", first=1), "record 2 is not what was appended"),
        (read_answer(b"b", first=2), "record 2 for 1"),
        (read_answer(), "no records"),
        (read_answer(status=404), "404"),
        (read_answer(status=416), "416"),
        (read_answer(status=503), 0),
        (HttpResponse(200, {}, b"{"), "not a batch"),
    ],
)
def test_a_reader_compares(answer: HttpResponse, verdict: str | int) -> None:
    """Every record below the acknowledged tail, at its place; what nobody knows yet is left."""
    writer = StreamWriter("http://nowhere", "basin", "stream", log=[b"a", b"b", b"c"])
    found = compared(writer, 1, 3, answer)
    assert (
        verdict in found
        if isinstance(found, str) and isinstance(verdict, str)
        else (found == verdict)
    )


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
