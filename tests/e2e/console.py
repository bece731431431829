"""The console in a browser's tab, for the tests that look at it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from tests.contract.access import ROOT_SECRET
from tests.e2e.browser import Browser, until

PICTURES: Final = os.environ.get("CONSOLE_PICTURES")
"""A directory for pictures of the views (docs/console.md); unset: none are taken."""


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
