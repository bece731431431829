"""What people take with them is typed. It reads the libraries too: a minute, the first time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"


@pytest.mark.timeout(600)
@pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`")
def test_examples_are_typed() -> None:
    """`mypy --strict` over each Python example, with the libraries that it stands on."""
    command = [str(Path(sys.prefix) / "bin/mypy"), "--config-file", os.devnull, "--strict"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache/examples")]
    command += ["--disable-error-code", "import-untyped"]  # Channels has no types
    command += ["--python-executable", str(CLIENTS)]
    command += map(str, sorted((ROOT / "examples").glob("*.py")))
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout
