"""The options that say how a stream, or those that a basin gets, are configured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from svc_cluster.cli.data.verb import UsageFault
from svc_cluster.cli.shared_options import SharedOptions
from svc_cluster.codec.duration import seconds_of


class TimestampingName(StrEnum):
    """Whose timestamps records get."""

    CLIENT_PREFER = "client-prefer"
    CLIENT_REQUIRE = "client-require"
    ARRIVAL = "arrival"


StorageClass = Annotated[str | None, typer.Option(help="standard or express.")]
RetentionText = Annotated[
    str | None, typer.Option("--retention", help="Such as 7days or 12h, or infinite.")
]
Timestamping = Annotated[
    TimestampingName | None, typer.Option(help="Whose timestamps count.", show_choices=True)
]
Uncapped = Annotated[
    bool | None, typer.Option("--uncapped/--capped", help="Timestamps may be in the future.")
]
DeleteOnEmpty = Annotated[
    str | None,
    typer.Option(help="Delete a stream that was empty for so long, such as 1day; 0: never."),
]

SharedCaching = Annotated[
    bool | None,
    typer.Option(
        "--shared-caching/--private-caching", help="Shared caches may keep what needs no token."
    ),
]


@dataclass(frozen=True, slots=True)
class StreamOptions(SharedOptions):
    """What is said of a stream's configuration; None: nothing."""

    storage_class: StorageClass = None
    retention: RetentionText = None
    timestamping: Timestamping = None
    uncapped: Uncapped = None
    delete_on_empty: DeleteOnEmpty = None
    shared_caching: SharedCaching = None

    def config(self) -> dict[str, object]:
        """The configuration in the interface's JSON, of what is said. Raises UsageFault."""
        config: dict[str, object] = {}
        if self.storage_class is not None:
            config["storage_class"] = self.storage_class
        if self.retention is not None:
            config["retention_policy"] = (
                {"infinite": {}}
                if self.retention == "infinite"
                else {"age": seconds("--retention", self.retention)}
            )
        stamps: dict[str, object] = {}
        if self.timestamping is not None:
            stamps["mode"] = self.timestamping.value
        if self.uncapped is not None:
            stamps["uncapped"] = self.uncapped
        if stamps:
            config["timestamping"] = stamps
        if self.delete_on_empty is not None:
            age = seconds("--delete-on-empty", self.delete_on_empty)
            config["delete_on_empty"] = {"min_age_secs": age}
        if self.shared_caching is not None:
            config["caching"] = {"shared": self.shared_caching}
        return config


def seconds(option: str, text: str) -> int:
    """Return a duration. Raises UsageFault."""
    try:
        return seconds_of(text)
    except ValueError as cause:
        raise UsageFault(f"{option} is {text!r}: {cause}") from cause
