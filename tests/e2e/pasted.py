"""Examples of the pages, run as they stand there, and compared with the output shown below them."""

from __future__ import annotations

import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.lab.own_cluster import OwnCluster
from tests.docs.blocks import ROOT, Block

PORT_SHOWN = "localhost:8080"
SECONDS = 60.0
CURL_WITH_JSON = (7, 82)
CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"
"""The environment with the libraries that the examples in Python stand on."""


def agrees(shown: str, printed: str) -> bool:
    """`…` stands for anything inside one JSON object; answers have no line end of their own."""
    lines = [r"[^{}\n]*".join(map(re.escape, line.split("…"))) for line in shown.split("\n")]
    pattern = lines[0]
    for before, line in itertools.pairwise(lines):
        answers = before.endswith(r"\}") and line.startswith(r"\{")
        pattern += ("\n?" if answers else "\n") + line
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


def interpreter(language: str) -> list[str]:
    """What runs a text in a language, which stands behind it. Skips, and says so, without one."""
    if language == "python":
        if not CLIENTS.exists():
            pytest.skip("the examples in Python were not run: no .venv/clients (`make setup`)")
        return [str(CLIENTS), "-c"]
    if language == "js":
        node = shutil.which("node")
        if node is None:
            pytest.skip("the examples in JavaScript were not run: there is no `node` here")
        return [node, "--input-type=module", "-e"]
    return ["bash", "-euc"]


def run(example: Block, cluster: OwnCluster, environment: Mapping[str, str] | None = None) -> str:
    """What it prints, of this cluster in place of the one that is shown. A block that goes on is
    ended once it has printed that."""
    port, directory = cluster.port, cluster.directory
    script = example.text.replace(PORT_SHOWN, f"127.0.0.1:{port}")
    script = script.replace("--data-dir data", f"--data-dir {directory}")
    script = script.replace("'data/cluster.json'", f"'{directory}/cluster.json'")
    known = {"PYTHONPATH": str(ROOT / "examples")} if example.info[0] == "python" else {}
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        [*interpreter(example.info[0]), script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | known | path | dict(environment or {}),
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    if "endless" not in example.info:
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


def needs_curl() -> None:
    """Skips, and says so, without a curl that the examples can be run by."""
    version = curl_version()
    if version is None or version < CURL_WITH_JSON:
        pytest.skip(f"the examples were not run: they need bash and curl 7.82, not {version}")


def check(example: Block, printed: str) -> None:
    if example.output is not None:
        assert agrees(example.output, printed), (
            f"{example.place}\n{example.text}\nis shown with\n{example.output}\n"
            f"and prints\n{printed}"
        )
