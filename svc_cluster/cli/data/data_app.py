"""The commands that ask a server of the public interface. They start without what runs a cluster,
which takes several times as long to load."""

from __future__ import annotations

from typing import Final

import typer

from svc_cluster.cli.data.basin_verbs import basins
from svc_cluster.cli.data.copy_verb import add_copy
from svc_cluster.cli.data.profile_verbs import profile_app
from svc_cluster.cli.data.record_verbs import streams
from svc_cluster.cli.data.size_verb import add_size
from svc_cluster.cli.data.token_verbs import access_tokens
from svc_cluster.cli.data.usage_verb import single_verbs

GROUPS: Final = {
    "basin": basins.app,
    "stream": streams.app,
    "token": access_tokens.app,
    "profile": profile_app,
}


def add_data_commands(app: typer.Typer) -> None:
    """Add them to the command."""
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
    app.registered_commands.extend(single_verbs.app.registered_commands)
    add_copy(app)
    add_size(app)


def data_app() -> typer.Typer:
    """Return the command with these alone."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_nothing)
    add_data_commands(app)
    return app


def _nothing() -> None:
    """With a callback the names of the groups stay part of the command."""
