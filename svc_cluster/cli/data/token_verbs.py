"""`svc-cluster token`: access tokens."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from svc_cluster.cli.data.printing import say_json, say_table
from svc_cluster.cli.data.secret_file import SecretFile, issued_secret
from svc_cluster.cli.data.verb import UsageFault, VerbCall, VerbGroup
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.service_client import shaped

access_tokens = VerbGroup("Access tokens.")

_GROUPS: Final = ("account", "basin", "stream")


class GrantName(StrEnum):
    """A group of operations and its half."""

    ACCOUNT_READ = "account:read"
    ACCOUNT_WRITE = "account:write"
    BASIN_READ = "basin:read"
    BASIN_WRITE = "basin:write"
    STREAM_READ = "stream:read"
    STREAM_WRITE = "stream:write"


class _NamesOf(msgspec.Struct):
    exact: str | None = None
    prefix: str | None = None

    def __str__(self) -> str:
        return f"={self.exact}" if self.exact is not None else f"{self.prefix}*"


class _GroupOf(msgspec.Struct):
    read: bool = False
    write: bool = False


class _ScopeOf(msgspec.Struct):
    basins: _NamesOf | None = None
    streams: _NamesOf | None = None
    access_tokens: _NamesOf | None = None
    op_groups: dict[str, _GroupOf] = {}
    ops: list[str] = []


class ListedToken(msgspec.Struct):
    """An access token as lists tell of it, without its secret."""

    id: str
    scope: _ScopeOf
    expires_at: str | None = None
    auto_prefix_streams: bool = False


TokenId = Annotated[str, typer.Argument(metavar="ID", help="The token's id, not its secret.")]
Names = Annotated[
    str | None, typer.Option(metavar="NAMES", help="=NAME for that one, PREFIX for all with it.")
]


@access_tokens.verb("list")
async def list_tokens(
    call: VerbCall,
    prefix: Annotated[str, typer.Argument(help="What their ids begin with.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
) -> None:
    """List the access tokens, without their secrets."""
    pages = call.client.pages("access-tokens", prefix=prefix, limit=limit)
    found = [each async for each in pages]
    if call.is_json:
        say_json(found)
        return
    rows = [shaped(each, ListedToken) for each in found]
    say_table(
        ("ID", "EXPIRES", "BASINS", "STREAMS", "TOKENS", "MAY"),
        [
            (
                row.id,
                row.expires_at or "never",
                str(row.scope.basins or "-"),
                str(row.scope.streams or "-") + (" (cut off)" if row.auto_prefix_streams else ""),
                str(row.scope.access_tokens or "-"),
                _may(row.scope),
            )
            for row in rows
        ],
    )


def _may(scope: _ScopeOf) -> str:
    words = []
    for name in _GROUPS:
        group = scope.op_groups.get(name, _GroupOf())
        words += [f"{name}:read"] if group.read else []
        words += [f"{name}:write"] if group.write else []
    return ",".join(words + scope.ops) or "-"


@access_tokens.verb("issue")
async def issue_token(
    call: VerbCall,
    token_id: TokenId,
    allow: Annotated[
        list[GrantName] | None,
        typer.Option(help="A group of operations; may be repeated.", show_choices=True),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option(help="One operation, such as append; may be repeated.")
    ] = None,
    basins: Names = None,
    streams: Names = None,
    tokens: Names = None,
    expires_at: Annotated[
        str | None, typer.Option(help="RFC 3339, such as 2030-01-31T00:00:00Z; else never.")
    ] = None,
    auto_prefix_streams: Annotated[
        bool, typer.Option(help="Its streams are named without the prefix of --streams.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the secret there, for its owner only.")
    ] = None,
) -> None:
    """Issue an access token and show its secret, this once. Without --basins, --streams and
    --tokens it may be used with none of them; '' stands for all."""
    if not allow and not op:
        raise UsageFault("a token may do something: use --allow stream:read or --op append")
    groups: dict[str, dict[str, bool]] = {}
    for grant in allow or ():
        group, half = grant.value.split(":")
        groups.setdefault(group, {})[half] = True
    body = {
        "id": token_id,
        "scope": {
            "basins": _names(basins),
            "streams": _names(streams),
            "access_tokens": _names(tokens),
            "op_groups": groups,
            "ops": list(op or ()),
        },
        "auto_prefix_streams": auto_prefix_streams,
        "expires_at": expires_at,
    }
    encoded = msgspec.json.encode(body)
    if out is None:
        answer = await call.client.call("POST", "/v1/access-tokens", body=encoded)
        say(answer.body.decode() if call.is_json else issued_secret(answer.body))
        return
    with SecretFile(out) as secret:
        secret.keep((await call.client.call("POST", "/v1/access-tokens", body=encoded)).body)
    if call.is_json:
        say_json({"id": token_id, "file": str(out)})
    else:
        say(f"access token {token_id} was issued; its secret is in {out}")


def _names(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    return {"exact": text[1:]} if text.startswith("=") else {"prefix": text}


@access_tokens.verb("revoke")
async def revoke_token(
    call: VerbCall,
    token_id: TokenId,
    yes: Annotated[bool, typer.Option("--yes", help="It is meant.")] = False,
) -> None:
    """Revoke an access token, and with it all that were issued with it."""
    if not yes:
        raise UsageFault(f"this ends {token_id!r} and all tokens issued with it: say so with --yes")
    await call.client.call("DELETE", f"/v1/access-tokens/{quote(token_id, safe='')}")
    if call.is_json:
        say_json({"id": token_id, "state": "revoked"})
    else:
        say(f"access token {token_id} is revoked")
