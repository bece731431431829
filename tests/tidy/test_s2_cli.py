"""docs/s2-cli.md tells of the gateway that is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.digest import GATEWAY, ROOT, digest
from tests.acceptance.s2_cli import FAILED, NOT_SERVED, OK, Row, page
from tests.acceptance.s2_verbs import CHECKS, uncovered

PAGE = ROOT / "docs" / "s2-cli.md"

needs_page = pytest.mark.skipif(
    not PAGE.exists(),
    reason="docs/s2-cli.md is not written yet: `make s2-cli S2=path` writes it",
)


@needs_page
def test_the_table_is_as_new_as_the_gateway() -> None:
    """The table names the digest of the files that it was made with; any change of them since
    then is found, in any checkout. `make s2-cli S2=path` writes it anew."""
    recorded = re.search(r"digest is `([0-9a-f]{16})`", PAGE.read_text())
    assert recorded is not None
    assert recorded[1] == digest(GATEWAY), "run `make s2-cli`: svc_cluster/gateway/ has changed"


@needs_page
def test_the_table_has_every_check_and_nothing_that_failed() -> None:
    """A row for each check of today, with one of the results that may be published."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [(verb, what) for verb, what, _ in rows] == [(one.verb, one.what) for one in CHECKS]
    assert all(result.split(":")[0] in (OK, NOT_SERVED) for _, _, result in rows), rows


@needs_page
def test_the_readme_leads_to_the_table() -> None:
    assert "(docs/s2-cli.md)" in (ROOT / "README.md").read_text()


def test_a_digest_sees_names_and_bytes_and_nothing_else(tmp_path: Path) -> None:
    """The same files are the same digest; other bytes, another name, one file more are not."""

    def tree(name: str, files: dict[str, bytes]) -> str:
        for path, content in files.items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(content)
        return digest(tmp_path / name)

    base = tree("base", {"a.py": b"1", "http/b.py": b"2"})
    assert tree("same", {"http/b.py": b"2", "a.py": b"1", "__pycache__/a.pyc": b"x"}) == base
    others = [
        tree("bytes", {"a.py": b"1", "http/b.py": b"3"}),
        tree("name", {"a.py": b"1", "http/c.py": b"2"}),
        tree("moved", {"a.py": b"12", "http/b.py": b""}),
        tree("more", {"a.py": b"1", "http/b.py": b"2", "c.py": b""}),
    ]
    assert base not in others and len(set(others)) == len(others)


def test_a_failure_and_an_unknown_verb_show_in_the_table() -> None:
    """Nothing that went wrong can look as if it had gone well."""
    text = page("s2 0", [Row("append", "x", FAILED, "a | b\nc"), Row("read", "y", OK, "z")])
    assert "| `append` | x | **failed**: a \\| b c |" in text
    assert "1 ok, 0 not served yet, 1 failed" in text
    listed = (
        "Commands:\n  append  Append\n  list-all-basins\n          List\n  help  Print\n\nOptions:"
    )
    assert uncovered(listed) == ["list-all-basins"]
