"""A client that a program generates from the served document works, with nothing written by hand.

Rule: contract 4.10.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.contract.access import ROOT_SECRET, Account

CLIENTS: Final = Path(sys.prefix) / "clients" / "bin"
CONFIG: Final = Path(__file__).parents[2] / "docs" / "openapi-python-client.yaml"
SCRIPT: Final = Path(__file__).parent / "generated_client.py"
DEADLINE: Final = 120.0


def output_of(*command: str | Path) -> str:
    """What the program says; it must end with 0."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_a_generated_client_appends_and_reads(guarded: Account, tmp_path: Path) -> None:
    """The generator warns of nothing; the client makes a basin and a stream with a name that has to
    be encoded, appends, is refused, and reads, where requests need a token."""
    folder = tmp_path / "generated"
    folder.mkdir()
    document = f"{guarded.endpoint}/openapi.json"
    generated = output_of(
        *(CLIENTS / "openapi-python-client", "generate", "--url", document, "--config", CONFIG),
        *("--meta", "none", "--output-path", folder / "svc_cluster_client", "--fail-on-warning"),
    )
    assert "WARNING" not in generated.upper()
    said = output_of(CLIENTS / "python", SCRIPT, folder, guarded.endpoint, ROOT_SECRET)
    assert said.splitlines() == [
        "a basin and a stream: ok",
        "appends: ok",
        "reads: ok",
        "lists and metrics: ok",
        "no token, no answer: ok",
    ]
