"""Options that are declared once and taken by many commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from svc_cluster.cli.shared_options import SharedOptions, with_shared_options


@dataclass(frozen=True, slots=True)
class Place(SharedOptions):
    """Where something is."""

    street: Annotated[str, typer.Option(help="Its street.")]
    number: Annotated[int, typer.Option(min=1)] = 1


@dataclass(frozen=True, slots=True)
class Own:
    """A value that is no options'."""

    word: str = ""


def test_fields_are_options_and_come_back_as_one_value() -> None:
    """With their help, their defaults and bounds, beside arguments of the command's own."""
    seen: list[object] = []
    app = typer.Typer()

    @app.command()
    @with_shared_options
    def send(
        name: str, place: Place, loud: Annotated[bool, typer.Option("--loud")] = False
    ) -> None:
        """Send it."""
        seen.append((name, place, loud))

    run = CliRunner().invoke
    assert run(app, ["a", "--street", "High"]).exit_code == 0
    assert run(app, ["b", "--loud", "--number", "3", "--street", "Low"]).exit_code == 0
    assert seen == [("a", Place("High"), False), ("b", Place("Low", 3), True)]
    assert run(app, ["c"]).exit_code == 2
    assert run(app, ["c", "--street", "High", "--number", "0"]).exit_code == 2
    assert len(seen) == 2
    told = run(app, ["--help"]).output
    assert "Its street." in told
    assert "Send it." in told


def test_other_values_stay_arguments() -> None:
    """A dataclass that is not declared as options is handed on as it is, before the others."""

    @with_shared_options
    def work(own: Own, place: Place) -> tuple[Own, Place]:
        return own, place

    assert work(Own("x"), street="High", number=2) == (Own("x"), Place("High", 2))
    with pytest.raises(KeyError):
        work(Own("x"), number=2)
