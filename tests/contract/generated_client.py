"""What a client does that was generated from the OpenAPI document: `python generated_client.py
PACKAGE-FOLDER URL TOKEN`, in an environment that has what generated clients stand on.

A program of its own, ended by the first surprise.
"""

from __future__ import annotations

import sys

sys.path.insert(0, sys.argv[1])

from svc_cluster_client import AuthenticatedClient
from svc_cluster_client.api.basins import create_basin, list_basins
from svc_cluster_client.api.metrics import basin_metrics
from svc_cluster_client.api.records import append, check_tail, read
from svc_cluster_client.api.streams import create_stream, list_streams
from svc_cluster_client.models import (
    AppendAck,
    AppendInput,
    AppendRecord,
    AppendSvcFormat,
    BasinInfo,
    BasinMetricsSet,
    CreateBasin,
    CreateStream,
    Error,
    ReadBatch,
    ReadSvcFormat,
    StreamInfo,
    Tail,
)

BASIN = "generated-client"
STREAM = "a/b c?é"
BODIES = ["first", "second, ünïcode", ""]


def main(url: str, token: str) -> None:
    with AuthenticatedClient(url, token, raise_on_unexpected_status=True) as client:
        made = create_basin.sync(client=client, body=CreateBasin(basin=BASIN))
        assert isinstance(made, BasinInfo) and made.name == BASIN, made
        again = create_basin.sync_detailed(client=client, body=CreateBasin(basin=BASIN))
        assert again.status_code == 409 and isinstance(again.parsed, Error), again
        assert again.parsed.code == "resource_already_exists", again
        stream = create_stream.sync(
            client=client, body=CreateStream(stream=STREAM), svc_basin=BASIN
        )
        assert isinstance(stream, StreamInfo) and stream.name == STREAM, stream
        print("a basin and a stream: ok")

        wanted = AppendInput(
            records=[
                AppendRecord(body=body, headers=[["number", str(number)]])
                for number, body in enumerate(BODIES)
            ],
            match_seq_num=0,
        )
        utf8 = AppendSvcFormat.UTF8
        ack = append.sync(STREAM, client=client, body=wanted, svc_basin=BASIN, svc_format=utf8)
        assert isinstance(ack, AppendAck) and ack.tail.seq_num == len(BODIES), ack
        other = append.sync_detailed(
            STREAM, client=client, body=wanted, svc_basin=BASIN, svc_format=utf8
        )
        assert other.status_code == 412 and other.parsed.seq_num_mismatch == len(BODIES), other
        print("appends: ok")

        batch = read.sync(
            STREAM, client=client, seq_num=0, svc_basin=BASIN, svc_format=ReadSvcFormat.UTF8
        )
        assert isinstance(batch, ReadBatch), batch
        assert [each.body or "" for each in batch.records] == BODIES, batch
        numbers = [each.headers for each in batch.records]
        assert numbers == [[["number", str(each)]] for each in range(len(BODIES))], batch
        tail = check_tail.sync(STREAM, client=client, svc_basin=BASIN)
        assert isinstance(tail, Tail) and tail.tail.seq_num == len(BODIES), tail
        missing = read.sync_detailed("nowhere", client=client, svc_basin=BASIN)
        assert missing.status_code == 404 and isinstance(missing.parsed, Error), missing
        assert missing.parsed.code == "stream_not_found", missing
        print("reads: ok")

        basins = list_basins.sync(client=client, prefix=BASIN)
        assert [each.name for each in basins.basins] == [BASIN], basins
        streams = list_streams.sync(client=client, svc_basin=BASIN)
        assert [each.name for each in streams.streams] == [STREAM], streams
        used = basin_metrics.sync_detailed(
            BASIN, client=client, set_=BasinMetricsSet.STORAGE, start=1, end=60
        )
        assert used.status_code == 200 and used.parsed is not None, used
        print("lists and metrics: ok")
    with AuthenticatedClient(url, "nonsense") as stranger:
        refused = list_basins.sync_detailed(client=stranger)
        assert refused.status_code == 401 and refused.parsed.code == "authn", refused
        print("no token, no answer: ok")


if __name__ == "__main__":
    main(*sys.argv[2:])
