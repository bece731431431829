"""The console as it is used, where the page itself fails.

Each test has what it needs of one service. Rule: contract 4.12.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.access import ROOT_SECRET, Account
from tests.contract.client import b64
from tests.contract.conftest import Server
from tests.e2e.browser import Browser, installed, until
from tests.e2e.console import BASIN, Console, address, append, made


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
