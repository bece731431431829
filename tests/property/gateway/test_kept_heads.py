"""What a head says is read once for the requests that begin with the very same bytes: each of them
is answered as one that comes alone is."""

from __future__ import annotations

import random

from svc_cluster.base.errors import InvalidError
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.http.message import BytesBody, HeadNote, Request
from tests.property.gateway.hostile import damaged, in_batches
from tests.property.gateway.test_hostile_requests import PATHS, QUERIES, some_headers, text
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, make_app, nothing

Told = tuple[int, list[tuple[str, str]], object]


async def _told(app: GatewayApp, request: Request) -> Told:
    response = await app.handle(request)
    body = response.body
    if not isinstance(body, bytes):
        close = getattr(body, "aclose", None)
        assert close is not None
        await close()
        body = b"a stream"
    response.place = None
    headers = [header for header in response.headers if header[0] != "x-request-id"]
    return response.status, headers, body


@in_batches(500)
def test_with_a_head_that_is_kept_every_answer_is_the_same(sources: list[random.Random]) -> None:
    """Whatever the bodies are, the second and the third time as the first."""

    async def main() -> None:
        app, metrics = make_app(ScriptedBackend([nothing(3)], failure=InvalidError("told so")))
        for rng in sources:
            method = rng.choice(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"])
            head = (method, text(rng, PATHS), text(rng, QUERIES), some_headers(rng))
            note = HeadNote()
            for _ in range(3):
                data = damaged(rng, b'{"records":[{"body":"YQ=="}],"stream":"s"}')
                alone = await _told(app, Request(*head, BytesBody(data)))
                kept = await _told(app, Request(*head, BytesBody(data), head_note=note))
                assert kept == alone, head
        assert "svc_http_body_bytes_in_flight 0.0" in metrics.expose().decode()

    run(lambda loop: main())
