"""`svc-cluster --version`: which program this is, without a cluster."""

from __future__ import annotations

from importlib.metadata import version

from typer.testing import CliRunner

from svc_cluster.cli.main import app
from svc_cluster.model.versions import NEWEST, OLDEST, release_of


def test_the_program_says_what_is_installed_and_what_it_speaks() -> None:
    """On one line, with status 0, whatever else stands behind it."""
    for more in ([], ["admin"]):
        done = CliRunner().invoke(app, ["--version", *more])
        said = f"svc-cluster {version('svc-cluster')}, release {release_of(NEWEST)}, "
        assert done.exit_code == 0
        assert done.stdout == f"{said}speaks versions {OLDEST} to {NEWEST}\n"
