"""A node that comes back at another address is found there by nodes and gateways that run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import in_loop
from tests.own_nodes import OwnNodes, until

MOVED = 3
NEW_PLACE = 5


@pytest.mark.timeout(240)
@pytest.mark.parametrize("knows", [True, False])
@in_loop
async def test_a_node_that_moves_is_followed(tmp_path: Path, knows: bool) -> None:
    """The settings of the others go on naming the address that nobody listens on any more. The
    row has the new one, with host and zone, and the links go there without a restart: also where
    the node had heard nothing from the cluster yet when it went."""
    own = OwnNodes(tmp_path)
    own.add(MOVED, node_id=MOVED, host="rack-7", zone="west")
    own.start()
    try:

        async def standings() -> dict[int, str]:
            return {node: row["standing"] for node, row in (await own.members()).items()}

        async def are_up() -> bool:
            return await standings() == {1: "self", 2: "up", 3: "up"} and await answers()

        async def answers() -> bool:
            rows = await own.cluster()
            return sorted(rows) == [1, 2, 3] and all(row["is_up"] for row in rows.values())

        async def has_begun() -> bool:
            return "node_started" in own.processes[f"node-{MOVED}"].said()

        await until(are_up if knows else has_begun)
        own.processes[f"node-{MOVED}"].stop()
        moved_to = f"127.0.0.1:{own.ports[NEW_PLACE][0]}"
        own.add(
            MOVED,
            place=NEW_PLACE,
            node_id=MOVED,
            listen_address=moved_to,
            advertise_address=moved_to,
            host="rack-7",
            zone="east",
        )
        own.start(f"node-{MOVED}")

        async def is_told() -> Any:
            row = (await own.members()).get(MOVED, {})
            return row if row.get("address") == moved_to and row["standing"] == "up" else None

        row = await until(is_told)
        assert (row["host"], row["zone"], row["state"]) == ("rack-7", "east", "active")
        assert row["admin_address"] == own.settings[f"node-{MOVED}"]["admin_rpc_address"]
        await until(are_up)
    except BaseException:
        print(own.said())
        raise
    finally:
        own.end()


@pytest.mark.timeout(240)
@in_loop
async def test_a_wrong_address_stops_nothing_and_is_put_right(tmp_path: Path) -> None:
    """Two of three say that they are where nobody listens: a majority that would never meet again,
    and without which nothing that they say later could be written down."""
    own = OwnNodes(tmp_path)
    own.start()
    try:

        async def are_up() -> bool:
            rows = await own.members()
            return {node: row["standing"] for node, row in rows.items()} == {
                1: "self",
                2: "up",
                3: "up",
            }

        async def announce(node: int, address: str) -> None:
            own.processes[f"node-{node}"].stop()
            own.add(node, node_id=node, advertise_address=address)
            own.start(f"node-{node}")

            async def is_told() -> bool:
                return (await own.members()).get(node, {}).get("address") == address

            await until(is_told)

        async def serves() -> bool:
            rows = await own.cluster()
            return sorted(rows) == [1, 2, 3] and all(row["is_up"] for row in rows.values())

        await until(are_up)
        for node in (2, 3):
            await announce(node, "127.0.0.1:1")
        await until(are_up)
        await until(serves)
        for node in (2, 3):
            await announce(node, own.first[str(node)])
        await until(are_up)
        await until(serves)
    except BaseException:
        print(own.said())
        raise
    finally:
        own.end()
