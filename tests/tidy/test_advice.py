"""Nothing that an operator reads advises to destroy the files of a node: they may be the only
copies."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES_OF_A_NODE = (
    r"WAL|write-ahead|data[ _]dir\w*|director\w+|state store|the store|the log|segments?"
)
DESTROYS = r"remove|delete|wipe|erase|discard|empty|purge|rm -\w+"
ADVICE = re.compile(
    rf"\b({DESTROYS})\b[^.;:|]{{0,40}}\b({FILES_OF_A_NODE})\b|\brejoin\b|\bstart with an empty\b",
    re.IGNORECASE,
)
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/operations").glob("*.md")])
DEPLOYED = sorted(
    path for path in (ROOT / "deploy").rglob("*") if path.suffix in (".yml", ".service")
)
RETRIED = {69, 73, 74, 75}
"""Exit statuses after which a later start may go well."""


def messages(path: Path) -> Iterator[str]:
    """What a module may say: its strings, without what only its readers see."""
    tree = ast.parse(path.read_text())
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield "…".join(str(part) for part in parts)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
        ):
            yield node.value


@pytest.mark.parametrize("folder", ["cli", "replica", "storage", "gateway", "link", "base"])
def test_no_message_advises_to_destroy_the_files_of_a_node(folder: str) -> None:
    """Of all strings that the program may print, log or answer with."""
    for path in sorted((ROOT / "svc_cluster" / folder).rglob("*.py")):
        for text in messages(path):
            assert not ADVICE.search(" ".join(text.split())), f"{path}: {text}"


@pytest.mark.parametrize("path", [*PAGES, *DEPLOYED], ids=lambda path: path.name)
def test_no_page_and_no_alert_advises_to_destroy_the_files_of_a_node(path: Path) -> None:
    """Nor does what operators read beside."""
    for paragraph in path.read_text().split("\n\n"):
        assert not ADVICE.search(" ".join(paragraph.split())), paragraph


def test_the_advice_that_was_once_given_is_found() -> None:
    """The pattern can fail."""
    for text in (
        "stop the process, or remove it together with the WAL and rejoin as a new node",
        "restore the file from this node's backup, or start with an empty directory",
        "rm -rf the data directory",
    ):
        assert ADVICE.search(text), text


@pytest.mark.parametrize("role", ["node", "gateway"])
def test_the_units_go_on_trying_what_may_go_well_later(role: str) -> None:
    """No number of refusals of a full disk, or of a port that is still taken, uses up a limit."""
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(ROOT / "deploy" / "systemd" / f"svc-cluster-{role}.service")
    service = unit["Service"]
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["Restart"] == "always" and 1 <= float(service["RestartSec"]) <= 10
    prevented = {int(status) for status in service["RestartPreventExitStatus"].split()}
    assert not prevented & RETRIED
