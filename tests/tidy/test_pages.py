"""What the pages show is run, or says why not; what they list is made from the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import references
from tests.docs.blocks import ROOT, Block, blocks_of, counted, fault_of, pages

RUN_MIN = 39
NOT_RUN_MAX = 23
"""What there is now (of the first up to 9 more). It only grows, the second only shrinks."""


def every_block() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page, (ROOT / page).read_text())]


def test_every_block_of_code_runs_or_says_why_not() -> None:
    """Shell and Python, on every page; how many of each is printed and kept."""
    found = every_block()
    assert [f"{block.place} {fault}" for block in found if (fault := fault_of(block))] == []
    run, left = counted(found)
    print(f"\n{run} blocks of code on the pages run in a test, {left} do not and say why")
    assert run >= RUN_MIN and left <= NOT_RUN_MAX, "run what stands there, or take it out"
    assert run - RUN_MIN < 10 and left == NOT_RUN_MAX, "better: keep the new counts"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```sh\nls\n```\n", "neither runs in a test nor says why not"),
        ("  ```python\n  f()\n  ```\n", "neither runs in a test nor says why not"),
        ("```\nsvc-cluster top\n```\n", "has commands and names no language"),
        ("<!-- not run: it ends nothing -->\n```json\n{}\n```\n", "is no code, and says why it is"),
        ("<!-- not run: no -->\n```sh example\nls\n```\n", "runs, and says why it does not"),
        ("<!-- run by: tests/none.py -->\n```sh\nls\n```\n", "is run by tests/none.py, which is"),
        ("<!-- run by: tests/conftest.py -->\n```sh\nls\n```\n", "is not named by tests/conftest"),
        ("<!-- not run: -->\n```sh\nls\n```\n", "neither runs in a test nor says why not"),
        ("<!-- not run: a cluster of Kubernetes -->\n\n```sh\nls\n```\n", None),
        ("<!-- run by: tests/tidy/test_pages.py -->\n```console\n$ ls\n```\n", None),
        ("```sh example\nls\n```\n```text output\na\n```\n", None),
        ("```text\nls\n```\n```\nplain\n```\n", None),
    ],
)
def test_a_block_without_its_mark_is_found(text: str, fault: str | None) -> None:
    """Every kind of fault, every kind that is none; this text names test_pages.md."""
    found = [each for each in map(fault_of, blocks_of(Path("test_pages.md"), text)) if each]
    assert len(found) == (0 if fault is None else 1), found
    assert not found or str(fault) in found[0]


def test_blocks_are_counted_and_know_their_output() -> None:
    """One that runs with what it prints, one that does not, one that is no code."""
    text = "```sh example\nls\n```\n```text output\na\n```\n<!-- not run: b -->\n```py\nc\n```\n"
    found = list(blocks_of(Path("page.md"), text))
    assert counted(found) == (1, 1)
    assert [block.output for block in found] == ["a", None, None]
    assert [block.line for block in found] == [1, 4, 8]


def test_a_read_ticket_is_not_said_to_be_of_one_stream_alone() -> None:
    """It may have a prefix (contract 12.9): a page that says what one reads says so too."""
    found = 0
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for paragraph in page.read_text().split("\n\n"):
            said = " ".join(paragraph.split())
            for begin in re.finditer("(?i)read tickets?", said):
                told = said[begin.start() :][:220]
                found += "one stream" in told
                assert "one stream" not in told or "prefix" in told, f"{page.name}: {told}"
    assert found >= 4


@pytest.mark.parametrize("page", sorted(references.PAGES))
def test_references_are_made_from_the_code(page: str) -> None:
    """`make references` would change nothing."""
    path = ROOT / page
    assert path.read_text() == references.written(path.read_text(), references.PAGES[page]()), (
        f"{page} is older than the code: make references"
    )
