"""The example for a page, in a real browser, where answers are cut off or refused.

What refuses is the real service; what a service does once in a month (an answer that ends behind
its head, one refusal after the other) is said by a server with a script, over a real socket.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self

import pytest

from tests.contract.access import ROOT_SECRET, Account
from tests.contract.conftest import Server
from tests.e2e.browser import Browser, Site, installed, until

MODULE: Final = Path(__file__).resolve().parents[2] / "examples/browser/resumable.js"
ROUTE: Final = "/v1/basins/{basin}/streams/{stream}/read"
APPENDED: Final = json.dumps({"start": {"seq_num": 7}}).encode()

pytestmark = pytest.mark.timeout(180)


class Scripted:
    """Cuts the first answer to an append off behind its head, and is away for all who read."""

    def __init__(self) -> None:
        self.appends: list[tuple[str, bytes]] = []
        """Request token and body of each."""
        self.follows: list[float] = []
        """When each source asked, in seconds."""
        given = self

        class Handler(BaseHTTPRequestHandler):
            def do_OPTIONS(self) -> None:
                self._answer(204, b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                given.appends.append((self.headers["svc-request-token"], body))
                self._answer(200, APPENDED, cut=len(given.appends) == 1)

            def do_GET(self) -> None:
                if self.headers["accept"] == "text/event-stream":
                    given.follows.append(time.monotonic())
                self._answer(503, b"{}")

            def _answer(self, status: int, body: bytes, *, cut: bool = False) -> None:
                self.send_response(status)
                self.send_header("access-control-allow-origin", "*")
                self.send_header("access-control-allow-headers", "*, authorization")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if cut else body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    installed()
    with Site(MODULE.read_text()) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.open(site.url + "/")
        yield opened


def test_an_append_whose_answer_is_cut_off_is_asked_for_again(site: Site, browser: Browser) -> None:
    """Under the same request token, in a page that came over plain HTTP from elsewhere than
    loopback, which is given no `crypto.randomUUID`."""
    script = """
      const {append} = await import("/examples.js");
      const start = await append(given.url, "a token", "basin", "stream", ["body"]);
      return [window.isSecureContext, typeof crypto.randomUUID, start];
    """
    with Scripted() as service:
        browser.open(site.url.replace("localhost", "plain.test") + "/")
        found = browser.run(script, url=service.url)
        browser.open(site.url + "/")
    assert found == [False, "undefined", 7]
    (first, body), (second, again) = service.appends
    assert first == second and body == again
    assert re.fullmatch("[0-9a-f]{32}", first)


def test_pauses_grow_while_nothing_comes(browser: Browser) -> None:
    """A service that is away is asked after 0.2, 0.4 and 0.8 s, and not given up."""
    script = """
      const {follow} = await import("/examples.js");
      window.ended = null;
      window.end = follow(given.url, "basin", "stream", async () => "a ticket", () => {},
        (why) => { window.ended = why; });
    """
    with Scripted() as service:
        browser.run(script, url=service.url)
        until(lambda: len(service.follows) > 3)
        ended = browser.run("window.end(); return window.ended;")
    gaps = [later - earlier for earlier, later in pairwise(service.follows[:4])]
    assert gaps[0] > 0.19 and gaps[1] > 0.39 and gaps[2] > 0.79, gaps
    assert ended is None


def test_a_refusal_that_will_stay_ends_it(browser: Browser, tmp_path: Path) -> None:
    """A stream that is not there, by the code of the service, which was asked twice: for events,
    and for the reason."""
    script = """
      const {follow} = await import("/examples.js");
      const [service, token, basin, stream] = given.place;
      const newTicket = async () => {
        const answer = await fetch(`${service}/v1/read-tickets`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body: JSON.stringify({ basin, streams: { exact: stream } }),
        });
        return (await answer.json()).read_ticket;
      };
      return await new Promise((told) => follow(service, basin, stream, newTicket, () => {}, told));
    """
    server = Server(tmp_path, 10.0, ROOT_SECRET)
    try:
        url = f"http://127.0.0.1:{server.port}"
        with Account(url, tmp_path) as account:
            assert account.ask("POST", "/v1/basins", {"basin": "of-a-page"}).status == 201
            place = [url, ROOT_SECRET, "of-a-page", "none"]
            assert browser.run(script, place=place) == "stream_not_found"
            page = account.client.get("/metrics").body.decode()
    finally:
        server.stop()
    labels = f'code="404",method="GET",route="{ROUTE}"'
    counted = re.findall(rf"^svc_http_requests_total\{{{re.escape(labels)}\}} (\S+)", page, re.M)
    assert [float(each) for each in counted] == [2]
