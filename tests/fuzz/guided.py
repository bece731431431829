"""Inputs chosen by the coverage that they reach: a process of its own under atheris.

`python -m tests.fuzz.guided TARGET CORPUS [flags of libFuzzer]` runs until the inputs are used
up, or one is a fault, whose text it prints then.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.fuzz.engine import HANG_S, Found, checking, said
from tests.fuzz.target import INPUT_BYTES_MAX, Target, kept
from tests.fuzz.targets import TARGETS

ROOT: Final = Path(__file__).resolve().parents[2]
FAULT: Final = "fuzz-fault: "
_EXECUTED: Final = re.compile(rb"stat::number_of_executed_units:\s*(\d+)")
_LAST: Final = re.compile(rb"^#(\d+)\s", re.MULTILINE)
MEMORY_MIB_MAX: Final = 2048
SEEDS: Final = 40
"""Well-formed inputs that a run begins with, beside those that are kept."""


def run_guided(
    target: Target, count: int, seed: int, corpus: Path, seconds_max: float | None = None
) -> Found:
    """Inputs by coverage, beginning with those of `corpus`, into which what reaches more is put. A
    fault ends it: what was tried until then is counted."""
    corpus.mkdir(parents=True, exist_ok=True)
    rng = random.Random(f"{target.name}/{seed}")
    for data in [*kept(target.name), *(target.make(rng) for _ in range(SEEDS))]:
        (corpus / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    with tempfile.TemporaryDirectory(prefix="svc-fuzz-") as scratch:
        flags = [
            f"-runs={count}",
            f"-seed={seed % 2**31 or 1}",
            f"-max_len={INPUT_BYTES_MAX}",
            f"-timeout={int(HANG_S)}",
            f"-rss_limit_mb={MEMORY_MIB_MAX}",
            f"-artifact_prefix={scratch}/",
            "-print_final_stats=1",
        ]
        if seconds_max is not None:
            flags.append(f"-max_total_time={max(1, int(seconds_max))}")
        command = [sys.executable, "-m", "tests.fuzz.guided", target.name, str(corpus), *flags]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env=os.environ)
        text = done.stdout + done.stderr
        counts = _EXECUTED.findall(text) or _LAST.findall(text) or [b"0"]
        found = Found(int(counts[-1]))
        if done.returncode != 0:
            artifacts = sorted(Path(scratch).iterdir())
            data = artifacts[0].read_bytes() if artifacts else b""
            found.faults.append((_fault_of(text), data))
    return found


def _fault_of(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").splitlines()
    told = [line.removeprefix(FAULT) for line in lines if line.startswith(FAULT)]
    others = [line for line in lines if "ERROR: libFuzzer" in line]
    return (told or others or lines[-1:] or ["ended without a word"])[-1][:300]


def main() -> None:
    import atheris

    target = TARGETS[sys.argv[1]]
    modules = [name for name in sys.modules if name.startswith("svc_cluster.")]
    _instrument(atheris, modules)
    with checking(target) as check:

        def one(data: bytes) -> None:
            try:
                check(data)
            except Exception as fault:
                print(FAULT + said(fault), flush=True)
                raise

        atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
        atheris.Fuzz()


def _instrument(atheris: Any, modules: list[str]) -> None:
    """Every function of the product that is loaded by now tells which of its branches it takes."""
    for name in modules:
        if "._pb." in name or "._native" in name:
            continue
        for value in list(vars(sys.modules[name]).values()):
            if getattr(value, "__module__", None) != name:
                continue
            functions = [value] if not isinstance(value, type) else vars(value).values()
            for function in functions:
                if hasattr(function, "__code__"):
                    atheris.instrument_func(function)


if __name__ == "__main__":
    main()
