"""The terminal session of `docs/command.md`: each command of the page against a server of its own,
as a reader would type it. What is typed stands in the page itself, behind `$ `.

`python -m tests.e2e.command_session` records what the commands print anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from svc_cluster.model.access_secret import secret_text
from tests.contract.conftest import Server
from tests.e2e.warm_command import warm_command

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "command.md"
SECRET: Final = secret_text(bytes(range(32)))
SECONDS_MAX: Final = 60.0

_SHOWN: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "2026-11-23T08:00:00.000Z"),
    (re.compile(r"\b1[789]\d{11}\b"), "1795420800000"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8080"),
)
"""What is another in each run, and what stands for it."""


def terminal(home: Path, commands: Path, port: int) -> Callable[[str], str]:
    """Return what runs a command in a shell in `home` and returns what it prints, as the page has
    it."""
    environment = {
        "PATH": f"{commands}:/usr/bin:/bin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "TZ": "UTC",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command.replace("127.0.0.1:8080", f"127.0.0.1:{port}")],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS_MAX,
            check=False,
        )
        text = done.stdout.decode().replace(str(home), "/home/me")
        for found, shown in _SHOWN:
            text = found.sub(shown, text)
        if text and not text.endswith("\n"):
            text += "\n"
        return text if done.returncode == 0 else f"{text}(status {done.returncode})\n"

    return run


def played(page: str, run: Callable[[str], str]) -> Iterator[str]:
    """Yield the page's lines; in its blocks of a console each command is run, and what it prints
    comes behind it in place of what stood there."""
    in_console = False
    for line in page.splitlines(keepends=True):
        if line.startswith("```"):
            in_console = line == "```console\n"
            yield line
        elif not in_console:
            yield line
        elif line.startswith("$ "):
            yield line
            yield run(line[2:].rstrip("\n"))


def recorded(directory: Path, page: str) -> str:
    """Return the page with what its commands print now; the server is in this directory."""
    home, data = directory / "home", directory / "server"
    home.mkdir()
    data.mkdir()
    (home / "root-token").write_text(SECRET)
    server = Server(data, 10.0, SECRET)
    try:
        with warm_command(directory / "commands") as commands:
            return "".join(played(page, terminal(home, commands, server.port)))
    finally:
        server.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        DOCUMENT.write_text(recorded(Path(directory), DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
