"""How commands print what they have to say: for people, or as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from svc_cluster.cli.terminal import last_words, say_surely
from svc_cluster.settings_secrets import without_secrets


class OutputForm(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[
    OutputForm,
    typer.Option(
        "--output", "-o", help="How answers are printed: for people, or as JSON.", show_choices=True
    ),
]


class Teller:
    """Prints what a command does and what has come of it."""

    def __init__(self, form: OutputForm = OutputForm.TABLE) -> None:
        self.is_json = form is OutputForm.JSON

    def note(self, line: str) -> None:
        """Print what is done on the way: where the output is JSON, on standard error. No such line
        is meant to have a secret in it; where one repeats an address with one, that is masked."""
        if self.is_json:
            last_words(f"{line}\n")
        else:
            say_surely(without_secrets(line))

    def end(self, content: object, lines: Iterable[str]) -> None:
        """Print what has come of it: as JSON the content, one line; else the lines."""
        if self.is_json:
            say_surely(msgspec.json.encode(content).decode())
            return
        for line in lines:
            say_surely(line)
