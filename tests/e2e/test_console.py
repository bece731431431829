"""The console in a real browser: its views, what it must not do, and a tail through a kill.

Authentication is on, but for the cluster whose leader is killed. Rules: contract 4.12, 13.6 and
13.7.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

from tests.contract.access import ALL, EVERYWHERE, ROOT_SECRET, Account
from tests.contract.client import b64
from tests.contract.conftest import Server
from tests.e2e.browser import Browser, installed, until
from tests.e2e.cluster import running, whole
from tests.e2e.console import BASIN, Console, address, append, made, quoted
from tests.e2e.load import set_up

HOSTILE: Final = "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>"
RECORDS: Final = 10_000


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


def test_without_a_token_there_is_a_login_and_no_data(console: Console, account: Account) -> None:
    """Whatever the address says. A wrong token is refused in words, and a good one opens; it is in
    no storage and gone with the page."""
    for wanted in ("", "#/basins", f"#/basins/{BASIN}", "#/tokens", "#/activity"):
        console.browser.open("about:blank")
        console.browser.open(f"{account.endpoint}/console{wanted}")
        until(lambda: console.heading() == "Sign in")
        assert BASIN not in console.text()
    console.fill("Access token", "wrong")
    console.press("Sign in")
    until(lambda: "unknown or revoked" in console.text())
    assert console.heading() == "Sign in"
    console.open()
    until(lambda: console.heading() == "Cluster")
    kept = console.run(
        "return [localStorage.length, sessionStorage.length, document.cookie, location.href];"
    )
    assert kept == [0, 0, "", f"{account.endpoint}/console"]
    console.press("Sign out")
    until(lambda: console.heading() == "Sign in")
    console.browser.open(f"{account.endpoint}/console")
    until(lambda: console.heading() == "Sign in")


def test_the_cluster_is_shown_with_its_leaders(console: Console) -> None:
    """The one node there is, well, and at the head of the catalog and of each basin."""
    console.open()
    until(lambda: console.heading() == "Cluster")
    until(lambda: "Node 1 well" in console.text().replace("\n", " "))
    text = console.text()
    assert "(the catalog)" in text and BASIN in text


def test_basins_and_streams_are_made_and_found(console: Console, account: Account) -> None:
    """By forms; what is made is really there, and the page goes to it."""
    console.open()
    until(lambda: console.heading() == "Cluster")
    console.go("#/basins", "Basins")
    console.fill("New basin", "made-by-a-page")
    console.press("Create")
    until(lambda: console.heading() == "made-by-a-page")
    console.fill("New stream", "with / and ünusual")
    console.press("Create")
    until(lambda: console.heading() == "with / and ünusual")
    answer = account.ask("GET", "/v1/basins/made-by-a-page/streams")
    assert [stream["name"] for stream in answer.json["streams"]] == ["with / and ünusual"]
    console.go("#/basins/made-by-a-page", "made-by-a-page")
    until(lambda: "Append operations" in console.text())
    assert "with / and ünusual" in console.text()
    console.picture("basin")


def test_a_tail_shows_what_is_appended_by_the_page_and_by_others(
    console: Console, account: Account
) -> None:
    """Text as text, JSON laid out, bytes as bytes; one append of many lines is many records."""
    stream = made(account)
    append(account, stream, {"body": b64("before")})
    console.open()
    until(lambda: console.heading() == "Cluster")
    console.go(address(stream), stream)
    until(lambda: console.bodies() == ["before"])
    console.fill("Body", "one\ntwo")
    console.fill("A record for each line", "yes")
    console.press("Append")
    until(lambda: console.bodies() == ["before", "one", "two"])
    assert "Appended: 1 to 2" in console.text()
    append(account, stream, {"body": b64('{"temperature":21.5}')}, {"body": b64(b"\xff\x00")})
    until(lambda: console.bodies()[3:] == ['{\n "temperature": 21.5\n}', "ff 00"])
    console.picture("stream")


def test_numbers_that_a_browser_cannot_hold_are_shown_as_they_are(
    console: Console, account: Account
) -> None:
    """JSON is laid out only where that changes nothing of it."""
    stream = made(account)
    texts = ['{"id":12345678901234567890}', '{"a":1,"a":2}', '{"price":1.10}', "{broken"]
    append(account, stream, *({"body": b64(text)} for text in texts))
    console.open()
    until(lambda: console.heading() == "Cluster")
    console.go(address(stream), stream)
    until(lambda: console.bodies() == texts)


def test_a_tail_is_sought_by_number_and_time_and_pauses_without_a_gap(
    console: Console, account: Account
) -> None:
    """What comes during a pause is shown behind it, once."""
    stream = made(account)
    append(
        account,
        stream,
        *({"body": b64(f"r{number}"), "timestamp": 1_000 * (number + 1)} for number in range(5)),
    )
    console.open()
    until(lambda: console.heading() == "Cluster")
    console.go(address(stream), stream)
    until(lambda: len(console.bodies()) == 5)
    console.fill("Begin at", "seq_num")
    console.fill("Where", "3")
    console.press("Show")
    until(lambda: console.bodies() == ["r3", "r4"])
    console.fill("Begin at", "timestamp")
    console.fill("Where", "1970-01-01 00:00:02")
    console.press("Show")
    until(lambda: console.bodies() == ["r1", "r2", "r3", "r4"])
    console.fill("Where", "yesterday")
    console.press("Show")
    until(lambda: "A time looks so" in console.text())
    console.press("Pause")
    append(account, stream, {"body": b64("meanwhile")})
    assert console.bodies() == ["r1", "r2", "r3", "r4"]
    console.press("Go on")
    until(lambda: console.bodies() == ["r1", "r2", "r3", "r4", "meanwhile"])


def test_tokens_are_issued_used_and_revoked(console: Console, account: Account) -> None:
    """The secret is told once and opens what was ticked, no more; revoked by a second press."""
    console.open()
    until(lambda: console.heading() == "Cluster")
    console.go("#/tokens", "Access tokens")
    console.fill("Id", "of-the-page")
    console.fill("Basins", "of-the-*")
    console.fill("basin: read", "yes")
    console.fill("stream: read", "yes")
    console.press("Issue")
    until(lambda: "of-the-page" in console.text() and "told this once" in console.text())
    console.picture("tokens")
    secret = console.run("return document.querySelector('#secret code').textContent;")
    path = f"/v1/basins/{BASIN}/streams"
    assert account.ask("GET", path, None, secret).status == 200
    assert account.ask("POST", path, {"stream": "no"}, secret).status == 403
    console.press("Revoke of-the-page")
    assert account.ask("GET", path, None, secret).status == 200, "it is asked first"
    console.press("Revoke of-the-page")
    until(lambda: "Revoke of-the-page" not in console.run("return document.body.innerHTML;"))
    assert account.ask("GET", path, None, secret).status == 401


def test_activity_is_shown_to_tokens_for_everything_only(
    console: Console, account: Account
) -> None:
    """The audit log's newest events; whoever may see only some is told so, and no more."""
    console.open()
    until(lambda: console.heading() == "Cluster")
    made(account, "for the activity")
    console.go("#/activity", "Activity")
    assert "create-stream" in console.text() and "for the activity" in console.text()
    console.picture("activity")
    scope = {
        **EVERYWHERE,
        "basins": {"prefix": "of-the-"},
        "op_groups": {
            name: {"read": True, "write": True} for name in ("account", "basin", "stream")
        },
    }
    for told, given in (
        ("some basins", scope),
        ("no tokens", {**scope, "basins": ALL, "access_tokens": {"prefix": "x"}}),
    ):
        body = {"id": told, "scope": given}
        secret = account.ask("POST", "/v1/access-tokens", body).json["access_token"]
        console.open(secret)
        until(lambda: console.heading() == "Cluster")
        console.go("#/activity", "Activity")
        assert "tokens for everything only" in console.text()
        assert "for the activity" not in console.text()


