"""What a page of basins or tokens costs does not depend on how many there are."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.ids import GroupId, NodeId, TimestampMs
from svc_cluster.catalog.basin_record import BasinRecord
from svc_cluster.catalog.catalog_state import CatalogState
from svc_cluster.catalog.token_table import EXPIRED_DROPPED_MAX, TokenTable
from svc_cluster.model.access import Op, Scope
from svc_cluster.model.access_token import NO_PARENT, AccessToken, Expiry
from svc_cluster.model.stream_config import BasinConfig
from tests.unit.catalog.support import DictStore

MANY = 100_000
LIMIT = 1_000
LOOKED_AT_MAX = 2 * LIMIT + 200
"""List items and records looked at for one page: each name twice, and what bisections need."""
SCOPE = Scope(None, None, None, ops=(Op.READ,))
NOW = TimestampMs(10_000)


class Counter:
    def __init__(self) -> None:
        self.count = 0


class CountingList(list[Any]):
    """Counts what is looked at, by bisections too."""

    def __init__(self, values: Iterable[Any], counter: Counter) -> None:
        super().__init__(values)
        self._counter = counter

    def __getitem__(self, place: Any) -> Any:
        self._counter.count += 1
        return super().__getitem__(place)

    def __iter__(self) -> Any:
        raise AssertionError("nobody walks over all of them")


def token(serial: int, expires_ms: int | None = None) -> AccessToken:
    expiry = None if expires_ms is None else Expiry("then", expires_ms * 1_000_000)
    return AccessToken(serial, f"t-{serial:06}", b"h", NO_PARENT, SCOPE, expires_at=expiry)


def table(tokens: Iterable[AccessToken]) -> TokenTable:
    """A table of so many tokens, past the limit that issuing keeps."""
    made = TokenTable(DictStore())
    for each in tokens:
        made._put(each)
    return made


def test_a_page_of_tokens_costs_the_page() -> None:
    """Of 100,000, at the front, in the middle and at the end."""
    tokens = table(token(serial) for serial in range(1, MANY + 1))
    counter = Counter()
    tokens._ids = CountingList(tokens._ids, counter)
    for start_after, first in (("", 1), ("t-050000", 50_001), ("t-099500", 99_501)):
        before = counter.count
        page, more = tokens.page("t-", start_after, LIMIT, NOW)
        assert page[0].token_id == f"t-{first:06}"
        assert (len(page), more) == (min(LIMIT, MANY - first + 1), first + LIMIT <= MANY)
        assert counter.count - before <= LOOKED_AT_MAX


def test_tokens_that_are_over_cost_a_page_nothing() -> None:
    """99,000 of 100,000 expire: the first page behind that takes them out, the next ones look at
    what they hold; and the next issue drops some without looking at those that are not over."""
    tokens = table(token(serial, 5_000 if serial % 100 else None) for serial in range(1, MANY + 1))
    page, more = tokens.page("", "", LIMIT, NOW)
    assert [each.serial for each in page] == list(range(100, MANY + 1, 100))
    assert not more
    counter = Counter()
    tokens._ids = CountingList(tokens._ids, counter)
    assert tokens.page("", "t-050000", 10, NOW)[0][0].serial == 50_100
    assert counter.count <= 100
    dropped = tokens.expired(NOW)
    assert dropped == [s for s in range(MANY, 0, -1) if s % 100][:EXPIRED_DROPPED_MAX]


def test_a_page_of_basins_costs_the_page() -> None:
    """The same for basins."""
    state = CatalogState(DictStore())
    for number in range(1, MANY + 1):
        name = f"basin-{number:06}"
        record = BasinRecord(name, GroupId(number + 1), (NodeId(1),), BasinConfig(), TimestampMs(1))
        state.basins[name] = record
    counter = Counter()
    state._names = CountingList(sorted(state.basins), counter)
    for start_after, first in (("", 1), ("basin-050000", 50_001), ("basin-099500", 99_501)):
        before = counter.count
        page, _ = state.list_basins("basin-", start_after, LIMIT)
        assert page[0].name == f"basin-{first:06}"
        assert counter.count - before <= 3 * LIMIT + 200


@pytest.mark.parametrize("seed", range(20))
def test_hiding_what_is_over_changes_no_page(seed: int) -> None:
    """Tokens come, go, expire and, where the clock goes backwards, do not: each page is what a look
    at every token gives, and so is the list of those to drop."""
    rng = random.Random(seed)
    tokens = table([])
    now = 5_000
    serial = 0
    for _ in range(300):
        now = max(0, now + rng.choice((0, 1, 500, -700)))
        if rng.random() < 0.6 or not tokens.by_serial:
            serial += 1
            tokens._put(token(serial, rng.choice((None, now + rng.randint(-2_000, 2_000)))))
        else:
            gone = rng.choice(list(tokens.by_serial))
            kept = tokens.by_serial[gone]
            tokens._drop(gone)
            if rng.random() < 0.3:
                tokens._put(replace(kept, secret_hash=b"new"))
        moment = TimestampMs(now)
        alive = sorted(t.token_id for t in tokens.by_serial.values() if not t.is_expired(moment))
        over = sorted(
            (s for s, t in tokens.by_serial.items() if t.is_expired(moment)), reverse=True
        )
        assert tokens.expired(moment) == over[:EXPIRED_DROPPED_MAX]
        if rng.random() < 0.7:
            page, more = tokens.page("", "", 1_000, moment)
            assert ([each.token_id for each in page], more) == (alive, False)
