"""What is still being written is read by its whole lines alone, by all tests in the same way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.log_lines import json_lines, whole_lines, whole_text

TESTS = Path(__file__).parents[1]
ROOMS = (
    *("alerts", "benchmarks", "chaos", "compatibility", "contract", "corruption", "e2e"),
    *("hostile", "integration", "simulation"),
)
TORN_READ = re.compile(r"\b\w*(?:log|audit)\w*[\"')]*\.read_text\([^)]*\)\)*\.(?:r?split|r?part)")
"""A log, or an audit log, that is cut into lines as it stands."""


def test_half_a_line_is_not_there_yet(tmp_path: Path) -> None:
    """Byte for byte as a line comes: it is there with its newline, and not before."""
    log = tmp_path / "process.log"
    assert whole_lines(log) == []
    begin, line = b'{"event": "one"}\n', '{"event": "two", "of": "Grüße"}\n'.encode()
    for end in range(len(line)):
        log.write_bytes(begin + line[:end])
        assert json_lines(log) == [{"event": "one"}]
        assert whole_text(log) == begin.decode()
    log.write_bytes(begin + line)
    assert [each["event"] for each in json_lines(log)] == ["one", "two"]
    log.write_bytes(line[:-1])
    assert whole_lines(log) == []


def test_a_whole_line_that_is_no_object_is_told(tmp_path: Path) -> None:
    """It is not taken for one that is still being written."""
    log = tmp_path / "process.log"
    log.write_bytes(b'{"event": "one"\n{"event": "two"}\n')
    with pytest.raises(ValueError, match="delimiter"):
        json_lines(log)


@pytest.mark.parametrize("room", ROOMS)
def test_no_log_is_cut_into_lines_as_it_stands(room: str) -> None:
    found = [
        f"{path.relative_to(TESTS)}: {match[0]}"
        for path in sorted((TESTS / room).rglob("*.py"))
        for match in TORN_READ.finditer(path.read_text())
    ]
    assert found == [], "read it with tests/log_lines.py"
