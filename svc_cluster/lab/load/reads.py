"""Unary reads in JSON: from the start in portions, round and round, or of one record at random."""

from __future__ import annotations

import asyncio
from typing import Final

from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import records_path
from svc_cluster.lab.load.appends import AFTER_ERROR_S
from svc_cluster.lab.load.work import Work

PORTION: Final = 1000
"""Records that one read asks for; an answer has at most a MiB of them."""
_END_BYTES: Final = 96
"""Where an answer tells the tail, which has a sequence number of its own."""


def records_in(body: bytes) -> int:
    """The number of records in a JSON answer of base64 bodies."""
    tail = 1 if body.find(b'"tail"', max(0, len(body) - _END_BYTES)) >= 0 else 0
    return body.count(b'"seq_num"') - tail


async def run_reads(work: Work, connection: int) -> None:
    """Read until the end of the span. A read that brings nothing is an error."""
    share = work.share
    number = share.stream_of(connection)[0]
    path, tail = records_path(share.streams[number]), share.tails[number]
    headers = work.access.headers(share.basin) | work.access.format_header
    client = HttpClient(work.access.url)
    one = share.part.kind == "read_one"
    at = connection * tail // max(1, share.part.connections)
    metered = share.part.metered_bytes // share.part.batch
    try:
        while (due := await work.next_due()) is not None:
            if one:
                at = work.rng.randrange(tail)
            count = 1 if one else PORTION
            sent = work.sent(due)
            try:
                query = f"{path}?seq_num={at}&count={count}"
                response = await client.request("GET", query, headers)
            except ConnectionLostError as error:
                work.failed(sent, "connection_lost" if error.sent else "not_connected")
                await asyncio.sleep(AFTER_ERROR_S)
                continue
            records = records_in(response.body) if response.status == 200 else 0
            if records == 0:
                work.failed(sent, f"{response.status}/{'-' if response.status != 200 else 'none'}")
                at = 0
                await asyncio.sleep(AFTER_ERROR_S)
                continue
            now, since = work.clock.monotonic(), work.open.pop(sent)
            work.tally.received(now, len(response.body))
            work.tally.answered(since, now, records=records, metered_bytes=records * metered)
            at = at + records if at + records < tail else 0
    finally:
        client.close()
