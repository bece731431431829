"""A node refuses a page of nothing, and one that is longer than its answer has room for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from svc_cluster.base.errors import InvalidError
from svc_cluster.gateway.cluster.token_client import TokenClient
from svc_cluster.replica.page_limit import PAGE_MAX
from tests.simulation.backend_client import GatewayProcess
from tests.simulation.cluster import SimCluster, in_simulation
from tests.simulation.options import Options


def test_pages_out_of_bounds_are_definite_refusals() -> None:
    """For each of the three lists: bad arguments, and no line of an error. A page of one item and
    of the most there may be are answered."""

    async def main(cluster: SimCluster) -> None:
        watch = cluster.start()
        await cluster.guarded(cluster.set_up(), watch)
        await cluster.guarded(cluster.gateways[0].ask(ask_all), watch)
        watch.cancel()

    async def ask_all(process: GatewayProcess) -> None:
        backend = process.backend
        tokens = TokenClient(backend.directory, process.app.clock)
        lists: dict[str, Callable[[int], Awaitable[tuple[Sequence[object], bool]]]] = {
            "streams": lambda limit: backend.list_streams("basin-000", "", "", limit),
            "basins": lambda limit: backend.list_basins("", "", limit),
            "tokens": lambda limit: tokens.page("", "", limit),
        }
        for name, page in lists.items():
            for limit in (0, PAGE_MAX + 1):
                with pytest.raises(InvalidError, match="a page holds 1 to 1000") as refusal:
                    await page(limit)
                assert not refusal.value.may_have_taken_effect
            for limit in (1, PAGE_MAX):
                found, has_more = await page(limit)
                assert (len(found), has_more) == (int(name != "tokens"), False)

    in_simulation(1, Options(gateways=1, http=False, basins=1, streams=1), main)
