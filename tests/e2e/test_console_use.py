"""The console as it is used: by keys alone, pressed twice, with a token that ends, and with records
that a browser has no date or number for.

Each test has what it needs of one service. Rules: contract 4.12, 10.1 and 12.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.contract.access import EVERYWHERE, ROOT_SECRET, Account
from tests.contract.client import b64
from tests.contract.conftest import Server
from tests.e2e.browser import Browser, installed, until
from tests.e2e.console import BASIN, Console, address, append, made, quoted
from tests.e2e.cut_answers import CutAnswers

TAB: Final = "\ue004"
ENTER: Final = "\ue007"
SHIFT: Final = "\ue008"
UP: Final = "\ue013"
DOWN: Final = "\ue015"
STEPS_MAX: Final = 40
"""Tabs from one element of a page to any other."""

READS: Final = {
    **EVERYWHERE,
    "op_groups": {name: {"read": True} for name in ("account", "basin", "stream")},
}
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


def kept(account: Account, stream: str) -> list[str]:
    """The bodies that are in the stream, as base64."""
    path = f"/v1/basins/{BASIN}/streams/{quoted(stream)}/read?seq_num=0"
    answer = account.ask("GET", path, svc_format="base64")
    assert answer.status == 200, answer
    return [record["body"] for record in answer.json["records"]]


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


def test_a_double_click_appends_once(console: Console, account: Account) -> None:
    """The button is off while the append is under way: one request, one record. The same text is
    another append when it is sent later."""
    stream = made(account)
    shown(console, stream)
    twice = """
      const button = [...document.querySelectorAll("button")]
        .find((each) => each.textContent === "Append");
      const own = window.fetch;
      window.appends = [];
      window.fetch = (path, options) => {
        if (path.endsWith("/append")) window.appends.push(options.headers["svc-request-token"]);
        return own(path, options);
      };
      button.click();
      const isOff = button.disabled;
      button.click();
      return isOff;
    """
    console.fill("Body", "pressed twice")
    assert console.run(twice) is True
    until(lambda: "Appended: 0 to 0" in console.text())
    console.fill("Body", "pressed twice")
    console.press("Append")
    until(lambda: "Appended: 1 to 1" in console.text())
    assert kept(account, stream) == [b64("pressed twice")] * 2
    tokens = console.run("return window.appends;")
    assert len(tokens) == 2 == len(set(tokens)), tokens


def test_an_append_whose_answer_is_lost_is_there_once_when_it_is_sent_again(
    browser: Browser, account: Account
) -> None:
    """The page says that it may be there; the same pressed again is the same append, and another
    text is another one."""
    stream = made(account)
    with CutAnswers(int(account.endpoint.rpartition(":")[2])) as way:
        console = Console(browser, way.url)
        shown(console, stream)
        way.cuts_next = True
        console.fill("Body", "sent twice")
        console.press("Append")
        until(lambda: "it may be appended; press Append again" in console.text())
        assert kept(account, stream) == [b64("sent twice")]
        console.press("Append")
        until(lambda: "Appended: 0 to 0" in console.text())
        assert kept(account, stream) == [b64("sent twice")]
        way.cuts_next = True
        console.fill("Body", "one")
        console.press("Append")
        until(lambda: "it may be appended; press Append again" in console.text())
        console.fill("Body", "another")
        console.press("Append")
        until(lambda: "Appended: 2 to 2" in console.text())
        assert kept(account, stream) == [b64("sent twice"), b64("one"), b64("another")]
        console.browser.open("about:blank")


@pytest.mark.parametrize("view", ["the cluster", "a stream"])
def test_where_a_token_is_revoked_the_page_shows_a_login_and_no_data(
    console: Console, account: Account, view: str
) -> None:
    """Of itself, while the view stands: nothing of what the token had opened stays on the page."""
    stream = made(account)
    append(account, stream, {"body": b64("for those with a token")})
    token, secret = account.issue(READS, id=f"ends at {view}")
    if view == "a stream":
        shown(console, stream, secret)
        until(lambda: "for those with a token" in console.text())
    else:
        console.open(secret)
        until(lambda: console.heading() == "Cluster")
        until(lambda: "Node 1" in console.text() and BASIN in console.text())
    assert account.revoke(quoted(token)).status == 204
    until(lambda: console.heading() == "Sign in")
    for word in ("Node 1", BASIN, stream, "for those", "Sign out"):
        assert word not in console.text()
    assert "revoked" in console.text(), "it says why"
    console.fill("Access token", ROOT_SECRET)
    console.press("Sign in")
    until(lambda: console.heading() == (stream if view == "a stream" else "Cluster"))


def test_what_a_token_may_not_see_any_more_leaves_the_page(
    console: Console, account: Account
) -> None:
    """A 403 while the map of the nodes stands takes it away, as it keeps others from seeing it."""
    _, narrow = account.issue({**READS, "basins": {"prefix": "of-the-"}})
    console.open()
    until(lambda: "Node 1" in console.text() and BASIN in console.text())
    as_another = """
      const own = window.fetch;
      window.fetch = (path, options) => own(path, {
        ...options, headers: {...options.headers, authorization: `Bearer ${given.secret}`}});
    """
    console.run(as_another, secret=narrow)
    until(lambda: "Your access token is for some basins only" in console.text())
    assert "Node 1" not in console.text() and BASIN not in console.text()


def test_signing_out_takes_what_is_shown_away_at_once(console: Console) -> None:
    """Before the service says anything: it might be away."""
    console.open()
    until(lambda: "Node 1" in console.text() and BASIN in console.text())
    script = """
      document.querySelector("#who button").click();
      return document.getElementById("main").innerText;
    """
    assert console.run(script) == ""
    until(lambda: console.heading() == "Sign in")


class Keyboard:
    """Somebody who has no mouse, and hears what has the focus."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def at(self) -> str:
        """What is said of the element with the focus."""
        script = """
          const at = document.activeElement;
          const label = at.closest("label");
          return at.getAttribute("aria-label") ?? (label ?? at).textContent.trim();
        """
        return "" if self._is_nowhere() else self.console.run(script)

    def _is_nowhere(self) -> bool:
        script = "return [document.body, null].includes(document.activeElement);"
        return bool(self.console.run(script))

    def go_to(self, name: str, *, back: bool = False) -> None:
        """Tab, or Shift and Tab, until something whose name begins so has the focus, which is seen
        then."""
        passed: list[str] = []
        for _ in range(STEPS_MAX):
            if back:
                self.console.browser.strike_with(SHIFT, TAB)
            else:
                self.console.browser.strike(TAB)
            passed.append(self.at())
            if passed[-1].startswith(name):
                outline = "return getComputedStyle(document.activeElement).outlineStyle;"
                assert self.console.run(outline) == "solid", f"{name} is not seen to be there"
                return
        raise AssertionError(f"{name} is not reached: {passed}")

    def strike(self, *keys: str) -> None:
        self.console.browser.strike(*keys)


