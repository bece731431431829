"""How many basins there may be by all quotas, of which each basin reserves its part."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from svc_cluster.cli.processes.node_config import node_config
from svc_cluster.model.quotas import UNBOUNDED, Quotas
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_errors import SettingsError


def test_without_quotas_there_is_no_bound() -> None:
    """Of the account or of a chain."""
    assert (UNBOUNDED.account_basins, UNBOUNDED.basins_of_chain) == (None, None)
    each = Quotas(streams=5, stored_bytes=7)
    assert (each.account_basins, each.basins_of_chain) == (None, None)


def test_full_basins_never_exceed_any_sum_and_one_more_would() -> None:
    """Of every combination of a few quotas: all basins at their own quotas are within each sum, and
    with one basin more they are not."""
    for basins, streams, stored in itertools.product((None, 1, 4), (None, 3, 10, 11), (None, 9)):
        account = Quotas(
            basins=basins,
            streams=3,
            stored_bytes=2,
            account_streams=streams,
            account_stored_bytes=stored,
        )
        chain = Quotas(
            chain_basins=basins,
            streams=3,
            stored_bytes=2,
            chain_streams=streams,
            chain_stored_bytes=stored,
        )
        most = account.account_basins
        assert (chain.basins_of_chain, chain.account_basins) == (most, None)
        assert account.basins_of_chain is None
        if most is None:
            assert (basins, streams, stored) == (None, None, None)
            continue

        def fits(count: int, limits: tuple[int | None, ...] = (basins, streams, stored)) -> bool:
            used = (count, 3 * count, 2 * count)
            return all(
                most is None or size <= most for size, most in zip(used, limits, strict=True)
            )

        assert fits(most)
        assert not fits(most + 1)


def settings(**quotas: Any) -> NodeSettings:
    made = NodeSettings(
        cluster_id="c",
        node_id=1,
        data_dir="d",
        nodes={"1": "127.0.0.1:7000"},
        secret_file="s",
        replication_factor=1,
        **quotas,
    )
    made.check()
    return made


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ("streams_max", "streams_per_basin_max"),
        ("token_streams_max", "streams_per_basin_max"),
        ("stored_mib_max", "stored_mib_per_basin_max"),
        ("token_stored_mib_max", "stored_mib_per_basin_max"),
    ],
)
def test_a_sum_needs_a_quota_of_each_basin(whole: str, part: str) -> None:
    """Which is what a basin reserves; one for which no basin could be made is refused too."""
    with pytest.raises(SettingsError, match=f"{whole} is 10 and {part} is None"):
        settings(**{whole: 10})
    with pytest.raises(SettingsError, match=f"{whole} is 10 and {part} is 11"):
        settings(**{whole: 10, part: 11})
    quotas = node_config(settings(**{whole: 10, part: 3})).host.quotas
    rooms = (quotas.account_basins, quotas.basins_of_chain)
    assert rooms == ((100, 3) if whole.startswith("token") else (3, None))
