"""The files of the console, as they lie beside this module: no build step makes them.

They are read once. What is served is chosen by its name out of a table, so that no path of a
request ever reaches the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

PAGE: Final = "index.html"
"""The one page; all views are on it."""

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
_FILE_BYTES_MAX: Final = 64 * 1024
_DIRECTORY: Final = Path(__file__).parent / "static"

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No foreign host, no script or style that stands in the page, no text that becomes markup."""

_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file and the headers that it is served with."""

    headers: tuple[tuple[str, str], ...]
    content: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """All files by name. Raises OSError where the program was installed without them."""
    found: dict[str, Asset] = {}
    for file in _DIRECTORY.iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is None:
            continue
        content = file.read_bytes()
        assert len(content) <= _FILE_BYTES_MAX, f"{file.name} is too large for one answer"
        found[file.name] = Asset((("content-type", media_type), *_HEADERS), content)
    return found