def test_where_a_view_cannot_be_shown_the_next_key_is_at_what_it_offers(console: Console) -> None:
    """The page that says why has the focus, as any view has."""
    console.open()
    until(lambda: console.heading() == "Cluster")
    Keyboard(console).go_to("Basins and who leads them")
    console.go("#/basins/there-is-none", "This cannot be shown")
    assert console.run("return document.activeElement.id;") == "main"
    console.browser.strike(TAB)
    assert Keyboard(console).at() == "Try again"


def test_from_the_login_to_an_append_by_keys_alone(console: Console, account: Account) -> None:
    """Tab, Enter, Space and arrows, and nothing else: sign in, find a stream of a basin, read it
    from where one likes, scroll in it, pause it, append to it, and append once more."""
    stream = made(account, "by keys")
    append(account, stream, *({"body": b64(f"r{number}")} for number in range(60)))
    keys = Keyboard(console)
    console.open(None)
    until(lambda: console.heading() == "Sign in")
    assert keys.at() == "Access token"
    keys.strike(*ROOT_SECRET, ENTER)
    until(lambda: console.heading() == "Cluster")
    until(lambda: BASIN in console.text())
    keys.go_to("Basins", back=True)
    keys.strike(ENTER)
    until(lambda: console.heading() == "Basins")
    keys.go_to(BASIN)
    keys.strike(ENTER)
    until(lambda: console.heading() == BASIN)
    keys.go_to("by keys")
    keys.strike(ENTER)
    until(lambda: console.bodies() == [f"r{number}" for number in range(40, 60)])
    _read(console, keys)
    _append(console, keys)
    assert kept(account, stream)[60:] == [b64(text) for text in ("a", "b", "c")]


def _read(console: Console, keys: Keyboard) -> None:
    """From number 5 on, to its beginning and its end, with a pause."""
    keys.go_to("Begin at")
    keys.strike(DOWN)
    keys.go_to("Where")
    keys.strike("5", ENTER)
    until(lambda: console.bodies() == [f"r{number}" for number in range(5, 60)])
    keys.go_to("Pause")
    keys.strike(" ")
    until(lambda: console.state() == "paused")
    assert keys.at() == "Go on"
    keys.strike(ENTER)
    until(lambda: console.state() == "live")
    keys.go_to("Records")
    scrolled = "return document.getElementById('records').scrollTop;"
    bottom: Any = console.run(scrolled)
    assert bottom > 0, "it shows its end"
    keys.strike(UP)
    until(lambda: console.run(scrolled) < bottom)
    keys.strike(DOWN)
    until(lambda: console.run(scrolled) == bottom)


def _append(console: Console, keys: Keyboard) -> None:
    """Two lines as two records, then one, without a search for the form in between."""
    keys.go_to("Body")
    keys.strike("a", ENTER, "b")
    keys.go_to("A record for each line")
    keys.strike(" ")
    keys.go_to("Append")
    keys.strike(ENTER)
    until(lambda: console.bodies()[-2:] == ["a", "b"])
    assert "Appended: 60 to 61" in console.text()
    until(lambda: keys.at() == "Append")
    keys.go_to("Body", back=True)
    keys.strike("c")
    keys.go_to("Append")
    keys.strike(" ")
    until(lambda: console.bodies()[-3:] == ["a", "b", "c"])
