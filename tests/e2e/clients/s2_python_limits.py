"""What S2's official Python client does at a limit of requests: `python s2_python_limits.py URL`.

Runs in an environment of the client's own, as s2_python.py. Its own retries, unmodified, have to
carry every append through, by the time that each 429 announces.
"""

from __future__ import annotations

import asyncio
import sys
import time

from s2_sdk import S2, AppendInput, Endpoints, Record

BASIN = "s2-limited-basin"
APPENDS = 30


async def main(url: str) -> None:
    async with S2("any token", endpoints=Endpoints(url, url)) as s2:
        await s2.create_basin(BASIN)
        basin = s2.basin(BASIN)
        await basin.create_stream("s")
        stream = basin.stream("s")
        begun = time.monotonic()
        for number in range(APPENDS):
            ack = await stream.append(AppendInput([Record(f"{number}".encode())]))
            assert ack.end.seq_num == number + 1
        seconds = time.monotonic() - begun
    print(f"{APPENDS} appends at a limit, in {seconds:.1f} s: ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
