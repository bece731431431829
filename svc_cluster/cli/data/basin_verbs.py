"""`svc-cluster basin`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from svc_cluster.cli.data.printing import say_json, say_table
from svc_cluster.cli.data.stream_names import basin_name
from svc_cluster.cli.data.stream_options import StreamOptions
from svc_cluster.cli.data.verb import Meant, UsageFault, VerbCall, VerbGroup, check_meant
from svc_cluster.cli.shared_options import SharedOptions
from svc_cluster.cli.terminal import say_surely as say
from svc_cluster.client.service_client import shaped

basins = VerbGroup("Basins: namespaces of streams.")


class CipherName(StrEnum):
    """How the records of a basin's new streams are encrypted."""

    AEGIS_256 = "aegis-256"
    AES_256_GCM = "aes-256-gcm"


class ListedBasin(msgspec.Struct):
    """A basin as lists tell of it."""

    name: str
    created_at: str
    deleted_at: str | None = None
    location: str | None = None


Named = Annotated[str, typer.Argument(metavar="BASIN", help="Its name, or s2://NAME.")]
Cipher = Annotated[
    CipherName | None, typer.Option(help="Encrypts records of new streams.", show_choices=True)
]
OnAppend = Annotated[
    bool | None, typer.Option(help="Make streams that are missing when they are appended to.")
]
OnRead = Annotated[
    bool | None, typer.Option(help="Make streams that are missing when they are read.")
]


@dataclass(frozen=True, slots=True)
class BasinOptions(SharedOptions):
    """What is said of a basin's configuration, beside the defaults of streams; None: nothing."""

    cipher: Cipher = None
    create_stream_on_append: OnAppend = None
    create_stream_on_read: OnRead = None

    def config(self, defaults: StreamOptions) -> dict[str, object]:
        """The configuration in the interface's JSON, of what is said. Raises UsageFault."""
        given: dict[str, object] = {
            "default_stream_config": defaults.config() or None,
            "stream_cipher": None if self.cipher is None else self.cipher.value,
            "create_stream_on_append": self.create_stream_on_append,
            "create_stream_on_read": self.create_stream_on_read,
        }
        return {key: value for key, value in given.items() if value is not None}


@basins.verb("list")
async def list_basins(
    call: VerbCall,
    prefix: Annotated[str, typer.Argument(help="What their names begin with.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
) -> None:
    """List the basins, in the order of their names."""
    found = [each async for each in call.client.pages("basins", prefix=prefix, limit=limit)]
    if call.is_json:
        say_json(found)
        return
    rows = [shaped(each, ListedBasin) for each in found]
    say_table(
        ("BASIN", "LOCATION", "CREATED", "STATE"),
        [(r.name, r.location or "-", r.created_at, _state(r.deleted_at)) for r in rows],
    )


def _state(deleted_at: str | None) -> str:
    return "active" if deleted_at is None else "deleting"


@basins.verb("create")
async def create_basin(
    call: VerbCall,
    basin: Named,
    defaults: StreamOptions,
    options: BasinOptions,
    location: Annotated[str | None, typer.Option(help="Where it is; else the default.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(help="Replicas, 1, 3 or 5; else the cluster's setting.")
    ] = None,
) -> None:
    """Make a basin. What is said of streams is the default of those made in it."""
    name = basin_name(basin)
    config = options.config(defaults)
    body: dict[str, object] = {"basin": name, "config": config, "location": location}
    if replication_factor is not None:
        body["replication_factor"] = replication_factor
    answer = await call.client.call(
        "POST",
        "/v1/basins",
        body=msgspec.json.encode(body),
        headers={"s2-request-token": call.new_token()},
    )
    call.tell(answer.body, f"basin {name} was made")


@basins.verb("get")
async def get_basin(call: VerbCall, basin: Named) -> None:
    """Show the configuration of a basin."""
    answer = await call.client.call("GET", f"/v1/basins/{basin_name(basin)}")
    call.tell(answer.body)


@basins.verb("update")
async def update_basin(
    call: VerbCall,
    basin: Named,
    defaults: StreamOptions,
    options: BasinOptions,
) -> None:
    """Change what is named of a basin's configuration; streams that are there keep theirs."""
    config = options.config(defaults)
    if not config:
        raise UsageFault("nothing to change: name a setting, see --help")
    path = f"/v1/basins/{basin_name(basin)}"
    answer = await call.client.call("PATCH", path, body=msgspec.json.encode(config))
    call.tell(answer.body)


@basins.verb("delete")
async def delete_basin(
    call: VerbCall,
    basin: Named,
    yes: Meant = False,
) -> None:
    """Delete a basin with all its streams and records."""
    name = basin_name(basin)
    check_meant(yes, name)
    await call.client.call("DELETE", f"/v1/basins/{name}")
    if call.is_json:
        say_json({"name": name, "state": "deleting"})
    else:
        say(f"basin {name} is being deleted")
