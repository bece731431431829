"""The console's map of a cluster in zones: where nodes run, and which are drained or away."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.e2e.browser import Browser, installed, until
from tests.e2e.console import Console
from tests.own_nodes import OwnNodes
from tests.own_nodes import until as until_told

ZONES = ("east", "west", "west")


def test_the_map_says_where_nodes_run_and_which_are_drained_or_away(tmp_path: Path) -> None:
    """Zone and host stand on each node's card as its settings say them, also on that of a node that
    is killed; a drained one says so, until it is drained no more, and no other does."""
    installed()

    async def main() -> None:
        own = OwnNodes(tmp_path)
        for node, zone in enumerate(ZONES, start=1):
            own.add(node, node_id=node, zone=zone, host=f"rack-{node}.local")
        own.start()
        try:
            await until_told(lambda: _are_placed(own))
            with Browser(tmp_path / "profile") as browser:
                await _look(own, Console(browser, own.url))
        except BaseException:
            print(own.said())
            raise
        finally:
            own.end()

    asyncio.run(main())


async def _are_placed(own: OwnNodes) -> bool:
    """Whether every node is up and its row has what it says of itself."""
    rows = await own.cluster()
    return len(rows) == len(ZONES) and all(
        row["is_up"] and row.get("host") and not row["groups_without_leader"]
        for row in rows.values()
    )


async def _look(own: OwnNodes, console: Console) -> None:
    await asyncio.to_thread(console.open, None)
    placed = [f"Zone {zone} Host rack-{node}.local" for node, zone in enumerate(ZONES, start=1)]
    await _cards(console, *(f"Node {n} well {place} Version" for n, place in enumerate(placed, 1)))
    await asyncio.to_thread(console.picture, "cluster")

    status, said = await own.admin("node", "drain", "2", "--force")
    assert status == 0, said
    drained = f"Node 2 well, is being drained {placed[1]} Version"
    await _cards(console, f"Node 1 well {placed[0]}", drained, f"Node 3 well {placed[2]}")

    own.processes["node-2"].tell(signal.SIGKILL)
    away = f"Node 2 does not answer, is being drained {placed[1]}"
    await _cards(console, "Node 1", away, "Node 3")
    rows = await own.cluster()
    assert rows[2] == {
        "node_id": 2,
        "is_up": False,
        "host": "rack-2.local",
        "zone": "west",
        "state": "draining",
    }

    status, said = await own.admin("node", "undrain", "2")
    assert status == 0, said
    away = f"Node 2 does not answer {placed[1]}"
    await _cards(console, "Node 1", away, "Node 3")


async def _cards(console: Console, *beginnings: str) -> None:
    """Until the nodes' cards begin with these words."""
    script = """
      return [...document.querySelectorAll("#nodes li")]
        .map((card) => card.innerText.replace(/\\s+/g, " ").trim());
    """

    def are_so() -> bool:
        shown: list[str] = console.run(script)
        return len(shown) == len(beginnings) and all(
            card.startswith(beginning) for card, beginning in zip(shown, beginnings, strict=True)
        )

    try:
        await asyncio.to_thread(until, are_so)
    except BaseException:
        print("shown:", await asyncio.to_thread(console.run, script), "wanted:", beginnings)
        raise
