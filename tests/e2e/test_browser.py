"""A page of another origin in a real browser, with the examples of docs/browsers.md.

Authentication is on, so that the page is granted what it asks for, and nothing without a token.
Rules: contract 14.5, 14.6, 14.7 and 14.8.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.access import ROOT_SECRET, Account
from tests.contract.client import b64
from tests.contract.conftest import Server
from tests.e2e.browser import Browser, PageError, Site, installed, until

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/browsers.md"
NUMBERS = itertools.count()
ROUTE: Final = "/v1/streams/{stream}/records"


def examples() -> str:
    """The module that the page's examples are."""
    return "\n".join(re.findall(r"^```js\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))


class Tried:
    """A stream of a service, and a tab with a page of another origin."""

    def __init__(self, account: Account, browser: Browser, basin: str) -> None:
        self.account = account
        self.browser = browser
        self.basin = basin
        self.stream = f"of/a page {next(NUMBERS)}"
        made = account.ask("POST", "/v1/streams", {"stream": self.stream}, svc_basin=basin)
        assert made.status == 201, made

    def run(self, script: str, **given: Any) -> Any:
        """The script knows `place`: service, token, basin and stream, in the examples' order."""
        place = [self.account.endpoint, ROOT_SECRET, self.basin, self.stream]
        known = 'const examples = await import("/examples.js"); const place = given.place;'
        return self.browser.run(f"{known} {script}", place=place, **given)

    def append(self, *texts: str) -> Any:
        return self.run("return await examples.append(...place, given.texts);", texts=texts)

    def read(self, query: dict[str, Any], cache: str = "default") -> list[str]:
        script = "return await examples.read(...place, given.query, given.cache);"
        return [record["body"] for record in self.run(script, query=query, cache=cache)]

    def trim(self, seq_num: int) -> None:
        trim = {"headers": [["", b64("trim")]], "body": b64(seq_num.to_bytes(8, "big"))}
        path = f"/v1/basins/{self.basin}/streams/{self.stream.replace('/', '%2F')}/append"
        path = path.replace(" ", "%20")
        assert self.account.ask("POST", path, {"records": [trim]}).status == 200

    def asked(self, method: str, status: int) -> int:
        """How many such requests the service has answered on the path of records."""
        text = self.account.client.get("/metrics").body.decode()
        labels = f'code="{status}",method="{method}",route="{ROUTE}"'
        found = re.search(rf"^svc_http_requests_total\{{{re.escape(labels)}\}} (\S+)", text, re.M)
        return 0 if found is None else int(float(found[1]))


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    installed()
    directory = tmp_path_factory.mktemp("browser-service")
    server = Server(directory, 10.0, ROOT_SECRET)
    try:
        with Account(f"http://127.0.0.1:{server.port}", directory) as opened:
            yield opened
    finally:
        server.stop()


@pytest.fixture(scope="module")
def basin(account: Account) -> str:
    name = "of-the-pages"
    assert account.ask("POST", "/v1/basins", {"basin": name}).status == 201
    return name


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Site(examples()) as site, Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(site.url + "/")
        yield opened


@pytest.fixture
def tried(account: Account, browser: Browser, basin: str) -> Tried:
    return Tried(account, browser, basin)


def test_a_page_appends_and_reads_what_it_appended(tried: Tried) -> None:
    """From another origin, with headers of its own; the browser has asked before, once."""
    before = tried.asked("OPTIONS", 204)
    told = tried.append("one", "zwei – 2")
    assert (told["start"]["seq_num"], told["end"]["seq_num"]) == (0, 2)
    tried.append("three")
    assert tried.asked("OPTIONS", 204) == before + 1, "a preflight holds for the next one"
    assert tried.read({"seq_num": 0}) == ["one", "zwei – 2", "three"]


def test_a_page_without_a_good_token_is_told_why(tried: Tried) -> None:
    """It can read the refusal, its status, what it says of effects and the request's id."""
    with pytest.raises(PageError) as refused:
        tried.run("return await examples.append(place[0], 'none', place[2], place[3], ['x']);")
    status, message, effects, request_id = str(refused.value).removeprefix("Error: ").split(" | ")
    assert (status, effects) == ("401", "none")
    assert "token" in message and len(request_id) > 8
    assert tried.read({"seq_num": 0}) == []


def test_headers_that_are_exposed_can_be_read_and_no_others(tried: Tried) -> None:
    """What a page goes by, of an answer that may be kept."""
    tried.append("a", "b")
    script = """
      const records = `${place[0]}/v1/streams/${encodeURIComponent(place[3])}/records`;
      const headers = {authorization: `Bearer ${place[1]}`, "svc-basin": place[2]};
      const answer = await fetch(`${records}?seq_num=0&count=1`, {headers});
      return Object.fromEntries(answer.headers);
    """
    shown = tried.run(script)
    assert shown["etag"].startswith('W/"')
    assert shown["cache-control"] == "private, max-age=60"
    assert shown["x-request-id"]
    assert "vary" not in shown and "access-control-allow-origin" not in shown


def test_a_page_follows_a_stream_with_a_read_ticket(tried: Tried) -> None:
    """What was there, and what comes while it listens, though authentication is on."""
    tried.append("before")
    tried.run(
        """
        window.heard = []; window.ended = null;
        const ticket = await examples.ticket(...place);
        window.source = examples.follow(place[0], ticket, place[2], place[3],
          (records) => window.heard.push(...records.map((record) => record.body)),
          (why) => { window.ended = why; });
        """
    )
    until(lambda: tried.run("return window.heard;") == ["before"])
    tried.append("while", "it listens")
    until(lambda: tried.run("return window.heard;") == ["before", "while", "it listens"])
    assert tried.run("return window.ended;") is None
    tried.run("window.source.close();")


@pytest.mark.parametrize(
    "ticket", ["'none'", "await examples.ticket(place[0], place[1], place[2], 'another')"]
)
def test_a_ticket_that_is_none_or_of_another_stream_opens_nothing(
    tried: Tried, ticket: str
) -> None:
    """The source is closed by the browser, and hears nothing."""
    tried.append("secret")
    script = f"""
      const ticket = {ticket};
      return await new Promise((told) => examples.follow(place[0], ticket, place[2], place[3],
        (records) => told(records), (why) => told(why)));
    """
    assert tried.run(script) == "refused"


def test_the_browser_keeps_a_closed_range_and_asks_again_by_its_tag(tried: Tried) -> None:
    """No request the second time; a 304 where the page wants to be sure; others after a trim."""
    tried.append("a", "b", "c", "d")
    closed = {"seq_num": 0, "count": 2}
    found, unchanged = tried.asked("GET", 200), tried.asked("GET", 304)
    assert tried.read(closed) == ["a", "b"]
    assert tried.asked("GET", 200) == found + 1
    assert tried.read(closed) == ["a", "b"]
    assert (tried.asked("GET", 200), tried.asked("GET", 304)) == (found + 1, unchanged)
    assert tried.read(closed, "no-cache") == ["a", "b"]
    assert (tried.asked("GET", 200), tried.asked("GET", 304)) == (found + 1, unchanged + 1)
    tried.trim(1)
    assert tried.read(closed, "no-cache") == ["b", "c"]
    assert (tried.asked("GET", 200), tried.asked("GET", 304)) == (found + 2, unchanged + 1)


def test_the_browser_keeps_no_open_range(tried: Tried) -> None:
    """What may be longer the next time is asked for each time, and so is the tail."""
    tried.append("a")
    assert tried.read({"seq_num": 0}) == ["a"]
    tried.append("b")
    assert tried.read({"seq_num": 0}) == ["a", "b"]
