"""`docs/command.md` is what the commands print."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.command_session import DOCUMENT, played, recorded


def test_the_recorded_session_is_what_the_commands_print(tmp_path: Path) -> None:
    """Every command of the page, against a server that asks for tokens: output, messages and
    statuses, by the byte. After a change on purpose: `make command-docs`."""
    page = DOCUMENT.read_text()
    assert recorded(tmp_path, page) == page


def test_only_what_is_typed_in_a_console_is_played() -> None:
    """Output is replaced, also where there was none or more of it; other blocks stay."""
    page = "a\n```sh\n$ not this\n```\n```console\n$ one\nold\nolder\n$ two\n```\n$ nor this\n"
    asked: list[str] = []

    def run(command: str) -> str:
        asked.append(command)
        return f"printed by {command}\n"

    assert "".join(played(page, run)) == (
        "a\n```sh\n$ not this\n```\n```console\n$ one\nprinted by one\n$ two\nprinted by two\n```\n"
        "$ nor this\n"
    )
    assert asked == ["one", "two"]
