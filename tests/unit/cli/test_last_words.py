"""What a process says at its end, where standard output and error are files on a full disk."""

from __future__ import annotations

import subprocess
import sys

import pytest

from svc_cluster.settings_errors import EXIT_CONFIGURATION, EXIT_DIRECTORY

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


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("process.refuse_start(SettingsError(SAID))", EXIT_CONFIGURATION),
        ("process.fail(SAID)", EXIT_CONFIGURATION),
        ("process.exit_fatal(ValueError(SAID))", 70),
    ],
)
def test_no_last_word_has_a_secret_in_it(form: str, end: str, status: int) -> None:
    """Whatever the sentence says, in both forms of the log: tokens of each kind, and what URLs hold
    beside their places."""
    join, password = "svc-join-2-" + "0123456789abcdef" * 4, "Tr0ub4dor"
    said = f"svct_{'s' * 51} {join} http://u:{password}@h/v1?key={password} is told"
    program = (
        "from svc_cluster.base.log import configure\n"
        "from svc_cluster.cli.processes import process\n"
        "from svc_cluster.settings_errors import SettingsError\n"
        f"SAID = {said!r}\nconfigure('info', {form!r})\n{end}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    last = done.stderr.decode().splitlines()[-1]
    assert done.returncode == status
    assert "[redacted] [masked] http://[masked]@h/v1?[masked] is told" in last
    if "exit_fatal" not in end:  # what goes with that is a trace, which has the fault's own words
        assert not any(word in done.stderr.decode() for word in ("sss", join, password))
