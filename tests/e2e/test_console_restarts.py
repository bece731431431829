"""The console's tail through the death of its gateway: wherever it began, no record is passed over.

Another gateway takes the appends while the page's own is away, so that they are there before the
page can connect again. Rule: contract 6.9.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.contract.access import Account
from tests.contract.client import b64
from tests.e2e.browser import Browser, installed, until
from tests.e2e.console import BASIN, Console, address, quoted
from tests.own_nodes import OwnNodes
from tests.own_nodes import until as until_told

RECORDS: Final = 200
BATCH: Final = 20
MANY: Final = 3000
NAMES: Final = itertools.count()


@dataclass
class Place:
    """A cluster of two gateways, and the page of the first."""

    own: OwnNodes
    console: Console
    other: Account

    def restarted(self) -> None:
        self.own.start("gateway")

    def kill(self) -> None:
        """kill -9 of the gateway that the page talks to; the page has noticed then."""
        gateway = self.own.processes["gateway"]
        gateway.tell(signal.SIGKILL)
        gateway.end()
        until(lambda: self.console.state() == "connecting again")

    def made(self) -> str:
        stream = f"log {next(NAMES)}"
        answer = self.other.ask("POST", "/v1/streams", {"stream": stream}, None, svc_basin=BASIN)
        assert answer.status == 201, answer
        return stream

    def append(self, stream: str, first: int, count: int) -> None:
        """Records whose bodies are their numbers; each batch goes again until it is there, once."""
        path = f"/v1/basins/{BASIN}/streams/{quoted(stream)}/append"
        for start in range(first, first + count, BATCH):
            records = [{"body": b64(str(start + number))} for number in range(BATCH)]
            wanted = {"records": records, "match_seq_num": start}
            while (answer := self.other.ask("POST", path, wanted, None)).status != 200:
                assert answer.status in (408, 502, 503), answer


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    installed()
    own = OwnNodes(tmp_path_factory.mktemp("nodes"))
    other = Account(own.add_gateway("other", -1), own.directory)
    own.start()
    try:
        asyncio.run(until_told(lambda: _leads(own)))
        other.until(lambda: _answers(other))
        with Browser(tmp_path_factory.mktemp("profile")) as browser:
            yield Place(own, Console(browser, own.url), other)
    except BaseException:
        print(own.said())
        raise
    finally:
        other.client.connection.close()
        own.end()


async def _leads(own: OwnNodes) -> bool:
    rows = await own.cluster()
    return len(rows) == 3 and not any(row.get("groups_without_leader", 1) for row in rows.values())


def _answers(other: Account) -> bool:
    """Whether the basin is there, asked of the second gateway."""
    try:
        return other.ask("POST", "/v1/basins", {"basin": BASIN}, None).status in (201, 409)
    except OSError:
        other.client.connection.close()
        return False


STARTS: Final = {
    "opened": None,
    "offset": ("tail_offset", "0"),
    "time": ("timestamp", "2100-01-01 00:00:00"),
    "number": ("seq_num", "100000"),
}


@pytest.mark.parametrize("name", STARTS)
def test_what_comes_before_the_first_batch_while_the_gateway_is_away_is_shown(
    place: Place, name: str
) -> None:
    """The page follows a stream in which nothing has come since; its gateway gets SIGKILL, 200
    records come, and each is on the page once, in order, when the gateway is back."""
    stream = place.made()
    before = 0
    if STARTS[name] is not None:
        before = 2 * BATCH
        place.append(stream, 0, before)
    console = place.console
    console.open(None)
    until(lambda: console.heading() == "Cluster")
    console.go(address(stream), stream)
    until(lambda: console.state() == "live" and len(console.bodies()) == min(before, 20))
    console.watch()
    if (start := STARTS[name]) is not None:
        console.fill("Begin at", start[0])
        console.fill("Where", start[1])
        console.press("Show")
        until(lambda: console.state() == "live" and console.bodies() == [])
    place.kill()
    place.append(stream, before, RECORDS)
    place.restarted()
    wanted = list(range(before, before + RECORDS))
    until(lambda: console.seen()[-1:] == wanted[-1:])
    assert console.seen() == wanted
    assert console.bodies() == [str(number) for number in wanted]


def test_a_gateway_that_is_killed_while_records_come_costs_and_doubles_none(place: Place) -> None:
    """Each of 3,000 records is put on the page once, in order, through the gateway's SIGKILL and a
    pause behind it."""
    stream = place.made()
    console = place.console
    console.open(None)
    until(lambda: console.heading() == "Cluster")
    console.go(address(stream), stream)
    until(lambda: console.state() == "live")
    console.watch()
    writer = threading.Thread(target=place.append, args=(stream, 0, MANY))
    writer.start()
    try:
        until(lambda: len(console.seen()) > BATCH)
        place.kill()
        came = len(console.seen())
        place.restarted()
        until(lambda: len(console.seen()) > came)
        console.press("Pause")
        console.press("Go on")
    finally:
        writer.join()
    assert came < MANY, "records were to come"
    until(lambda: console.seen()[-1:] == [MANY - 1])
    assert console.seen() == list(range(MANY))
