"""What S2's official Python client asks of usage: `python s2_python_metrics.py URL`.

As s2_python.py: in an environment of the client's own, and ended by the first surprise.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

from s2_sdk import (
    S2,
    AccountMetricSet,
    AppendInput,
    BasinMetricSet,
    Endpoints,
    MetricUnit,
    ReadLimit,
    Record,
    S2ServerError,
    SeqNum,
    StreamMetricSet,
    TimeseriesInterval,
)

BASIN = "s2-usage-basin"
STREAM = "counted/stream"
RECORDS = 10
METERED = 8 + 92


def times() -> dict[str, int]:
    now = int(time.time())
    return {"start": now - 3600, "end": now}


def by_name(metrics: list[Any]) -> dict[str, Any]:
    return {metric.name: metric for metric in metrics}


def total(metric: Any) -> float:
    now = time.time()
    assert all(now - 2 * 86400 <= at <= now for at, _ in metric.values)
    return float(sum(value for _, value in metric.values))


async def refused(call: Coroutine[Any, Any, Any], status: int) -> None:
    error = (await asyncio.gather(call, return_exceptions=True))[0]
    assert isinstance(error, S2ServerError), error
    assert error.status_code == status, error


async def account(s2: S2) -> None:
    (active,) = await s2.account_metrics(set=AccountMetricSet.ACTIVE_BASINS, **times())
    assert (active.name, BASIN in active.values) == ("active_basins", True)
    ops = by_name(await s2.account_metrics(set=AccountMetricSet.ACCOUNT_OPS, **times()))
    assert ops["create-basin"].unit is MetricUnit.OPERATIONS
    assert ops["create-basin"].interval is TimeseriesInterval.HOUR
    assert total(ops["create-basin"]) == 1
    assert total(ops["account-metrics"]) == 1
    print("account: ok")


async def main(url: str) -> None:
    async with S2("ignored", endpoints=Endpoints(url, url)) as s2:
        await s2.create_basin(BASIN)
        basin = s2.basin(BASIN)
        await basin.create_stream(STREAM)
        stream = basin.stream(STREAM)
        records = [Record(body=b"x" * (METERED - 8)) for _ in range(RECORDS)]
        await stream.append(AppendInput(records=records))
        await stream.read(start=SeqNum(0), limit=ReadLimit(count=RECORDS))
        await account(s2)

        async def of(which: BasinMetricSet, **more: Any) -> dict[str, Any]:
            return by_name(await s2.basin_metrics(BASIN, set=which, **times(), **more))

        found = await of(BasinMetricSet.APPEND_THROUGHPUT)
        assert found.keys() == {"standard", "express"}
        assert sum(total(one) for one in found.values()) == RECORDS * METERED
        assert {one.unit for one in found.values()} == {MetricUnit.BYTES}
        hourly = await of(BasinMetricSet.APPEND_THROUGHPUT, interval=TimeseriesInterval.HOUR)
        assert sum(total(one) for one in hourly.values()) == RECORDS * METERED
        found = await of(BasinMetricSet.APPEND_OPS)
        assert sum(total(one) for one in found.values()) == 1
        found = await of(BasinMetricSet.READ_OPS)
        assert {name: total(one) for name, one in found.items()} == {"unary": 1, "streaming": 0}
        found = await of(BasinMetricSet.READ_THROUGHPUT)
        assert [total(one) for one in found.values()] == [RECORDS * METERED]
        found = await of(BasinMetricSet.BASIN_OPS)
        assert total(found["create-stream"]) == 1
        (gauge,) = (await of(BasinMetricSet.STORAGE)).values()
        assert ("storage" in gauge.name, gauge.values[-1][1]) == (True, RECORDS * METERED)
        print("basin: ok")
        (gauge,) = await s2.stream_metrics(BASIN, STREAM, set=StreamMetricSet.STORAGE, **times())
        assert (gauge.unit, gauge.values[-1][1]) == (MetricUnit.BYTES, RECORDS * METERED)
        print("stream: ok")
        day = TimeseriesInterval.DAY
        ahead = int(time.time()) + 600
        storage = {"set": BasinMetricSet.STORAGE}
        await refused(s2.basin_metrics(BASIN, **storage, **times(), interval=day), 422)
        await refused(s2.basin_metrics(BASIN, **storage, start=0), 422)
        await refused(s2.basin_metrics(BASIN, **storage, start=2, end=1), 422)
        await refused(s2.basin_metrics(BASIN, **storage, start=ahead - 3600, end=ahead), 422)
        await refused(s2.basin_metrics(BASIN, **storage, start=0, end=91 * 86400), 422)
        print("refusals: ok")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
