"""A built site, taken apart: what it loads, and where its links lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LINK: Final = ("a", "href")
_LOADS: Final = frozenset(
    {
        *(
            ("img", "src"),
            ("script", "src"),
            ("link", "href"),
            ("iframe", "src"),
            ("img", "srcset"),
        ),
        *(("source", "src"), ("video", "src"), ("audio", "src"), ("embed", "src")),
        *(("object", "data"), ("form", "action"), ("base", "href"), ("use", "href")),
    }
)
_FOREIGN: Final = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_OF_STYLE: Final = re.compile(r"(?:url\(\s*|@import\s+)['\"]?\s*((?:https?:)?//[^'\")\s]+)")
_HOST: Final = re.compile(r"https?://([a-z0-9.-]+\.[a-z]{2,})", re.IGNORECASE)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.names.add(value)
            if (tag, name) == LINK or (tag, name) in _LOADS:
                self.found.append((tag, name, value or ""))
            elif name == "style" and value and _OF_STYLE.search(value):
                self.found.append(("img", "src", value))


def faults(site: Path) -> Iterator[str]:
    """Yield what is loaded from another host, and links within the site that lead nowhere."""
    site = site.resolve()
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        place = path.relative_to(site).as_posix()
        for tag, name, target in page.found:
            if _FOREIGN.match(target) or _OF_STYLE.search(target):
                if (tag, name) != LINK:
                    yield f"{place} loads {target}"
                continue
            parts = urlsplit(target)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            base = site if parts.path.startswith("/") else path.parent
            found = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            heading = unquote(parts.fragment)
            if not found.is_file():
                yield f"{place} leads to {target}, which is not there"
            elif heading and found in pages and heading not in pages[found].names:
                yield f"{place} leads to {target}, which has no such heading"
    for path in sorted(site.rglob("*.css")):
        for target in _OF_STYLE.findall(path.read_text()):
            yield f"{path.relative_to(site).as_posix()} loads {target}"


def hosts_in_scripts(site: Path) -> set[str]:
    """Return every host that a script of the site names, in comments too."""
    texts = [path.read_text(errors="replace") for path in site.rglob("*.js")]
    return {host for text in texts for host in _HOST.findall(text)}
