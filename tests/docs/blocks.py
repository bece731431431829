"""Fenced blocks of the pages: which run in a test, which do not, and why.

A block of shell or Python is run (its fence says `example`), is run by another test (a comment
above it, `<!-- run by: tests/… -->`, and that test names the page), or says why not
(`<!-- not run: … -->`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LANGUAGES: Final = frozenset({"sh", "bash", "shell", "console", "python", "py", "pycon"})
WHOLE_PAGES: Final = {Path("docs/command.md"): "tests/e2e/test_command_document.py"}
"""Pages that a test makes anew and compares, with every block."""
_FENCE: Final = re.compile(r"^(\s*(?:\d+\. |- )?)```(.*)$")
_COMMENT: Final = re.compile(r"^\s*<!-- (not run|run by): (\S.*?) -->$")
_COMMANDS: Final = re.compile(
    r"^\s*(?:\$ )?(?:svc-cluster|curl|docker|kubectl|helm|make|pip|python3?|s2|export|systemctl) "
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `info` is what stands behind the fence; `mark` and `said` are of the
    comment above it; `output` is the block of printed text behind it, if any."""

    page: Path
    line: int
    info: tuple[str, ...]
    text: str
    mark: str
    said: str
    output: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_example(self) -> bool:
        return "example" in self.info[1:]

    @property
    def is_code(self) -> bool:
        return bool(self.info) and self.info[0] in LANGUAGES


def pages(root: Path = ROOT) -> list[Path]:
    """Every page that a reader may paste from, below `root`."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "examples").glob("*.md")]
    return sorted(path.relative_to(root) for path in found)


def blocks_of(page: Path, text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page's text, in their order."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == "```"), len(lines))
        indent = len(fence[1])
        body = "".join(f"{line[indent:]}\n" for line in lines[at + 1 : end])
        above = next((line for line in reversed(lines[:at]) if line.strip()), "")
        comment = _COMMENT.match(above)
        mark, said = (comment[1], comment[2]) if comment else ("", "")
        if not mark and page in WHOLE_PAGES:
            mark, said = "run by", WHOLE_PAGES[page]
        found.append(Block(page, at + 1, tuple(fence[2].split()), body, mark, said))
        at = end + 1
    for number, block in enumerate(found):
        behind = found[number + 1] if number + 1 < len(found) else None
        shown = behind is not None and behind.info == ("text", "output")
        output = behind.text.rstrip("\n") if behind is not None and shown else None
        yield Block(block.page, block.line, block.info, block.text, block.mark, block.said, output)


def fault_of(block: Block, root: Path = ROOT) -> str | None:
    """Return what is wrong with a block's mark, or None."""
    if not block.is_code:
        if not block.info and any(map(_COMMANDS.match, block.text.splitlines())):
            return "has commands and names no language"
        if block.mark == "not run":
            return "is no code, and says why it is not run"
        return None
    if block.is_example:
        return "runs, and says why it does not" if block.mark else None
    if block.mark == "run by":
        test = root / block.said
        if not test.is_file():
            return f"is run by {block.said}, which is not there"
        return None if block.page.name in test.read_text() else f"is not named by {block.said}"
    return None if block.mark == "not run" else "neither runs in a test nor says why not"


def counted(blocks: list[Block]) -> tuple[int, int]:
    """Return how many blocks of code run in a test, and how many do not."""
    code = [block for block in blocks if block.is_code]
    left = sum(block.mark == "not run" for block in code)
    return len(code) - left, left
