"""Locations in JSON bodies."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.json_body import decode_object
from svc_cluster.model.location import Location, is_location_name

LOCATION_NAME_RULE: Final = (
    "a location's name has 1 to 64 letters, digits, dots, colons and hyphens"
)


def decode_location_name(body: bytes) -> str:
    """The name in a body that is one JSON string. Raises MalformedError (bad_json)."""
    return checked_location(decode_object(body, str))


def checked_location(name: str) -> str:
    """The name itself. Raises MalformedError (bad_json) for one that breaks the rules of names."""
    if not is_location_name(name):
        raise MalformedError(ErrorCode.BAD_JSON, f"{LOCATION_NAME_RULE}; this one has {len(name)}")
    return name


def location_to_json(location: Location, default_storage_class: str) -> dict[str, object]:
    """`default_storage_class`: of streams where nobody names one, in the dialect of the request."""
    return {
        "name": location.name,
        "is_private": location.is_private,
        "storage_classes": location.storage_classes,
        "default_storage_class": default_storage_class,
    }
