"""A real browser without a window: Debian's chromium, driven by its chromedriver.

Spoken to over the driver's own protocol (W3C WebDriver), so that nothing needs to be installed for
it. The browser finds no host but this machine (as `plain.test` too, where pages over plain HTTP are
not taken for secure ones, as they are on loopback): it downloads nothing.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import shutil
import subprocess
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self

import pytest

SECONDS: Final = 60.0
_STARTED: Final = re.compile(rb"started successfully on port (\d+)")
_LINES_MAX: Final = 100
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP plain.test 127.0.0.1, MAP * ~NOTFOUND, "
    "EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
_RUN: Final = """
const [given, done] = [arguments[0], arguments[arguments.length - 1]];
(async () => {
  %s
})().then((value) => done({value}), (error) => done({error: String(error)}));
"""


class PageError(Exception):
    """What a script threw."""


def installed() -> tuple[str, str]:
    """The browser and its driver; skips the test, and says so, where one is missing."""
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if found[0] is None or found[1] is None:
        pytest.skip(
            "chromium or chromium-driver is not installed (Debian: apt-get install chromium "
            "chromium-driver): no page was tried in a browser"
        )
    return found[0], found[1]


class Browser:
    """One tab. Scripts run in the page that was opened last."""

    def __init__(self, directory: Path) -> None:
        chromium, driver = installed()
        self._driver = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._session = ""
        try:
            self._port = self._started_on()
            options = {
                "binary": chromium,
                "args": [*_ARGUMENTS, f"--user-data-dir={directory}"],
            }
            wanted = {"alwaysMatch": {"goog:chromeOptions": options}}
            made = self._ask("POST", "/session", {"capabilities": wanted})
            self._session = f"/session/{made['sessionId']}"
            limits = {"script": int(SECONDS * 1000), "pageLoad": int(SECONDS * 1000)}
            self._ask("POST", f"{self._session}/timeouts", limits)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the tab, the browser and its driver."""
        try:
            if self._session:
                self._ask("DELETE", self._session, None)
        finally:
            self._driver.terminate()
            self._driver.communicate(timeout=SECONDS)

    def open(self, url: str) -> None:
        self._ask("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, **given: Any) -> Any:
        """What the body of an asynchronous function returns, in which the values `given` are known.
        Raises PageError for what it throws."""
        body = {"script": _RUN % script, "args": [given]}
        found = self._ask("POST", f"{self._session}/execute/async", body)
        if "error" in found:
            raise PageError(found["error"])
        return found.get("value")

    def strike(self, *keys: str) -> None:
        """Strike keys one behind the other: characters, or as WebDriver names the others."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._act(actions)

    def strike_with(self, held: str, key: str) -> None:
        """Strike a key while another one is held down."""
        down, up = "keyDown", "keyUp"
        strokes = ((down, held), (down, key), (up, key), (up, held))
        self._act([{"type": kind, "value": each} for kind, each in strokes])

    def _act(self, actions: list[dict[str, str]]) -> None:
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self._ask("POST", f"{self._session}/actions", {"actions": [keyboard]})

    def picture(self, width: int, height: int) -> bytes:
        """The page in a window of this size, in pixels, as a PNG."""
        self._ask("POST", f"{self._session}/window/rect", {"width": width, "height": height})
        return base64.b64decode(self._ask("GET", f"{self._session}/screenshot", None))

    def prefer(self, scheme: str) -> None:
        """Pages are told from now on that light or dark is preferred."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        wanted = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}
        self._ask("POST", f"{self._session}/goog/cdp/execute", wanted)

    def _started_on(self) -> int:
        assert self._driver.stdout is not None
        for _ in range(_LINES_MAX):
            if found := _STARTED.search(self._driver.stdout.readline()):
                return int(found[1])
        raise AssertionError("chromedriver does not say where it listens")

    def _ask(self, method: str, path: str, body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2 * SECONDS)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json"})
            answer = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(answer, dict) and "stacktrace" in answer:
            raise PageError(f"{answer['error']}: {answer['message']}")
        return answer


class Site:
    """Another origin than the service: an empty page, and a module of scripts for it."""

    def __init__(self, module: str) -> None:
        files = {
            "/": ("text/html", "<!doctype html><title>page</title>"),
            "/examples.js": ("text/javascript", module),
        }

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kind, text = files.get(self.path, ("text/plain", ""))
                data = text.encode()
                self.send_response(200 if self.path in files else 404)
                self.send_header("content-type", f"{kind}; charset=utf-8")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://localhost:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def until(holds: Any, seconds: float = SECONDS) -> Any:
    """What `holds` returns, as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it does not come to hold"
    return found
