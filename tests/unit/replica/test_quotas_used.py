"""What metrics say of quotas."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from svc_cluster.catalog.token_table import TOKENS_MAX
from svc_cluster.model.quotas import UNBOUNDED, Quotas
from svc_cluster.replica.quotas_used import quotas_used
from tests.unit.catalog.support import Catalog
from tests.unit.catalog.test_owners import create
from tests.unit.catalog.test_tokens import issue


@dataclass
class Held:
    streams: int
    stored_bytes: int


def held() -> Catalog:
    """Four basins, three of them of two chains; one token."""
    catalog = Catalog()
    for number, owner in enumerate((0, 7, 7, 8)):
        catalog.apply(create(f"basin-{number}", 2 + number, owner))
    issue(catalog, "one")
    return catalog


def test_each_quota_is_shown_by_what_is_fullest() -> None:
    quotas = Quotas(basins=8, streams=10, tokens=4, chain_basins=5, stored_bytes=1_000)
    readings = [Held(3, 900), Held(9, 10)]
    state = held().state
    assert quotas_used(quotas, state, readings) == {
        "basins": 0.5,
        "chain_basins": 0.4,
        "access_tokens": 0.25,
        "streams": 0.9,
        "stored_bytes": 0.9,
    }
    assert quotas_used(quotas, state, [])["streams"] == 0


def test_quotas_that_are_not_set_are_not_shown() -> None:
    """Access tokens have a bound of the service's own."""
    found = quotas_used(UNBOUNDED, held().state, [Held(3, 900)])
    assert found == {"access_tokens": pytest.approx(1 / TOKENS_MAX)}


def test_basins_are_bounded_by_what_each_reserves_too() -> None:
    """With ten streams for the account and five for a basin there is room for two basins."""
    quotas = Quotas(basins=8, streams=5, account_streams=10)
    assert quotas_used(quotas, held().state, [])["basins"] == 2.0
