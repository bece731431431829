"""Followers that are pushed to, when the lease of their token is over."""

from __future__ import annotations

import asyncio

from svc_cluster.catalog.leases import LEASE_SECONDS
from svc_cluster.gateway.access.authentication import TokenHolder
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.api.followed_body import FollowedBody
from svc_cluster.gateway.api.stream_follower import Follower
from tests.simulation.clock import SimClock
from tests.unit.gateway.scripted import ScriptedBackend, get, make_app
from tests.unit.gateway.test_pushes import FIRST, PATH, Client, Live, end, simulate
from tests.unit.gateway.test_token_directory import news, token


def follower_of(client: Client) -> Follower:
    follower = client.body.attach.__self__  # type: ignore[attr-defined]
    assert isinstance(follower, Follower)
    return follower


def test_nothing_is_sent_behind_the_lease_of_a_token() -> None:
    """Also in the moment before whoever watches the token has noticed, nor by another try."""

    async def main() -> tuple[list[tuple[int, ...]], bool]:
        live, clock = Live(), SimClock(asyncio.get_running_loop())
        app, _ = make_app(ScriptedBackend([live.call]))
        directory, good = TokenDirectory(clock), token(1)
        directory.take(news(1, (1, good)), clock.monotonic())
        directory.take(news(1), clock.monotonic())
        over_at = clock.monotonic() + LEASE_SECONDS
        response = await app.handle(get(PATH, "seq_num=0", ("accept", "text/event-stream")))
        assert isinstance(response.body, FollowedBody)
        client = Client(response.body)
        call = follower_of(client)._call
        object.__setattr__(call, "caller", TokenHolder(directory, good))
        await asyncio.sleep(0.1)
        live.append()
        await asyncio.sleep(over_at + 0.005 - clock.monotonic())
        live.append()
        await asyncio.sleep(5)
        has_ended = client.task.done()
        await end(client)
        return client.ids, has_ended

    ids, has_ended = simulate(main())
    assert [one[0] for one in ids] == [FIRST - 1, FIRST]
    assert has_ended
