"""Appends batches exactly once: `python example_once.py URL TOKEN_FILE BASIN STREAM COUNT`.

It says `appended N` behind each. Runs in `.venv/clients`, with `examples/` on its path.
"""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
from exactly_once import append, path_of


def main(url: str, token_file: str, basin: str, stream: str, count: int) -> None:
    token = Path(token_file).read_text().strip()
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        for number in range(count):
            bodies = [f"{number}.0", f"{number}.1"]
            assert append(client, path_of(basin, stream), bodies, f"batch-{number}") == 2 * number
            print("appended", number, flush=True)
        again = append(client, path_of(basin, stream), ["0.0", "0.1"], "batch-0")
        assert again == 0, "the same token is told the first answer"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
