"""A client of a server that asks for access tokens."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Self

from svc_cluster.model.access_secret import secret_text
from tests.contract.client import Answer, Client

ROOT_SECRET = secret_text(bytes(range(32)))
SECONDS = 30.0

EVERY_OP = (
    "list-basins",
    "create-basin",
    "delete-basin",
    "reconfigure-basin",
    "get-basin-config",
    "issue-access-token",
    "revoke-access-token",
    "list-access-tokens",
    "account-metrics",
    "basin-metrics",
    "list-streams",
    "create-stream",
    "delete-stream",
    "get-stream-config",
    "reconfigure-stream",
    "check-tail",
    "append",
    "read",
    "trim",
    "fence",
    "stream-metrics",
    "list-locations",
    "get-default-location",
    "set-default-location",
)
ALL: dict[str, Any] = {"prefix": ""}
EVERYWHERE: dict[str, Any] = {"basins": ALL, "streams": ALL, "access_tokens": ALL}


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


class Account:
    """Issues tokens in the name of the root token, and asks with any of them."""

    def __init__(self, endpoint: str, directory: Path) -> None:
        self.endpoint = endpoint
        self.directory = directory
        """Where the server keeps all that it keeps."""
        self.client = Client(endpoint)
        self._issued = 0

    def __enter__(self) -> Self:
        self.until(lambda: self.ask("GET", "/v1/basins").status == 200)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.connection.close()

    def until(self, holds: Any) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        secret: str | None = ROOT_SECRET,
        **headers: str,
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if secret is not None:
            named |= bearer(secret)
        if body is None:
            return self.client.request(method, path, None, named)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.client.request(
            method, path, data, {"content-type": "application/json", **named}
        )

    def issue(
        self, scope: dict[str, Any], secret: str | None = ROOT_SECRET, **members: Any
    ) -> tuple[str, str]:
        """Id and secret of a new token."""
        self._issued += 1
        token_id = members.pop("id", f"token-{self._issued:05}")
        answer = self.ask(
            "POST", "/v1/access-tokens", {"id": token_id, "scope": scope, **members}, secret
        )
        assert answer.status == 201, answer
        return token_id, answer.json["access_token"]

    def revoke(self, token_id: str, secret: str | None = ROOT_SECRET) -> Answer:
        return self.ask("DELETE", f"/v1/access-tokens/{token_id}", None, secret)
