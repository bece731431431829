"""The node's own pages: what they answer to what they do not know."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from svc_cluster.cli.processes.node_pages import AdminApp
from svc_cluster.http.message import Request


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/metrics", 405, "method_not_allowed"),
        ("DELETE", "/debug/groups", 405, "method_not_allowed"),
        ("GET", "/nowhere", 404, "not_found"),
    ],
)
def test_other_methods_and_pages_are_refused(
    method: str, path: str, status: int, code: str
) -> None:
    """Reading is all that the pages allow; the refusal is JSON like everywhere else."""
    app = AdminApp(cast(Any, None), cast(Any, None), debug=True)
    answer = asyncio.run(app.handle(Request(method, path, "", [])))
    assert answer.status == status
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["code"] == code
