"""A loop that was late once refuses nobody; one that stays late refuses what is new alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from svc_cluster.codec.session_frame import Compression, encode_frame
from svc_cluster.gateway.limits.admission import LATE_LOOKS, LATE_SECONDS, LOOK_SECONDS
from svc_cluster.gateway.request.negotiation import SESSION_TYPES
from tests.integration.gateway_turns import bodies
from tests.integration.gateway_turns.kinds import open_session
from tests.integration.gateway_turns.watched import WatchedGateway

TAIL = "/v1/streams/log/records/tail"
RECORDS = "/v1/streams/log/records"


@pytest.fixture(scope="module")
def gateway() -> Iterator[WatchedGateway]:
    with WatchedGateway() as running:
        yield running


def test_a_turn_of_a_second_refuses_nobody(gateway: WatchedGateway) -> None:
    """Requests that came meanwhile and those behind are answered, and so is the probe; an open
    session goes on, and the token is known all the time."""
    frame = encode_frame(bodies.proto_append("empty"), Compression.NONE)
    with open_session(gateway, "POST", RECORDS, SESSION_TYPES[0]) as session:
        gateway.stop_loop(1.0)
        session.send(frame)
        statuses = [gateway.ask("GET", path)[0] for path in (TAIL, "/readyz", TAIL, "/v1/basins")]
        assert statuses == [200] * 4
        first = session.frame()
        assert first is not None
        assert not first.is_terminal
        session.half_close()
    assert gateway.shed() == 0


def test_a_loop_that_stays_late_refuses_what_is_new(gateway: WatchedGateway) -> None:
    """With a definite 503 that says when to come again; probes are answered, a session goes on,
    and once the loop is in time again all are served."""
    frame = encode_frame(bodies.proto_append("empty"), Compression.NONE)
    with open_session(gateway, "POST", RECORDS, SESSION_TYPES[0]) as session:
        with gateway.kept_late(LATE_SECONDS + 4 * LOOK_SECONDS, times=LATE_LOOKS + 8):
            gateway.wait_until_late()
            status, said = gateway.ask("GET", TAIL)
            assert (status, json.loads(said)["code"]) == (503, "unavailable")
            assert gateway.ask("GET", "/readyz")[0] == 200
            assert gateway.shed() >= 1
            session.send(frame)
            first = session.frame()
            assert first is not None
            assert not first.is_terminal
        gateway.wait_until_in_time()
        assert gateway.ask("GET", TAIL)[0] == 200
        session.half_close()