def test_nothing_that_clients_name_or_write_becomes_part_of_the_page(
    console: Console, account: Account
) -> None:
    """Names of streams and tokens, headers, bodies and what a refusal repeats, on every view."""
    stream = made(account, HOSTILE)
    append(account, stream, {"body": b64(HOSTILE), "headers": [[b64(HOSTILE), b64(HOSTILE)]]})
    scope = {**EVERYWHERE, "ops": ["read"]}
    assert account.ask("POST", "/v1/access-tokens", {"id": HOSTILE, "scope": scope}).status == 201
    console.open()
    until(lambda: console.heading() == "Cluster")
    console.go(f"#/basins/{BASIN}", BASIN)
    console.go("#/tokens", "Access tokens")
    console.go("#/activity", "Activity")
    console.go(address(stream), HOSTILE)
    until(lambda: console.bodies() == [HOSTILE])
    console.go(f"#/basins/{quoted(HOSTILE)}", "This cannot be shown")
    hurt = "return [window.hurt ?? 0, document.querySelectorAll('main img, main script').length];"
    assert console.run(hurt) == [0, 0]
    with pytest.raises(Exception, match="TrustedHTML"):
        console.run("document.body.innerHTML = given.text;", text=HOSTILE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_fault_of_accessibility(
    console: Console, account: Account, scheme: str
) -> None:
    """By axe, whose rules say what keeps somebody from using a page: contrast, names, order. Each
    view at the width of a phone as well, where nothing but tables may be wider than the screen."""
    axe = files("axe_core_python").joinpath("axe.min.js").read_text()
    stream = made(account)
    append(account, stream, {"body": b64("seen")})
    console.browser.prefer(scheme)
    console.open(None)
    views = [
        ("Sign in", None),
        ("Cluster", "#/"),
        ("Basins", "#/basins"),
        (BASIN, f"#/basins/{BASIN}"),
        (stream, address(stream)),
        ("Access tokens", "#/tokens"),
        ("Activity", "#/activity"),
    ]
    for heading, place in views:
        if place == "#/":
            console.open()
            until(lambda: console.heading() == "Cluster")
        elif place is not None:
            console.go(place, heading)
        for width in (360, 1100):
            console.browser.picture(width, 800)
            found = console.run(f"{axe}; return (await axe.run()).violations;")
            faults = [
                (each["id"], each["impact"], [node["html"] for node in each["nodes"]][:3])
                for each in found
                if each["impact"] in ("serious", "critical")
            ]
            assert faults == [], (heading, width, json.dumps(faults, indent=1))
            wider = console.run("return document.documentElement.scrollWidth - innerWidth;")
            assert wider <= 0, (heading, width)


def test_a_tail_in_a_page_loses_and_doubles_nothing_when_the_leader_is_killed(
    browser: Browser, tmp_path: Path
) -> None:
    """Each of 10,000 records is put on the page once, in order, while the leader gets SIGKILL."""
    installed()

    async def main() -> list[int]:
        async with running(tmp_path / "cluster") as cluster:
            await set_up(cluster.url, BASIN, ["log"])
            await whole(cluster, BASIN, 3)
            console = Console(browser, cluster.url)
            await asyncio.to_thread(console.open, None)
            await asyncio.to_thread(console.go, address("log"), "log")
            await asyncio.to_thread(console.watch)
            sent = asyncio.create_task(asyncio.to_thread(append_all, cluster.url))
            half = "return window.seen.length > 3000;"
            await asyncio.to_thread(until, lambda: console.run(half))
            cluster.kill_node(await cluster.wait_leader(BASIN))
            await sent
            whole_count = f"return window.seen.length >= {RECORDS};"
            await asyncio.to_thread(until, lambda: console.run(whole_count))
            return await asyncio.to_thread(console.seen)

    seen = asyncio.run(main())
    assert seen == list(range(RECORDS))


def append_all(url: str) -> None:
    """All records, in order: a batch goes again until it is there: its condition makes it safe."""
    client = Account(url, Path())
    path = f"/v1/basins/{BASIN}/streams/log/append"
    batch = 100
    for first in range(0, RECORDS, batch):
        records = [{"body": b64(str(first + number))} for number in range(batch)]
        wanted = {"records": records, "match_seq_num": first}
        while True:
            answer = client.ask("POST", path, wanted, None)
            if answer.status == 200:
                break
            # there already: an answer before was lost with its leader
            if answer.status == 412 and answer.json["seq_num_mismatch"] == first + batch:
                break
            assert answer.status in (408, 502, 503), answer
    client.client.connection.close()
