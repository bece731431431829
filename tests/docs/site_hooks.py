"""What the builder of the site does to each page of docs/ before it renders it.

Words behind a fence's language are for the tests, and a link to a file outside docs/ leads nowhere
on a site: its text stays, with the file's place in the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

_INFO: Final = re.compile(r"^(\s*(?:\d+\. |- )?```)(\w+) .*$", re.MULTILINE)
_MARKS: Final = re.compile(r"^\s*<!-- (?:not run|run by|made from|end).*-->\n", re.MULTILINE)
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_LIST: Final = re.compile(r"^((?!\s*(?:[-*]|\d+\.) )\S.*)\n(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_ROOT: Final = Path(__file__).resolve().parents[2]


def for_site(text: str, page: str) -> str:
    """Return a page's text as the site has it; `page` is its place below docs/."""
    text = _MARKS.sub("", _INFO.sub(r"\1\2", text))
    pieces = re.split(r"(^\s*```.*?^\s*```$)", text, flags=re.MULTILINE | re.DOTALL)
    for at in range(0, len(pieces), 2):  # every other one is a fenced block
        links = _LINK.sub(lambda found: _inside(found, page), pieces[at])
        pieces[at] = _LIST.sub(r"\1\n\n", links)  # a list needs a blank line above it there
    return "".join(pieces)


def _inside(link: re.Match[str], page: str) -> str:
    image, text, target = link.groups()
    name, _, fragment = target.partition("#")
    if re.match(r"[a-z]+:", target) or not name:
        return link[0]
    place = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), name))
    if place.startswith("docs/") and (_ROOT / place).is_file():
        return link[0]
    if place.startswith("docs") and (_ROOT / place / "README.md").is_file():
        return f"{image}[{text}]({name.rstrip('/')}/README.md{'#' if fragment else ''}{fragment})"
    return text if text.strip("`") == place else f"{text} (`{place}`)"


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called by the builder with the text of each page."""
    return for_site(markdown, page.file.src_uri)
