"""What a process says at its end, where standard output and error are files on a full disk."""

from __future__ import annotations

import subprocess
import sys

import pytest

from svc_cluster.settings_errors import EXIT_DIRECTORY

ALWAYS_FULL = "/dev/full"
GOES_ON = 9


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (
            "from svc_cluster.cli.processes.process import fail\nfail('no room', 73)",
            EXIT_DIRECTORY,
        ),
        (
            "from svc_cluster.cli.processes import process\nprocess.exit_fatal(ValueError('bad'))",
            70,
        ),
        (
            "import os\nfrom svc_cluster.cli.terminal import say\n"
            "for number in range(10000): say('a line')\n"
            f"os._exit({GOES_ON})",
            GOES_ON,
        ),
    ],
)
def test_a_line_that_cannot_be_written_changes_no_exit_status(program: str, status: int) -> None:
    """The supervisor goes by the status; and one that speaks to a full disk goes on."""
    with open(ALWAYS_FULL, "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=full, check=False
        )
    assert done.returncode == status
