"""What benchmarks of single parts send: whole append requests, to streams that they make."""

from __future__ import annotations

import random
from collections.abc import Sequence

from svc_cluster.base.clock import Clock
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.api_client import AppendRecord, append_body, records_path
from svc_cluster.lab.load.filling import Filling
from svc_cluster.lab.load.requests import LoadAccess, protobuf_append


def append_request(
    client: HttpClient, basin: str, stream: str, records: list[AppendRecord], encoding: str
) -> bytes:
    """A whole append request, ready to be sent again and again."""
    headers = {"svc-basin": basin, "content-type": "application/json"}
    body = append_body(records)
    if encoding == "protobuf":
        headers["content-type"] = "application/protobuf"
        body = protobuf_append(records)
    return client.encode("POST", records_path(stream), headers, body)


async def set_up(url: str, basin: str, streams: Sequence[str], clock: Clock) -> None:
    """Make a basin and streams where nobody is asked who they are. Raises ApiError."""
    async with Filling(LoadAccess(url), clock, random.Random(0)) as filling:
        await filling.make(basin, streams)
