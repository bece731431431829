"""`python -m tests.property.codec --inputs N`: N inputs for every parser of what clients send."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.property.codec.parsers import PARSERS, FuzzFailureError, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.codec", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for target in PARSERS:
        begin = time.monotonic()
        try:
            outcomes = fuzz(target, options.inputs, options.seed)
        except FuzzFailureError:
            traceback.print_exc()
            failed = 1
            continue
        counts = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
        seconds = time.monotonic() - begin
        print(f"{target.name}: {options.inputs} inputs in {seconds:.1f} s: {counts}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
