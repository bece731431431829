"""What no message can carry is refused in one sentence, with status 2, before a node is asked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from svc_cluster.cli.admin.admin_app import app

PLACE = ["--address", "127.0.0.1:1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["node", "status", str(2**32)],
        ["node", "drain", "99999999999999999999"],
        ["node", "undrain", str(2**32)],
        ["member", "replace", str(2**32)],
        ["leader", "transfer", "b", "--to", str(2**32)],
        ["node", "status", "1", "--node", str(2**32)],
        ["basin", "freeze", "b", "--reason", "\udcff"],
        ["basin", "freeze", "b", "--reason", "a\nb"],
        ["basin", "freeze", "b", "--reason", " "],
        ["basin", "freeze", "b", "--reason", ""],
    ],
)
def test_it_is_refused_by_the_command_line(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, [*arguments, *PLACE])
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert str(2**32 - 1) in done.stderr or "--reason: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "bound"),
    [
        (["leader", "transfer", "b", "--to", "-3"], "than or equal to 1"),
        (["leader", "transfer", "b", "--to", "0"], "than or equal to 1"),
        (["member", "add", "4000000000"], "999999999"),
    ],
)
def test_no_other_node_is_meant_by_a_mistake(arguments: list[str], bound: str) -> None:
    """A number that no node can have is neither anybody nor an id to hand out."""
    done = CliRunner().invoke(app, [*arguments, *PLACE])
    assert done.exit_code == 2, done.output
    assert bound in done.stderr, done.stderr


@pytest.mark.parametrize("verb", [["catalog", "move"], ["basin", "move", "b"]])
def test_a_node_is_named_once_where_replicas_go(verb: list[str]) -> None:
    """`1,1,1` would read as three nodes, and `1,01` as two."""
    for to in ("1,1,1", "1,01"):
        done = CliRunner().invoke(app, [*verb, "--to", to, *PLACE])
        assert done.exit_code == 2, done.output
        assert f"--to {to}: name each node once" in done.stderr
