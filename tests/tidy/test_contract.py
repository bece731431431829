"""docs/contract.md and its citations: every rule has a number and a test, none leads nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contract.md"
RULE = re.compile(r"^\*\*(\d+\.\d+)\*\* ", re.MULTILINE)
CITATION = re.compile(r"\bcontract\s+(\d+\.\d+(?:(?:,|,?\s+and)\s+\d+\.\d+)*)")


def rules(page: str) -> list[str]:
    """The numbers of all rules, in the order of the page."""
    return RULE.findall(page)


def cited(text: str) -> set[str]:
    """The numbers that a file cites, however its lines are broken."""
    found = CITATION.findall(text)
    return {number for citation in found for number in re.findall(r"\d+\.\d+", citation)}


def sources(*rooms: str) -> Iterator[Path]:
    for room in rooms:
        yield from sorted((ROOT / room).rglob("*.py"))


def test_numbers_are_given_once_and_in_order() -> None:
    """A rule keeps its number, so a section's numbers go from 1 without a gap."""
    numbers = [tuple(map(int, number.split("."))) for number in rules(PAGE.read_text())]
    assert len(numbers) > 80
    expected: list[tuple[int, int]] = []
    for section, _ in numbers:
        rank = 1 + sum(1 for number in expected if number[0] == section)
        expected.append((section, rank))
    assert numbers == expected


def test_every_citation_leads_to_a_rule() -> None:
    known = set(rules(PAGE.read_text()))
    lost = {
        f"{path.relative_to(ROOT)}: {number}"
        for path in sources("svc_cluster", "tests")
        if path != Path(__file__)
        for number in cited(path.read_text()) - known
    }
    assert not lost


def test_every_rule_is_cited_by_a_test() -> None:
    known = set(rules(PAGE.read_text()))
    by_tests = {
        n for path in sources("tests") if path != Path(__file__) for n in cited(path.read_text())
    }
    assert known - by_tests == set()


def test_no_other_contract_is_cited() -> None:
    """The project's own page is the only one: "wire contract section N" leads nowhere here."""
    pattern = re.compile(r"contract\s+sections?\s+\d")
    found = [path for path in sources("svc_cluster", "tests") if pattern.search(path.read_text())]
    assert found == []


def test_citations_are_read_over_lines() -> None:
    assert cited("Source: contract 2.1, 2.2\nand 2.8. Other 3.1") == {"2.1", "2.2", "2.8"}
    assert cited("(contract 5.8) and contract\n12.2") == {"5.8", "12.2"}
