"""One append's trace, as a collector receives it: gateway, leader and followers."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.benchmarks.append_path import Client, Cluster

BASIN, STREAM = "traced-basin", "s"
PATIENCE_SECONDS = 60.0
CALLER = b"c" * 8


@dataclass
class Received:
    """A span as it came, and who told of it."""

    service: str
    instance: str
    span: Any

    def about(self) -> dict[str, Any]:
        return {
            each.key: getattr(each.value, each.value.WhichOneof("value"))
            for each in self.span.attributes
        }


class Collector:
    """Takes what exporters send it by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.came = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.headers["content-type"] == "application/x-protobuf"
                collector.take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def take(self, request: Any) -> None:
        with self.came:
            for group in request.resource_spans:
                who = {each.key: each.value.string_value for each in group.resource.attributes}
                for scope in group.scope_spans:
                    self.spans += [
                        Received(who["service.name"], who["service.instance.id"], span)
                        for span in scope.spans
                    ]
            self.came.notify_all()

    def wait(self, are_enough: Callable[[list[Received]], bool]) -> list[Received]:
        with self.came:
            assert self.came.wait_for(lambda: are_enough(self.spans), PATIENCE_SECONDS), [
                (one.service, one.span.name) for one in self.spans
            ]
            return list(self.spans)


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()


async def appends(directory: Path, endpoint: str | None, *requests: tuple[str, ...]) -> None:
    """One append to a cluster of three nodes with each of these sets of header lines."""
    client = Client()
    async with Cluster(directory, 3, endpoint) as cluster:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await client.connect(cluster.port)
            basin = json.dumps({"basin": BASIN}).encode()
            await client.until_done("POST", "/v1/basins", None, basin)
            stream = json.dumps({"stream": STREAM}).encode()
            await client.until_done("POST", "/v1/streams", BASIN, stream)
            path, body = f"/v1/streams/{STREAM}/records", b'{"records": [{"body": "eA=="}]}'
            await client.until_done("POST", path, BASIN, body)
            for lines in requests:
                status, _ = await client.request("POST", path, BASIN, body, *lines)
                assert status == 200
            client.close()


def parent(trace_id: bytes, flags: str) -> str:
    return f"traceparent: 00-{trace_id.hex()}-{CALLER.hex()}-{flags}"


def test_an_append_is_traced_from_the_gateway_to_its_followers(tmp_path: Path) -> None:
    """Under the caller's span is the gateway's, under that the leader's, and under that each
    follower's own, within each other's times; all with the caller's state. Of an append whose
    trace is not sampled, and of those without one, nothing is told."""
    sampled, silent = (random.Random(n).randbytes(16) for n in (1, 2))
    with collecting() as collector:
        asyncio.run(
            appends(
                tmp_path,
                collector.endpoint,
                (parent(silent, "00"), "tracestate: a=1"),
                (parent(sampled, "01"), "tracestate: a=1", "tracestate: b@c=2"),
            )
        )
        found = collector.wait(lambda spans: len(spans) >= 4)
    assert {one.span.trace_id for one in found} == {sampled}
    assert {one.span.trace_state for one in found} == {"a=1,b@c=2"}
    assert len(found) == len({one.span.span_id for one in found}) == 4
    by_parent = {one.span.parent_span_id: one for one in found}
    gateway = by_parent[CALLER]
    leader = by_parent[gateway.span.span_id]
    followers = [one for one in found if one.span.parent_span_id == leader.span.span_id]
    assert (gateway.service, leader.service) == ("svc-cluster-gateway", "svc-cluster-node")
    assert gateway.span.name == "POST /v1/streams/{stream}/records"
    assert {one.span.name for one in followers} == {"entry on a follower"}
    nodes = {one.instance for one in (leader, *followers)}
    assert nodes == {"node-1", "node-2", "node-3"}
    for inner, outer in ((leader, gateway), *((one, leader) for one in followers)):
        assert outer.span.start_time_unix_nano <= inner.span.start_time_unix_nano
        assert inner.span.start_time_unix_nano < inner.span.end_time_unix_nano
    assert leader.span.end_time_unix_nano <= gateway.span.end_time_unix_nano
    first = min(one.span.end_time_unix_nano for one in followers)
    assert first <= leader.span.end_time_unix_nano, "one of them made the majority"
    about, at_leader = gateway.about(), leader.about()
    assert (about["svc.basin"], about["svc.stream"]) == (BASIN, STREAM)
    assert about["http.response.status_code"] == 200
    for stage in ("queue", "wal", "quorum", "apply"):
        # the link carries microseconds
        told = about[f"svc.stage.leader_{stage}_ms"]
        assert abs(told - at_leader[f"svc.stage.{stage}_ms"]) < 0.002
    assert at_leader["svc.stage.wal_ms"] > 0
    assert {one.about()["svc.group"] for one in followers} == {at_leader["svc.group"]}
