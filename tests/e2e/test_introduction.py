"""What `svc-cluster local` prints once it is ready works as it stands when it is pasted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.cli.local.introduction import END, FOLLOW, PASTE, S2
from svc_cluster.lab.own_cluster import OwnCluster
from tests.log_lines import whole_text

DEADLINE_S = 90.0
OURS = ("S2_", "CURL_", "SVC_CLUSTER_")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("curl") is None or shutil.which("bash") is None,
        reason="the printed block was not pasted: it needs bash and curl",
    ),
]


@contextlib.contextmanager
def printed(directory: Path, nodes: int, options: list[str]) -> Iterator[str]:
    """What the command says from its start until it is ready, while it runs."""
    cluster = OwnCluster(directory, nodes=nodes, options=options)
    cluster.log_path.unlink(missing_ok=True)
    cluster.start()
    try:
        yield asyncio.run(until_ready(cluster))
    finally:
        assert cluster.stop() == 0


async def until_ready(cluster: OwnCluster) -> str:
    async with asyncio.timeout(DEADLINE_S):
        while END not in (said := whole_text(cluster.log_path)):
            await asyncio.sleep(0.05)
    return said


def block(said: str, begin: str, end: str) -> str:
    """What stands between two lines; each is there once."""
    assert said.count(begin) == 1 and said.count(end) == 1, said
    return said.partition(begin)[2].partition(end)[0]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Of a shell in which nobody has prepared anything."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return clean | dict(more)


def paste(text: str, more: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "--norc"],
        input=text,
        capture_output=True,
        text=True,
        env=environment(more),
        timeout=DEADLINE_S,
        check=False,
    )


def answers(said: str, more: Mapping[str, str] = {}) -> list[Any]:
    """The JSON of the block's lines; nothing may stand on standard error."""
    done = paste(block(said, PASTE, FOLLOW), more)
    assert (done.returncode, done.stderr) == (0, ""), done
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_first(found: list[Any]) -> None:
    """The basin is made, the stream too, one record is appended, and it is read."""
    basin, stream, appended, read = found
    assert basin["name"] == "my-basin" and stream["name"] == "my-stream", found
    assert (appended["start"]["seq_num"], appended["end"]["seq_num"]) == (0, 1), found
    assert [record["body"] for record in read["records"]] == ["hello"], found


def followed(said: str) -> str:
    """What the line that follows the stream prints, up to the first record."""
    text = block(said, PASTE, FOLLOW).partition("curl")[0] + block(said, FOLLOW, S2)
    process = subprocess.Popen(
        ["bash", "--norc", "-c", text],
        stdout=subprocess.PIPE,
        text=True,
        env=environment({}),
        start_new_session=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("data:"):
                break
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return "".join(lines)


def s2_lines(said: str, home: Path) -> None:
    """Paste the lines for S2's command too, where it is at hand."""
    command = os.environ.get("S2_CLI") or shutil.which("s2")
    if command is None:
        print("the lines for `s2` were not pasted: neither S2_CLI nor PATH has it")
        return
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (folder / "s2").symlink_to(Path(command).resolve())
    exports = block(said, PASTE, FOLLOW).partition("curl")[0]
    more = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(home), "S2_NO_UPDATE_CHECK": "1"}
    done = paste(exports + block(said, S2, END), more | {"XDG_CONFIG_HOME": str(home / "config")})
    assert done.returncode == 0 and "hello" in done.stdout, done


@pytest.mark.parametrize(
    ("nodes", "options"),
    [(1, []), (3, ["--auth"]), (1, ["--auth", "--tls"])],
    ids=["open", "auth", "auth and TLS"],
)
def test_the_block_works_as_it_is_printed(tmp_path: Path, nodes: int, options: list[str]) -> None:
    """Every line of it, in a shell in which nothing was prepared; with --auth a shell without the
    token is refused, so it is the block that has it."""
    with printed(tmp_path / "data", nodes, options) as said:
        check_first(answers(said))
        assert '"body":"hello"' in followed(said)
        s2_lines(said, tmp_path / "home")
        text = block(said, PASTE, FOLLOW)
        assert ("svct_" in text) == ("--auth" in options)
        if "--auth" in options:
            exports = [line for line in text.splitlines() if "S2_ACCESS_TOKEN=" not in line]
            refused = paste("\n".join(exports), {"S2_ACCESS_TOKEN": "svct_wrong"}).stdout
            assert [json.loads(line)["code"] for line in refused.splitlines()] == ["authn"] * 4


def test_the_block_of_a_later_start_takes_the_token_from_the_shell(tmp_path: Path) -> None:
    """The secret was shown once; the block says so and how to get another where the shell does not
    have it, and works where it does."""
    directory = tmp_path / "data"
    with printed(directory, 1, ["--auth"]) as said:
        token = said.partition("S2_ACCESS_TOKEN=")[2].split()[0]
        check_first(answers(said))
    with printed(directory, 1, ["--auth"]) as said:
        assert "svct_" not in said
        found = answers(said, {"S2_ACCESS_TOKEN": token})
        assert [record["body"] for record in found[3]["records"]] == ["hello", "hello"]
        without = paste(block(said, PASTE, FOLLOW))
        assert "set it to the root token" in without.stderr
        assert f"svc-cluster admin root-token {directory}/node-1" in without.stderr


def test_the_block_reads_the_token_from_the_file_that_was_named(tmp_path: Path) -> None:
    """Also at a later start; the secret is not on the terminal."""
    options = ["--auth", "--root-token-file", str(tmp_path / "the token")]
    for start in range(2):
        with printed(tmp_path / "data", 1, options) as said:
            assert "svct_" not in said
            found = answers(said)
            assert len(found[3]["records"]) == start + 1
