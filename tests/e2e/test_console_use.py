"""The console as it is used: with records that a browser has no date or number for.

Each test has what it needs of one service. Rule: contract 4.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.contract.access import ROOT_SECRET, Account
from tests.contract.client import b64
from tests.contract.conftest import Server
from tests.e2e.browser import Browser, installed, until
from tests.e2e.console import BASIN, Console, address, append, made

UNCAPPED: Final = {"timestamping": {"mode": "client-prefer", "uncapped": True}}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    installed()
    directory = tmp_path_factory.mktemp("console-service")
    server = Server(directory, 10.0, ROOT_SECRET)
    try:
        with Account(f"http://127.0.0.1:{server.port}", directory) as opened:
            assert opened.ask("POST", "/v1/basins", {"basin": BASIN}).status == 201
            yield opened
    finally:
        server.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def console(account: Account, browser: Browser) -> Console:
    return Console(browser, account.endpoint)


def shown(console: Console, stream: str, secret: str = ROOT_SECRET) -> None:
    """The page is opened anew and follows the stream."""
    console.open(secret)
    until(lambda: console.heading() == "Cluster")
    console.go(address(stream), stream)
    until(lambda: console.state() == "live")


def heads(console: Console) -> list[str]:
    """What stands above each record: its number and time."""
    script = "return [...document.querySelectorAll('#records .at')].map((at) => at.textContent);"
    found: list[str] = console.run(script)
    return found


def test_times_that_are_no_dates_are_shown_as_their_digits(
    console: Console, account: Account
) -> None:
    """One record's time, whatever it is, keeps no other from being read; beyond 2^53, where a
    browser's own numbers skip some, each digit is the record's; such a time can be sought too."""
    stream = made(account, config=UNCAPPED)
    times = [1000, 8_640_000_000_000_000, 8_640_000_000_000_001, 2**53 + 1, 2**64 - 2]
    append(account, stream, *({"body": b64(f"at {each}"), "timestamp": each} for each in times))
    shown(console, stream)
    until(lambda: len(console.bodies()) == len(times))
    assert heads(console) == [
        "0 · 1970-01-01 00:00:01.000Z",
        "1 · +275760-09-13 00:00:00.000Z",
        "2 · 8640000000000001",
        "3 · 9007199254740993",
        "4 · 18446744073709551614",
    ]
    append(account, stream, {"body": b64("behind"), "timestamp": 5})
    until(lambda: console.bodies() == [*(f"at {each}" for each in times), "behind"])
    assert heads(console)[5] == "5 · 18446744073709551614", "times never fall"
    console.fill("Begin at", "timestamp")
    console.fill("Where", "9007199254740993")
    console.press("Show")
    until(lambda: console.bodies() == ["at 9007199254740993", f"at {2**64 - 2}", "behind"])
    assert heads(console)[0] == "3 · 9007199254740993"


def test_what_could_not_be_shown_is_not_stepped_over(console: Console, account: Account) -> None:
    """A batch at which the page fails ends the following, which says so; *Go on* shows it, once."""
    stream = made(account)
    append(account, stream, {"body": b64("before")})
    shown(console, stream)
    until(lambda: console.bodies() == ["before"])
    fails_once = """
      const list = document.getElementById("records");
      list.append = () => { delete list.append; throw new Error("no room for it"); };
    """
    console.run(fails_once)
    append(account, stream, {"body": b64("the first")}, {"body": b64("the second")})
    until(lambda: console.state() == "ended: no room for it")
    append(account, stream, {"body": b64("behind")})
    assert console.bodies() == ["before"]
    console.press("Go on")
    until(lambda: len(console.bodies()) >= 4)
    assert console.bodies() == ["before", "the first", "the second", "behind"]
