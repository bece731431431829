"""A connector goes where the other side says it is, and where it was when it is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from svc_cluster.link.conversation import Terms
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError
from tests.unit.link.wires import Called, listening, terms

NOWHERE = "127.0.0.1:1"


def wants(node: int) -> Callable[[], Terms]:
    """A caller that takes this node alone."""

    def expected(other: Speaker) -> None:
        if other.identity.node_id != node:
            raise HandshakeError("another node answers")

    return lambda: replace(terms("node", 1)(), check=expected)


def test_both_places_are_tried_until_one_answers(run: Callable[..., None]) -> None:
    """Whichever of the two is wrong. A conversation is kept when its place is called right."""

    async def body() -> None:
        async with listening() as pair:
            here = f"127.0.0.1:{pair.port}"
            for first, other in ((NOWHERE, here), (here, NOWHERE), ("no port", here)):
                called = Called()
                connector = pair.connector(called)
                connector.redirect(first, other)
                connector.start()
                assert (await called.ups.get()).identity.node_id == 2
                connector.redirect(here)
                await asyncio.sleep(0)
                assert called.downs == 0
                connector.redirect(NOWHERE)
                while called.downs == 0:  # the conversation ends, under the patience of `run`
                    await asyncio.sleep(0.01)
                await connector.close()

    run(body())


def test_another_node_at_the_first_place_is_passed_by(run: Callable[..., None]) -> None:
    async def body() -> None:
        async with listening(terms("node", 3)) as wrong, listening() as right:
            called = Called()
            connector = wrong.connector(called)
            connector._terms = wants(2)
            connector.redirect(f"127.0.0.1:{wrong.port}", f"127.0.0.1:{right.port}")
            connector.start()
            assert (await called.ups.get()).identity.node_id == 2
            assert called.downs == 0 and called.ups.empty()
            await connector.close()

    run(body())
