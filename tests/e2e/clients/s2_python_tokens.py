"""What S2's official Python client does with access tokens: `python s2_python_tokens.py URL ROOT`.

As s2_python.py: in an environment of the client's own, and ended by the first surprise.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from s2_sdk import (
    S2,
    AccessTokenScope,
    AppendInput,
    Endpoints,
    ExactMatch,
    Operation,
    OperationGroupPermissions,
    Permission,
    PrefixMatch,
    ReadLimit,
    Record,
    S2ServerError,
    SeqNum,
)

BASIN = "s2-token-basin"


@contextmanager
def refused(code: str, status: int) -> Iterator[None]:
    """What is done inside must be refused so."""
    caught: list[Any] = []
    try:
        yield
    except S2ServerError as error:
        caught.append(error)
    assert caught, f"{code} was expected"
    assert (caught[0].code, caught[0].status_code) == (code, status), caught[0]


async def account(s2: S2) -> None:
    """The root token's calls: list, issue, revoke, and the refusals of requests without sense."""
    page = await s2.list_access_tokens(limit=1)
    assert len(page.items) == 1
    with refused("invalid", 422):
        await s2.issue_access_token("empty", scope=AccessTokenScope())
    with refused("invalid", 422):
        await s2.issue_access_token(
            "exact",
            scope=AccessTokenScope(streams=ExactMatch("a"), ops=[Operation.READ]),
            auto_prefix_streams=True,
        )
    expires = datetime.now(UTC) + timedelta(days=1)
    scope = AccessTokenScope(
        basins=ExactMatch(BASIN),
        streams=PrefixMatch("tenant/"),
        op_groups=OperationGroupPermissions(stream=Permission.READ),
        ops=[Operation.TRIM],
    )
    await s2.issue_access_token("listed", scope=scope, expires_at=expires)
    with refused("resource_already_exists", 409):
        await s2.issue_access_token("listed", scope=scope)
    (info,) = (await s2.list_access_tokens(prefix="listed")).items
    assert (info.id, info.expires_at, info.auto_prefix_streams) == ("listed", expires, False)
    assert (info.scope.basins, info.scope.streams) == (scope.basins, scope.streams)
    assert list(info.scope.ops) == [Operation.TRIM]
    await s2.revoke_access_token("listed")
    assert (await s2.list_access_tokens(prefix="listed")).items == []
    with refused("access_token_not_found", 404):
        await s2.revoke_access_token("listed")
    assert "root" in [token.id async for token in s2.list_all_access_tokens()]


async def tenant(s2: S2, url: str) -> None:
    """A tenant behind a prefix: its names are its own, what it may not do is refused, and after
    the revocation nothing works any more."""
    await s2.create_basin(BASIN)
    secret = await s2.issue_access_token(
        "tenant",
        scope=AccessTokenScope(
            basins=ExactMatch(BASIN),
            streams=PrefixMatch("tenant/"),
            op_groups=OperationGroupPermissions(stream=Permission.READ_WRITE),
        ),
        auto_prefix_streams=True,
    )
    async with S2(secret, endpoints=Endpoints(url, url)) as own:
        basin = own.basin(BASIN)
        made = await basin.create_stream("log")
        assert made.name == "log"
        stream = basin.stream("log")
        await stream.append(AppendInput([Record(b"one")]))
        batch = await stream.read(start=SeqNum(0), limit=ReadLimit(count=1))
        assert [record.body for record in batch.records] == [b"one"]
        assert [each.name for each in (await basin.list_streams()).items] == ["log"]
        assert [each.name for each in (await s2.basin(BASIN).list_streams()).items] == [
            "tenant/log"
        ]
        with refused("permission_denied", 403):
            await own.create_basin("s2-other-tenant")
        with refused("permission_denied", 403):
            await own.list_access_tokens()
        await s2.revoke_access_token("tenant")
        with refused("authn", 401):
            await stream.check_tail()


async def main(url: str, root: str) -> None:
    async with S2(root, endpoints=Endpoints(url, url)) as s2:
        await account(s2)
        print("access tokens: ok")
        await tenant(s2, url)
        print("a tenant behind a prefix: ok")
    async with S2("nobody", endpoints=Endpoints(url, url)) as nobody:
        with refused("authn", 401):
            await nobody.list_basins()
    print("no valid token: ok")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
