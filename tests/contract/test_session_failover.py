"""Sessions while leaders are killed: what a session appended is a prefix of what it was sent.

Rules: contract 8.3.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from tests.contract.session_client import append_session, input_frame, read_session
from tests.e2e.cluster import rounds, running, whole
from tests.e2e.load import set_up

BASIN = "session-failover"
WINDOW = 16
"""Inputs that a writer has under way at once."""
Key = tuple[int, int]
"""Which session, and which of its inputs."""


def key_of(body: bytes) -> Key:
    session, number = body.split(b" ")
    return int(session), int(number)


@dataclass
class Writer:
    """One session after the other into one stream, each until it fails."""

    endpoint: str
    stream: str
    stopping: bool = False
    sent: dict[int, int] = field(default_factory=dict)
    """By session: how many inputs."""
    acked: dict[Key, int] = field(default_factory=dict)
    """At which sequence number."""
    ends: list[int] = field(default_factory=list)
    """Statuses of terminal frames."""
    unexpected: list[str] = field(default_factory=list)

    def run(self) -> None:
        try:
            session = 0
            while not self.stopping:
                self._session(session)
                session += 1
        except Exception as fault:
            self.unexpected.append(repr(fault))

    def _session(self, number: int) -> None:
        with append_session(self.endpoint, BASIN, self.stream) as session:
            if session.status != 200:
                assert session.status == 503, session.status
                return
            self.sent[number] = acks = 0
            while not self.stopping:
                while self.sent[number] < acks + WINDOW:
                    session.send(input_frame(b"%d %d" % (number, self.sent[number])))
                    self.sent[number] += 1
                frame = session.frame()
                assert frame is not None, "a session ends with a terminal frame"
                if frame.is_terminal:
                    self.ends.append(frame.failure()[0])
                    assert session.frame() is None
                    return
                ack = pb.AppendAck.FromString(frame.message())
                assert ack.end.seq_num == ack.start.seq_num + 1
                self.acked[number, acks] = ack.start.seq_num
                acks += 1


@dataclass
class Follower:
    """A read session from the beginning; opened again behind its last record when it ends."""

    endpoint: str
    stream: str
    found: list[Key] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    def run_until(self, goal: threading.Event, count: list[int]) -> None:
        """`count` holds the number of records there are, once `goal` is set."""
        try:
            while not (goal.is_set() and len(self.found) >= count[0]):
                self._session(goal, count)
        except Exception as fault:
            self.unexpected.append(repr(fault))

    def _session(self, goal: threading.Event, count: list[int]) -> None:
        query = f"seq_num={len(self.found)}"
        with read_session(self.endpoint, BASIN, self.stream, query) as session:
            if session.status != 200:
                assert session.status in (408, 503), session.status
                return
            while not (goal.is_set() and len(self.found) >= count[0]):
                frame = session.frame()
                assert frame is not None, "nothing ends an unbounded session cleanly"
                if frame.is_terminal:
                    assert frame.failure()[0] in (408, 502, 503)
                    return
                for record in pb.ReadBatch.FromString(frame.message()).records:
                    assert record.seq_num == len(self.found), "a gap or a repetition"
                    self.found.append(key_of(record.body))


@pytest.mark.timeout(1800)
def test_a_killed_leader_never_lets_a_batch_in_without_the_one_before(tmp_path: Path) -> None:
    """Writers pipeline inputs over both protocols while the leader gets SIGKILL again and again.
    Of every session exactly a prefix is in the stream, in order and once, which holds all that was
    acknowledged, where it was said to be; a reader that follows meanwhile sees the same stream."""

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            await set_up(cluster.url, BASIN, ["http", "h2c"])
            writers = [
                Writer(cluster.url.replace("http://", f"{scheme}://"), scheme)
                for scheme in ("http", "h2c")
            ]
            readers = [Follower(writer.endpoint, writer.stream) for writer in writers]
            goal, counts = threading.Event(), [[0], [0]]
            threads = [threading.Thread(target=writer.run) for writer in writers]
            followers = [
                threading.Thread(target=reader.run_until, args=(goal, count))
                for reader, count in zip(readers, counts, strict=True)
            ]
            for thread in (*threads, *followers):
                thread.start()
            try:
                for _ in range(rounds("KILL_ROUNDS", 2)):
                    await whole(cluster, BASIN, 3)
                    await acknowledged(writers, 50)
                    cluster.kill_node(await cluster.wait_leader(BASIN))
                await acknowledged(writers, 50)
            finally:
                for writer in writers:
                    writer.stopping = True
                await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
                try:
                    for writer, count in zip(writers, counts, strict=True):
                        count[0] = records_of(writer)
                finally:
                    goal.set()
                    await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in followers))
            for writer, reader in zip(writers, readers, strict=True):
                assert not writer.unexpected, writer.unexpected
                assert not reader.unexpected, reader.unexpected
                verify(writer, reader.found)
                print(f"\n{writer.stream}: {len(reader.found)} records, ends {writer.ends}")

    asyncio.run(main())


def records_of(writer: Writer) -> int:
    """How many records there are in the writer's stream."""
    with read_session(writer.endpoint, BASIN, writer.stream, "seq_num=0&wait=0") as session:
        return sum(len(pb.ReadBatch.FromString(f.message()).records) for f in session.rest())


async def acknowledged(writers: list[Writer], more: int) -> None:
    """Until every writer has had so many more acks."""
    goals = [len(writer.acked) + more for writer in writers]
    async with asyncio.timeout(60):
        while any(len(w.acked) < goal for w, goal in zip(writers, goals, strict=True)):
            assert not any(writer.unexpected for writer in writers)
            await asyncio.sleep(0.01)


def verify(writer: Writer, found: list[Key]) -> None:
    by_session: dict[int, list[int]] = {}
    for session, number in found:
        by_session.setdefault(session, []).append(number)
    for session, numbers in by_session.items():
        assert numbers == list(range(len(numbers))), f"session {session} is no prefix"
        assert len(numbers) <= writer.sent[session]
    for key, seq_num in writer.acked.items():
        assert found[seq_num] == key
    assert len(writer.ends) <= len(writer.sent)
