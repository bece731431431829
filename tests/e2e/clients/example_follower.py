"""Prints what `follow` gives: `python example_follower.py URL TOKEN_FILE BASIN STREAM`.

A line a record, `seq_num body`, until the record that ends a run. Runs in `.venv/clients`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
from exactly_once import follow, path_of
from resumable import END


def main(url: str, token_file: str, basin: str, stream: str) -> None:
    token = Path(token_file).read_text().strip()
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        for _, records in follow(client, path_of(basin, stream)):
            for record in records:
                if END in record.get("headers", []):
                    return
                print(record["seq_num"], record["body"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
