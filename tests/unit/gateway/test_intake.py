"""How much the kernel takes in for a connection: little at first, more for those that send fast."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from svc_cluster.base.metrics import Metrics
from svc_cluster.http import intake
from svc_cluster.http.intake import FAST_MAX, Intake, Intakes
from tests.simulation.loop import run


class Socket:
    family = socket.AF_INET

    def __init__(self) -> None:
        self.set: list[tuple[int, int, int]] = []

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.set.append((level, option, value))


class Transport(asyncio.BaseTransport):
    def __init__(self) -> None:
        super().__init__()
        self.sock = Socket()
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.sock if name == "socket" else default


LARGE = [(socket.SOL_SOCKET, socket.SO_RCVBUF, intake.RECEIVE_BYTES_FAST)]
FIRST = [(socket.SOL_SOCKET, socket.SO_RCVBUF, intake.RECEIVE_BYTES_FIRST)]


def test_only_a_connection_that_sends_fast_gets_more() -> None:
    """10 KiB a second, for however long, do not; 128 KiB within one do, once."""

    async def main() -> None:
        intakes = Intakes(asyncio.get_running_loop())
        slow, fast = Transport(), Transport()
        trickle, flood = Intake(intakes, slow), Intake(intakes, fast)
        for _ in range(100):
            trickle.received(10 * 1024)
            await asyncio.sleep(1.0)
        for _ in range(100):
            flood.received(64 * 1024)
            await asyncio.sleep(0.1)
        assert slow.sock.set == []
        assert fast.sock.set == LARGE
        assert intakes.fast == 1
        flood.close()
        flood.close()
        trickle.close()
        assert intakes.fast == 0

    run(lambda loop: main())


def test_there_is_a_bound_on_large_buffers() -> None:
    """One more is served as it is, until another is closed."""

    async def main() -> None:
        intakes = Intakes(asyncio.get_running_loop())
        opened = [Intake(intakes, Transport()) for _ in range(FAST_MAX)]
        for one in opened:
            one.received(1 << 20)
        late = Transport()
        last = Intake(intakes, late)
        last.received(1 << 20)
        assert late.sock.set == []
        opened[0].close()
        last.received(1 << 20)
        assert late.sock.set == LARGE

    run(lambda loop: main())


def test_a_connection_that_changes_hands_begins_with_little_again() -> None:
    """Who takes it over counts it anew; one that has ended needs nothing set back."""

    async def main() -> None:
        intakes = Intakes(asyncio.get_running_loop())
        handed_over, ended = Transport(), Transport()
        ended.closing = True
        for transport in (handed_over, ended):
            of_first = Intake(intakes, transport)
            of_first.received(1 << 20)
            of_first.close()
        assert (handed_over.sock.set, ended.sock.set) == (LARGE + FIRST, LARGE)
        successor = Intake(intakes, handed_over)
        successor.received(1 << 20)
        assert handed_over.sock.set == LARGE + FIRST + LARGE
        assert intakes.fast == 1

    run(lambda loop: main())


def test_what_is_unread_is_counted_and_bounded() -> None:
    """Others may send as much meanwhile while all of it is within the bound; what is taken makes
    room again, and shows."""

    async def main() -> None:
        metrics = Metrics()
        intakes = Intakes(asyncio.get_running_loop(), 100, metrics.http_unread_body_bytes)
        assert intakes.arrived(60)
        assert intakes.arrived(40)
        assert not intakes.arrived(1)
        assert "svc_http_unread_body_bytes 101.0" in metrics.expose().decode()
        intakes.taken(41)
        assert intakes.arrived(40)
        intakes.taken(100)
        assert "svc_http_unread_body_bytes 0.0" in metrics.expose().decode()

    run(lambda loop: main())
