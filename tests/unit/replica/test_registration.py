"""A node makes itself known, once, and again when more may be said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.catalog.node_facts import AnnouncedFacts
from svc_cluster.catalog.node_rows import REMOVED
from svc_cluster.model.versions import FIRST, NEWEST
from svc_cluster.replica import registration
from svc_cluster.replica.cluster_version import ClusterVersion
from svc_cluster.replica.registration import Registration

FACTS = AnnouncedFacts("n1:7000", "n1:7001", "rack-3", "zone-b")


class Catalog:
    """Answers with what it is told to, and has what it was asked."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.heard: list[tuple[str, str]] = []
        self.version = ClusterVersion(active=FIRST)
        self.told = asyncio.Event()

    async def ask(self, fill: Callable[[pb.Request], None]) -> pb.Response | None:
        request = pb.Request()
        fill(request)
        message = request.register_node
        assert (message.node_id, message.incarnation) == (1, "i" * 32)
        self.heard.append((message.address, message.facts.zone))
        self.told.set()
        answer = self.answers.pop(0)
        if answer is None:
            return None
        response = pb.Response()
        if answer == "done":
            response.done.SetInParent()
        else:
            response.refusal.code, _, response.refusal.message = answer.partition(": ")
        return response

    def registration(self, **more: Any) -> Registration:
        return Registration(
            NodeId(1),
            "i" * 32,
            "10.0.0.1:7000",
            FACTS,
            self.version,
            ask=self.ask,
            is_whole=lambda: True,
            log=get_logger("test"),
            **more,
        )


def test_it_is_said_until_it_is_known_and_again_once_facts_are_written() -> None:
    """Facts are said from the start: who knows no version yet may be found by them alone. Behind
    the version that has them written they are said once more."""

    async def main() -> None:
        catalog = Catalog(None, "unavailable", "done", "done")
        made = catalog.registration()
        running = asyncio.ensure_future(made.run())
        async with asyncio.timeout(10):
            while not made.is_done:
                await asyncio.sleep(0.01)
            assert catalog.heard == [("10.0.0.1:7000", "zone-b")] * 3
            catalog.told.clear()
            catalog.version.applied(NEWEST)
            made.look()
            await catalog.told.wait()
        assert catalog.heard[3:] == [("10.0.0.1:7000", "zone-b")]
        made.look()
        await asyncio.sleep(registration.RETRY_SECONDS)
        assert not running.done() and not catalog.answers
        running.cancel()

    asyncio.run(main())


def test_a_node_whose_place_is_taken_is_told_once() -> None:
    async def main() -> None:
        catalog = Catalog("invalid")
        made = catalog.registration()
        await made.run()
        assert "another data directory" in (made.refusal or "")
        assert not made.is_done

    asyncio.run(main())


def test_a_node_that_may_be_removed_says_so_again_and_hears_that_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that began the cluster is never removed, and says it once."""
    monkeypatch.setattr(registration, "REPEAT_SECONDS", 0.01)

    async def body() -> None:
        heard: list[str] = []
        catalog = Catalog("done", "done", f"invalid: {REMOVED}")
        one = catalog.registration(may_be_removed=lambda: True, on_removed=heard.append)
        await asyncio.wait_for(one.run(), 10)
        assert catalog.answers == []
        assert heard == [one.refusal]
        assert "removed from the cluster, which refuses its data directory for ever" in heard[0]
        fixed = Catalog("done")
        waits = asyncio.create_task(fixed.registration().run())
        await fixed.told.wait()
        await asyncio.sleep(0.1)
        assert not waits.done()
        waits.cancel()

    asyncio.run(body())


def test_another_directory_is_no_removed_one() -> None:
    async def body() -> None:
        heard: list[str] = []
        one = Catalog("invalid: taken").registration(on_removed=heard.append)
        await asyncio.wait_for(one.run(), 10)
        assert "another data directory" in str(one.refusal)
        assert heard == []

    asyncio.run(body())
