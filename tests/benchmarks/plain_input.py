"""What decoding a protobuf append costs a gateway, in one walk beside the library's way:
`python -m tests.benchmarks.plain_input`, some seconds. One process; both ways take turns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.gateway.request.plain_input import plain_append_input
from tests.at_once import decode_proto_append

ROUNDS: Final = 21
SECONDS: Final = 0.02
"""Of one way in one round."""
SHAPES: Final = ((1, 1024, 0), (100, 100, 0), (100, 100, 2), (1000, 1016, 0))
"""Records, bytes of each body, headers of each record."""


def _body(records: int, size: int, headers: int) -> bytes:
    header = pb.Header(name=b"name", value=b"value")
    made = [pb.AppendRecord(headers=[header] * headers, body=os.urandom(size))] * records
    return pb.AppendInput(records=made).SerializeToString()


def _us(work: Callable[[], object]) -> float:
    """Microseconds of processor time for one call."""
    calls, begun = 0, time.process_time()
    while (spent := time.process_time() - begun) < SECONDS:
        work()
        calls += 1
    return spent / calls * 1e6


def main() -> None:
    print("| records | bytes | headers | library, us | one walk, us | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for shape in SHAPES:
        body = _body(*shape)
        assert plain_append_input(body) == decode_proto_append(body)
        pairs = [
            (_us(lambda: decode_proto_append(body)), _us(lambda: plain_append_input(body)))  # noqa: B023
            for _ in range(ROUNDS)
        ]
        before, after = (median(each) for each in zip(*pairs, strict=True))
        ratio = median(first / second for first, second in pairs)
        records, size, headers = shape
        print(f"| {records} | {size} | {headers} | {before:.1f} | {after:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
