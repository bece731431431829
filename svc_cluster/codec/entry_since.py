"""What of an entry may not be written yet. Members of its messages have come with versions that are
not active (model/versions.py); who writes asks here, and who reads knows all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from google.protobuf.message import Message

from svc_cluster.base.errors import ErrorCode, ServiceError
from svc_cluster.model import versions


class NotActiveYetError(ServiceError):
    """Definitely without effect: it takes a newer active version."""

    code = ErrorCode.UNAVAILABLE


def written_kinds(
    command: str,
    kinds: Iterable[str],
    active: int,
    since: Mapping[str, int] = versions.MEMBERS_SINCE,
) -> list[str]:
    """Those of the `kinds` of this command's message that may have been written by now, sorted."""
    return sorted(
        kind
        for kind in kinds
        if since.get(name := f"{command}.{kind}", versions.FIRST) <= active
        and (name != versions.RAISING or active > versions.FIRST)
    )


def check_since(
    message: Message, active: int, since: Mapping[str, int] = versions.MEMBERS_SINCE
) -> None:
    """Raises NotActiveYetError where the message has a member that is not written under `active`.
    Messages inside it count too. `since`: by `Message.member`."""
    for field, value in message.ListFields():
        name = f"{message.DESCRIPTOR.name}.{field.name}"
        wanted = since.get(name, versions.FIRST)
        if wanted > active:
            raise NotActiveYetError(
                f"{field.name} takes version {wanted} of the cluster, which is at {active}: once "
                f"all nodes and gateways run release {versions.release_of(wanted)}, run "
                "`svc-cluster admin upgrade finalize`"
            )
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                check_since(inner, active, since)
