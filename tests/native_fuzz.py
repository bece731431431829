"""`python -m tests.native_fuzz`: the native core under AddressSanitizer and UBSan.

It is compiled with both, and a child, which loads the sanitizers' library first, gives it spoilt
inputs and compares every answer with Python's (tests/property/native).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.native_build import ROOT, SANITIZERS, compiled, compiler


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native_fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cc = compiler()
    if cc is None:
        print(
            "there is no compiler with Python's headers, so that there is no core", file=sys.stderr
        )
        return 1
    with tempfile.TemporaryDirectory() as directory:
        core = compiled(Path(directory), *SANITIZERS)
        return subprocess.run(
            [
                *(sys.executable, "-m", "tests.property.native", "--core", str(core)),
                *("--inputs", str(options.inputs), "--seed", str(options.seed)),
            ],
            cwd=ROOT,
            env=os.environ | sanitized(cc),
            check=False,
        ).returncode


def sanitized(cc: str) -> dict[str, str]:
    """The environment of a process that loads what was compiled with SANITIZERS."""
    libraries = [
        subprocess.run(
            [cc, f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        "LD_PRELOAD": " ".join(libraries),
        # the interpreter keeps much to its end; its own allocator would hide what is written beyond
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "PYTHONMALLOC": "malloc",
    }


if __name__ == "__main__":
    raise SystemExit(main())
