"""What the examples do where streams have lost their beginning, are large, or have strange text.

They run in an environment of their own (.venv/clients) against one node and a gateway that asks for
access tokens.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.access import ROOT_SECRET, Account
from tests.contract.conftest import Server

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "clients"
BASIN = "of-the-edges"
SECONDS = 60.0
NAMES = {
    "example_edges.py": [
        "lines",
        "lost_run",
        "commanded_run",
        "large_run",
        "lost_session",
        "large_session",
    ],
    "example_channels_edges.py": ["ended_consumers", "strange_records", "failed_followers"],
}

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """URL, token file and basin, which makes streams by itself."""
    directory = tmp_path_factory.mktemp("edges")
    server = Server(directory, 10.0, ROOT_SECRET)
    try:
        url = f"http://127.0.0.1:{server.port}"
        made = {"create_stream_on_append": True, "create_stream_on_read": True}
        with Account(url, directory) as account:
            answer = account.ask("POST", "/v1/basins", {"basin": BASIN, "config": made})
            assert answer.status == 201, answer
        yield [url, str(directory / "root-token"), BASIN]
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("script", "name"), [(script, name) for script, names in NAMES.items() for name in names]
)
def test_an_example_holds_at_an_edge(place: list[str], script: str, name: str) -> None:
    """Each is a function of the script, which says in its first sentence what it shows."""
    done = subprocess.run(
        [str(CLIENTS), str(SCRIPTS / script), *place, name],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env=os.environ | {"PYTHONPATH": str(ROOT / "examples"), "DJANGO_SETTINGS_MODULE": ""},
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
