"""What the README shows is what happens: its examples, run as they stand there."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks_of
from tests.e2e.cluster import running
from tests.e2e.pasted import agrees, check, needs_curl, run

README = Path("README.md")


def examples() -> list[Block]:
    found = list(blocks_of(README, (ROOT / README).read_text()))
    for block in found:
        assert block.is_example or "curl" not in block.text, f"nobody runs it: {block.text}"
    return [block for block in found if block.is_example]


@pytest.mark.timeout(300)
def test_the_examples_of_the_readme_do_what_it_shows(tmp_path: Path) -> None:
    """Every block in its order against three nodes, compared with the output shown below it."""
    needs_curl()
    found = [example for example in examples() if "s2" not in example.info]
    assert len(found) >= 9 and sum(example.output is not None for example in found) >= 8

    async def main() -> None:
        async with running(tmp_path / "data") as cluster:
            for example in found:
                check(example, await asyncio.to_thread(run, example, cluster))

    asyncio.run(main())


@pytest.mark.timeout(300)
def test_the_examples_with_the_s2_command_do_what_the_readme_shows(tmp_path: Path) -> None:
    """The same for the blocks that need S2's command, where S2_CLI or PATH lead to it."""
    command = os.environ.get("S2_CLI") or shutil.which("s2")
    found = [example for example in examples() if "s2" in example.info]
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
                check(example, await asyncio.to_thread(run, example, cluster, environment))

    asyncio.run(main())


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
