"""Two rounds of chaos and the parts it stands on: enough to know that the long run would run."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.chaos.cluster import ChaosCluster
from tests.chaos.namespaces import Namespace, unavailable
from tests.chaos.proxy import Network
from tests.chaos.rounds import Round
from tests.e2e.power import build_shim, compiler

SEED = 4


@pytest.mark.skipif(compiler() is None, reason="no C compiler: no shim for disks and clocks")
def test_rounds_of_chaos_leave_a_linearizable_history(tmp_path: Path) -> None:
    """A leader isolated with one gateway, then kill -9 of a leader under load: the history is
    linearizable, retries made one copy of each batch, and the replicas' digests are equal."""

    async def main() -> None:
        shim = build_shim(tmp_path)
        namespaces = unavailable() is None
        directory = tmp_path / "cluster"
        async with ChaosCluster(directory, shim, SEED, namespaces=namespaces) as cluster:
            for number, row in enumerate(("D6", "D1"), start=1):
                result = await Round(cluster, row, number, SEED, operations=300).run()
                print(result)
                assert not result.violations, result.violations
                assert result.ops >= 300
                assert result.failover_ms

    asyncio.run(main())


def test_the_proxy_holds_back_and_then_delivers(tmp_path: Path) -> None:
    """A cut direction is silent in one direction only, what was held arrives in order when it
    heals, a delay delays, and a reset ends the connection without delivering."""

    async def main() -> None:
        home = Namespace(None)
        heard = bytearray()
        here = asyncio.Event()

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                heard.extend(data)
                here.set()
                writer.write(data.upper())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        network = Network(random.Random(1))
        port = await network.forward("a", "b", home, home, server.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"ONE"

        network.cut("b", "a")
        here.clear()
        writer.write(b"two")
        await asyncio.wait_for(here.wait(), 5)
        assert heard == b"onetwo"
        waiting = asyncio.ensure_future(reader.readexactly(6))
        network.cut("a", "b")
        writer.write(b"six")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.2)
        assert heard == b"onetwo"
        network.heal()
        assert await asyncio.wait_for(waiting, 5) == b"TWOSIX"

        network.delay("a", "b", 0.2, 0.2)
        begin = asyncio.get_running_loop().time()
        writer.write(b"ten")
        assert await reader.readexactly(3) == b"TEN"
        assert asyncio.get_running_loop().time() - begin >= 0.2

        network.heal()
        network.cut("a", "b")
        writer.write(b"never")
        await asyncio.sleep(0)
        network.reset("a", "b")
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        network.heal()
        assert heard == b"onetwosixten"
        writer.close()
        await network.close()
        server.close()

    asyncio.run(main())
