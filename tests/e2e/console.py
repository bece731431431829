"""The console in a browser's tab, for the tests that look at it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any, Final

from tests.contract.access import ROOT_SECRET, Account
from tests.e2e.browser import Browser, until

BASIN: Final = "of-the-console"
_NAMES: Final = itertools.count()

PICTURES: Final = os.environ.get("CONSOLE_PICTURES")
"""A directory for pictures of the views (docs/console.md); unset: none are taken."""


def quoted(name: str) -> str:
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}"
        for byte in name.encode()
    )


def address(stream: str) -> str:
    """Where the page shows a stream of the basin."""
    return f"#/basins/{BASIN}/streams/{quoted(stream)}"


def made(account: Account, name: str | None = None, config: dict[str, Any] | None = None) -> str:
    """The name of a new stream of the basin."""
    stream = f"a stream/{next(_NAMES)}" if name is None else name
    body = {"stream": stream} if config is None else {"stream": stream, "config": config}
    _carried_out(account, "/v1/streams", body, 201, svc_basin=BASIN)
    return stream


def append(account: Account, stream: str, *records: dict[str, Any]) -> None:
    path = f"/v1/basins/{BASIN}/streams/{quoted(stream)}/append"
    _carried_out(account, path, {"records": list(records)}, 200)


def _carried_out(
    account: Account, path: str, body: dict[str, Any], status: int, **headers: str
) -> None:
    """A request that has this status, also where a busy machine has put it off before."""

    def is_answered() -> bool:
        answer = account.ask("POST", path, body, **headers)
        was_put_off = answer.status == 503 and answer.headers["svc-side-effects"] == "none"
        assert was_put_off or answer.status == status, answer
        return not was_put_off

    account.until(is_answered)


class Console:
    """The console in a tab, as somebody uses it who sees what is on the page."""

    def __init__(self, browser: Browser, endpoint: str) -> None:
        self.browser = browser
        self.endpoint = endpoint

    def open(self, token: str | None = ROOT_SECRET) -> None:
        """Anew, so that nothing of the page before is left."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.endpoint}/console")
        until(lambda: self.heading())
        if token is not None:
            until(lambda: self.heading() == "Sign in")
            self.fill("Access token", token)
            self.press("Sign in")

    def run(self, script: str, **given: Any) -> Any:
        return self.browser.run(script, **given)

    def heading(self) -> str:
        return self.run("return document.querySelector('h1')?.textContent ?? '';") or ""

    def text(self) -> str:
        return self.run("return document.body.innerText;") or ""

    def go(self, address: str, heading: str) -> None:
        self.run("location.hash = given.address;", address=address)
        until(lambda: self.heading() == heading)

    def fill(self, label: str, value: str) -> None:
        """What a reader of the screen is told is how the field is found."""
        script = """
          const label = [...document.querySelectorAll("label")]
            .find((each) => each.textContent.startsWith(given.label));
          const field = label.querySelector("input, select, textarea");
          if (field.type === "checkbox") field.checked = given.value === "yes";
          else field.value = given.value;
          field.dispatchEvent(new Event("change", {bubbles: true}));
        """
        self.run(script, label=label, value=value)

    def press(self, text: str) -> None:
        script = """
          const found = [...document.querySelectorAll("button")]
            .filter((each) => (each.getAttribute("aria-label") ?? each.textContent) === given.text);
          if (found.length !== 1) throw new Error(`${found.length} buttons ${given.text}`);
          found[0].click();
        """
        self.run(script, text=text)

    def watch(self) -> None:
        """From now on, what is put into the list of records is noted, whatever leaves it again."""
        script = """
          window.seen = [];
          new MutationObserver((changes) => { for (const change of changes)
            for (const row of change.addedNodes) window.seen.push(row.dataset.seqNum);
          }).observe(document.getElementById("records"), {childList: true});
        """
        self.run(script)

    def seen(self) -> list[int]:
        """The sequence numbers of all records that were shown since `watch`."""
        return [int(number) for number in self.run("return window.seen;")]

    def state(self) -> str:
        """What the page says of its connection to the stream."""
        return self.run("return document.getElementById('state').textContent;") or ""

    def bodies(self) -> list[str]:
        script = """
          return [...document.querySelectorAll("#records li")]
            .map((each) => each.lastElementChild.textContent);
        """
        found: list[str] = self.run(script)
        return found

    def picture(self, name: str) -> None:
        if PICTURES is not None:
            Path(PICTURES, f"{name}.png").write_bytes(self.browser.picture(1100, 800))
