"""A link that waits for its next attempt is made at once when somebody needs the other side."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Iterator

import pytest

from svc_cluster.link import connector as connectors
from svc_cluster.link.acceptor import Acceptor
from svc_cluster.link.connector import Connector
from svc_cluster.link.conversation import Terms
from tests.unit.link.wires import Called, Served, terms

NEVER_S = 3600.0
"""Pauses that no test waits for."""
SECONDS = 60.0


@pytest.fixture
def port() -> Iterator[int]:
    """One at which nobody listens until the test does."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.fixture
def _long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that no knock has brought about is not made within a test."""
    monkeypatch.setattr(connectors, "RECONNECT_SECONDS_MIN", NEVER_S)
    monkeypatch.setattr(connectors, "RECONNECT_SECONDS_MAX", NEVER_S)


class Attempts:
    """A connector that tells when it tried."""

    def __init__(self, port: int) -> None:
        self.at: list[float] = []
        self.called = Called()
        loop = asyncio.get_running_loop()

        def own() -> Terms:
            self.at.append(loop.time())
            return terms("node", 1)()

        class Midway:
            def random(self) -> float:
                return 0.5

        self.connector = Connector(
            loop=loop,
            address=f"127.0.0.1:{port}",
            terms=own,
            events=self.called,
            rng=Midway(),  # type: ignore[arg-type]
            tls=None,
            server_name="",
        )

    async def until(self, count: int) -> None:
        while len(self.at) < count:
            await asyncio.sleep(0.01)

    async def no_more_behind(self, served: Served) -> None:
        """The other side ends its conversation, and there is no attempt for a knock of before."""
        count = len(self.at)
        served.wire.give_up("the test says so")
        while self.connector.is_up:
            await asyncio.sleep(0.01)
        await asyncio.sleep(3 * connectors.KNOCK_SECONDS)
        assert len(self.at) == count


@pytest.mark.usefixtures("_long_pauses")
def test_a_knock_ends_the_pause_before_the_next_attempt(port: int) -> None:
    """Without one it would be made in an hour; one that comes while an attempt fails counts too."""

    async def main() -> None:
        tried = Attempts(port)
        async with asyncio.timeout(SECONDS):
            tried.connector.start()
            await tried.until(1)
            tried.connector.knock()
            await tried.until(2)
            served: list[Served] = []

            def welcome(speaker: object, wire: object) -> Served:
                served.append(Served(speaker, wire))  # type: ignore[arg-type]
                return served[-1]

            acceptor = Acceptor(asyncio.get_running_loop(), terms("node", 2), welcome)
            await acceptor.start("127.0.0.1", port)
            tried.connector.knock()
            assert (await tried.called.ups.get()).identity.node_id == 2
            assert len(tried.at) == 3
            # of somebody whose link is up nothing is kept for the next pause
            tried.connector.knock()
            await tried.no_more_behind(served[0])
            await tried.connector.close()
            await acceptor.close("the test is over")

    asyncio.run(main())


@pytest.mark.usefixtures("_long_pauses")
def test_many_knocks_are_no_more_attempts_than_one_each_so_often(port: int) -> None:
    """Requests that all need a node which is away do not try it more often than the bound says."""

    async def main() -> None:
        tried = Attempts(port)
        async with asyncio.timeout(SECONDS):
            tried.connector.start()
            while len(tried.at) < 5:
                tried.connector.knock()
                await asyncio.sleep(0)
            await tried.connector.close()
        between = [after - before for before, after in itertools.pairwise(tried.at)]
        assert min(between) >= connectors.KNOCK_SECONDS - 0.005

    asyncio.run(main())


def test_a_short_pause_is_no_longer_for_a_knock(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempts follow one another faster than knocks may make them."""
    monkeypatch.setattr(connectors, "KNOCK_SECONDS", NEVER_S)

    async def main() -> None:
        tried = Attempts(port)
        async with asyncio.timeout(SECONDS):
            tried.connector.start()
            await tried.until(3)
            tried.connector.knock()
            await tried.until(5)
            await tried.connector.close()

    asyncio.run(main())


@pytest.mark.usefixtures("_long_pauses")
def test_who_answers_and_refuses_is_asked_no_more_often(port: int) -> None:
    """Each attempt costs both sides a handshake; what it is refused for does not pass in a tenth of
    a second."""

    async def main() -> None:
        tried = Attempts(port)
        other = Acceptor(asyncio.get_running_loop(), terms("node", 2, b"z" * 32), Served)
        async with asyncio.timeout(SECONDS):
            await other.start("127.0.0.1", port)
            tried.connector.start()
            await tried.until(1)
            for _ in range(5):
                tried.connector.knock()
                await asyncio.sleep(connectors.KNOCK_SECONDS)
            assert len(tried.at) == 1
            assert tried.called.ups.empty()
            await tried.connector.close()
            await other.close("the test is over")

    asyncio.run(main())


@pytest.mark.usefixtures("_long_pauses")
def test_a_knock_before_a_link_is_up_is_not_kept_for_its_end(port: int) -> None:
    """It has what it asked for; the pause behind the conversation is the usual one."""

    async def main() -> None:
        tried = Attempts(port)
        served: list[Served] = []

        def welcome(speaker: object, wire: object) -> Served:
            tried.connector.knock()  # the other side is there, and this one does not know it yet
            served.append(Served(speaker, wire))  # type: ignore[arg-type]
            return served[-1]

        acceptor = Acceptor(asyncio.get_running_loop(), terms("node", 2), welcome)
        async with asyncio.timeout(SECONDS):
            await acceptor.start("127.0.0.1", port)
            tried.connector.start()
            await tried.called.ups.get()
            assert len(tried.at) == 1
            await tried.no_more_behind(served[0])
            await tried.connector.close()
            await acceptor.close("the test is over")

    asyncio.run(main())


@pytest.mark.usefixtures("_long_pauses")
def test_who_hung_up_without_a_word_is_tried_again_for_a_knock(port: int) -> None:
    """A process that ends takes connections to its last moment; the next one is not asked later for
    that."""

    async def main() -> None:
        tried = Attempts(port)
        hung_up: list[bytes] = []

        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hung_up.append(await reader.read(1))
            writer.close()

        async with asyncio.timeout(SECONDS):
            server = await asyncio.start_server(hang_up, "127.0.0.1", port)
            tried.connector.start()
            while len(hung_up) < 3:
                tried.connector.knock()
                await asyncio.sleep(0.01)
            await tried.connector.close()
            server.close()
            await server.wait_closed()

    asyncio.run(main())
