"""`svc-cluster stream`, but for what is done with records."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from svc_cluster.cli.data.printing import say_json, say_members, say_table
from svc_cluster.cli.data.stream_names import basin_and_prefix, stream_name
from svc_cluster.cli.data.stream_options import StreamOptions
from svc_cluster.cli.data.verb import Meant, UsageFault, VerbCall, VerbGroup, check_meant
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.client_errors import AnswerRefusedError
from svc_cluster.client.service_client import shaped
from svc_cluster.client.wire_records import stream_path

streams = VerbGroup("Streams, and the records in them.")

Named = Annotated[
    str, typer.Argument(metavar="BASIN/STREAM", help="Its name, with s2:// before it or without.")
]


class ListedStream(msgspec.Struct):
    """A stream as lists tell of it."""

    name: str
    created_at: str
    deleted_at: str | None = None
    cipher: str | None = None


@streams.verb("list")
async def list_streams(
    call: VerbCall,
    basin: Annotated[
        str, typer.Argument(metavar="BASIN[/PREFIX]", help="And what their names begin with.")
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
) -> None:
    """List the streams of a basin, in the order of their names."""
    name, prefix = basin_and_prefix(basin)
    pages = call.client.pages("streams", basin=name, prefix=prefix, limit=limit)
    found = [each async for each in pages]
    if call.is_json:
        say_json(found)
        return
    rows = [shaped(each, ListedStream) for each in found]
    say_table(
        ("STREAM", "CIPHER", "CREATED", "STATE"),
        [
            (r.name, r.cipher or "-", r.created_at, "deleting" if r.deleted_at else "active")
            for r in rows
        ],
    )


@streams.verb("create")
async def create_stream(
    call: VerbCall,
    stream: Named,
    options: StreamOptions,
) -> None:
    """Make a stream. What is not said is the basin's default."""
    name = stream_name(stream)
    config = options.config()
    answer = await call.client.call(
        "POST",
        "/v1/streams",
        basin=name.basin,
        body=msgspec.json.encode({"stream": name.stream, "config": config}),
        headers={"s2-request-token": call.new_token()},
    )
    call.tell(answer.body, f"stream {name} was made")


@streams.verb("get")
async def get_stream(call: VerbCall, stream: Named) -> None:
    """Show the configuration of a stream, and its tail."""
    name = stream_name(stream)
    answer = await call.client.call("GET", stream_path(name.stream), basin=name.basin)
    shown: dict[str, object] = {"config": shaped(answer.body, dict[str, object])}
    try:
        tail = await call.client.tail(name.basin, name.stream)
        shown["tail"] = {"seq_num": tail.seq_num, "timestamp": tail.timestamp}
    except AnswerRefusedError as refused:
        if refused.status != 403:  # a token may see the one and not the other
            raise
    if call.is_json:
        say_json(shown)
    else:
        say_members(shown)


@streams.verb("update")
async def update_stream(
    call: VerbCall,
    stream: Named,
    options: StreamOptions,
) -> None:
    """Change what is named of a stream's configuration."""
    name = stream_name(stream)
    config = options.config()
    if not config:
        raise UsageFault("nothing to change: name a setting, see --help")
    answer = await call.client.call(
        "PATCH", stream_path(name.stream), basin=name.basin, body=msgspec.json.encode(config)
    )
    call.tell(answer.body)


@streams.verb("delete")
async def delete_stream(
    call: VerbCall,
    stream: Named,
    yes: Meant = False,
) -> None:
    """Delete a stream with all its records."""
    name = stream_name(stream)
    check_meant(yes, str(name))
    await call.client.call("DELETE", stream_path(name.stream), basin=name.basin)
    if call.is_json:
        say_json({"name": name.stream, "basin": name.basin, "state": "deleting"})
    else:
        say(f"stream {name} is being deleted")
