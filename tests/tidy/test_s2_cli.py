"""docs/s2-cli.md tells of the gateway that is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.s2_cli import CONVERSATION, FAILED, NOT_SERVED, OK, Row, page
from tests.acceptance.s2_verbs import CHECKS, uncovered
from tests.scenarios.http.conversation import digest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "s2-cli.md"

needs_page = pytest.mark.skipif(
    not PAGE.exists(),
    reason="docs/s2-cli.md is not written yet: `make s2-cli S2=path` writes it",
)


@needs_page
def test_the_table_is_as_new_as_what_is_answered() -> None:
    """The table names the digest of the kept conversation, which a test holds against the gateway:
    where an answer changes, both do. `make s2-cli S2=path` writes the table anew."""
    recorded = re.search(r"digest is `([0-9a-f]{16})`", PAGE.read_text())
    assert recorded is not None
    assert recorded[1] == digest(CONVERSATION), "run `make s2-cli`: other answers are given now"


@needs_page
def test_the_table_has_every_check_and_nothing_that_failed() -> None:
    """A row for each check of today, with one of the results that may be published."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [(verb, what) for verb, what, _ in rows] == [(one.verb, one.what) for one in CHECKS]
    assert all(result.split(":")[0] in (OK, NOT_SERVED) for _, _, result in rows), rows


@needs_page
def test_the_readme_leads_to_the_table() -> None:
    assert "(docs/s2-cli.md)" in (ROOT / "README.md").read_text()


def test_another_answer_is_another_digest(tmp_path: Path) -> None:
    """One byte of one answer is seen."""
    other = tmp_path / "other.txt"
    other.write_bytes(CONVERSATION.read_bytes().replace(b'"tail"', b'"tali"', 1))
    assert digest(other) != digest(CONVERSATION)


def test_a_failure_and_an_unknown_verb_show_in_the_table() -> None:
    """Nothing that went wrong can look as if it had gone well."""
    text = page("s2 0", [Row("append", "x", FAILED, "a | b\nc"), Row("read", "y", OK, "z")])
    assert "| `append` | x | **failed**: a \\| b c |" in text
    assert "1 ok, 0 not served yet, 1 failed" in text
    listed = (
        "Commands:\n  append  Append\n  list-all-basins\n          List\n  help  Print\n\nOptions:"
    )
    assert uncovered(listed) == ["list-all-basins"]
