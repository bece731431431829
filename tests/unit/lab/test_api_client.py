"""What the command line's own client makes of answers."""

from __future__ import annotations

import asyncio
import json

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpResponse
from svc_cluster.lab.api_client import ApiClient, ApiError


class Told(ApiClient):
    """A client whose calls are answered with these, one after the other."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        super().__init__("http://127.0.0.1:1")
        self.left = list(answers)

    async def create_basin(self, basin: str) -> HttpResponse:
        status, code = self.left.pop(0)
        return HttpResponse(status, {}, json.dumps({"code": code}).encode())


@pytest.mark.parametrize(
    "answers",
    [
        [(201, "")],
        [(409, "resource_already_exists")],
        [(409, "transaction_conflict"), (503, "unavailable"), (201, "")],
        [(409, "basin_deletion_pending"), (409, "resource_already_exists")],
    ],
)
def test_what_is_made_is_there(answers: list[tuple[int, str]]) -> None:
    """Only a 409 that says so means that it was there: behind another one it is not."""
    client = Told(*answers)
    asyncio.run(client.make(SystemClock(), "basin-1", None, deadline_s=10.0))
    assert not client.left


def test_a_refusal_is_told() -> None:
    """What another try does not change is not tried again."""
    client = Told((403, "permission_denied"), (201, ""))
    with pytest.raises(ApiError, match="permission_denied"):
        asyncio.run(client.make(SystemClock(), "basin-1", None, deadline_s=10.0))
    assert len(client.left) == 1
