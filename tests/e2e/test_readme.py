"""What the README shows is what happens: its examples, run as they stand there."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from tests.e2e.cluster import running

README = Path(__file__).resolve().parents[2] / "README.md"
PORT_SHOWN = "localhost:8080"
SECONDS = 60.0
CURL_WITH_JSON = (7, 82)


@dataclass(frozen=True, slots=True)
class Example:
    """A block ```` ```sh example ```` and the block ```` ```text output ```` behind it, if any.
    `kinds`: `endless` goes on after its output, `s2` needs S2's command."""

    kinds: frozenset[str]
    script: str
    output: str | None


def examples() -> list[Example]:
    blocks = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", README.read_text(), re.MULTILINE)
    found: list[Example] = []
    for number, (info, text) in enumerate(blocks):
        words = info.split()
        if words[:2] != ["sh", "example"]:
            assert "curl" not in text, f"an example that nobody runs: {text}"
            continue
        follows = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
        output = follows[1].rstrip("\n") if follows[0] == "text output" else None
        found.append(Example(frozenset(words[2:]), text, output))
    return found


def agrees(shown: str, printed: str) -> bool:
    """`…` stands for anything inside one JSON object; answers have no line end of their own."""
    lines = [r"[^{}\n]*".join(map(re.escape, line.split("…"))) for line in shown.split("\n")]
    pattern = lines[0]
    for before, line in itertools.pairwise(lines):
        answers = before.endswith(r"\}") and line.startswith(r"\{")
        pattern += ("\n?" if answers else "\n") + line
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


def run(example: Example, port: int, environment: Mapping[str, str]) -> str:
    """What it prints. A block that goes on is ended once it has printed what is shown."""
    script = example.script.replace(PORT_SHOWN, f"127.0.0.1:{port}")
    process = subprocess.Popen(
        ["bash", "-euc", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | dict(environment),
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    if "endless" not in example.kinds:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"no end: {script}{process.communicate()}") from None
        assert process.returncode == 0, f"{script}{out.decode()}{err.decode()}"
        return out.decode()
    assert example.output is not None
    printed = b""
    try:
        os.set_blocking(process.stdout.fileno(), True)
        end = SystemClock().monotonic() + SECONDS
        while not agrees(example.output, printed.decode()):
            assert SystemClock().monotonic() < end, printed.decode()
            # what is shown may not come at all
            ready, _, _ = select.select([process.stdout], [], [], SECONDS)
            assert ready, f"nothing more behind {printed.decode()}"
            piece = os.read(process.stdout.fileno(), 65536)
            assert piece, f"it ended with {printed.decode()}"
            printed += piece
            assert len(printed) < 10_000, printed.decode()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return printed.decode()


def curl_version() -> tuple[int, ...] | None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        return None
    said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    numbers = re.match(r"curl (\d+)\.(\d+)", said)
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


@pytest.mark.timeout(300)
def test_the_examples_of_the_readme_do_what_it_shows(tmp_path: Path) -> None:
    """Every block in its order against three nodes, compared with the output shown below it."""
    version = curl_version()
    if version is None or version < CURL_WITH_JSON:
        pytest.skip(
            f"the README's examples were not run: they need bash and curl 7.82, not {version}"
        )
    found = [example for example in examples() if "s2" not in example.kinds]
    assert len(found) >= 9 and sum(example.output is not None for example in found) >= 8

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            for example in found:
                printed = await asyncio.to_thread(run, example, cluster.port, {})
                check(example, printed)

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_the_examples_with_the_s2_command_do_what_the_readme_shows(tmp_path: Path) -> None:
    """The same for the blocks that need S2's command, where S2_CLI or PATH lead to it."""
    command = os.environ.get("S2_CLI") or shutil.which("s2")
    found = [example for example in examples() if "s2" in example.kinds]
    assert found
    if command is None:
        pytest.skip("the README's examples with `s2` were not run: neither S2_CLI nor PATH has it")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "s2").symlink_to(Path(command).resolve())
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "S2_NO_UPDATE_CHECK": "1"}
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}

    async def main() -> None:
        async with running(tmp_path / "cluster") as cluster:
            for example in found:
                check(example, await asyncio.to_thread(run, example, cluster.port, environment))

    asyncio.run(main())


def check(example: Example, printed: str) -> None:
    if example.output is not None:
        assert agrees(example.output, printed), (
            f"{example.script}\nis shown with\n{example.output}\nand prints\n{printed}"
        )


def test_an_output_that_is_not_the_one_shown_is_found() -> None:
    """The comparison leaves out what `…` stands for, and nothing else."""
    shown = '{"start":{"seq_num":0,…},"tail":{"seq_num":2,…}}\n{"error":"a",…}'
    assert agrees(
        shown, '{"start":{"seq_num":0,"t":1},"tail":{"seq_num":2,"t":1}}{"error":"a","b":1}'
    )
    assert not agrees(
        shown, '{"start":{"seq_num":0,"t":1},"tail":{"seq_num":3,"t":1}}{"error":"a","b":1}'
    )
    assert not agrees(shown, '{"start":{"seq_num":0,"t":1},"tail":{"seq_num":2,"t":1}}')
    assert not agrees("a", "b") and agrees("a\nb", "a\nb\n")
