"""Schemas of the bodies that are asked with, made of the types that the codec decodes them into.

The types say which members there are, of which kind, and which of them must be there. What a type
cannot say (ranges, lengths, patterns, exactly one of two) is said beside it, by member.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from svc_cluster.codec.config_json import (
    BasinConfigJson,
    CreateBasinJson,
    CreateStreamJson,
    StreamConfigJson,
)
from svc_cluster.codec.ensure_json import EnsureBasinJson
from svc_cluster.codec.json_body import AppendJson, AppendRecordJson
from svc_cluster.codec.token_json import (
    HalvesJson,
    IssueTokenJson,
    OpGroupsJson,
    ReadTicketJson,
    ScopeJson,
)
from svc_cluster.gateway.request.endpoint import Schema

NAMES: Final[dict[type, str]] = {
    StreamConfigJson: "PartialStreamConfig",
    BasinConfigJson: "WantedBasinConfig",
    CreateBasinJson: "CreateBasin",
    CreateStreamJson: "CreateStream",
    EnsureBasinJson: "EnsureBasin",
    AppendJson: "AppendInput",
    AppendRecordJson: "AppendRecord",
    ScopeJson: "AccessTokenScope",
    OpGroupsJson: "OpGroups",
    HalvesJson: "Halves",
    IssueTokenJson: "IssueAccessToken",
    ReadTicketJson: "IssueReadTicket",
}
"""The types, and what the document calls them."""

_PREFIX: Final = "#/components/schemas/"


def schemas_of_types(
    refined: dict[str, dict[str, Schema]], texts: dict[str, str], integer: Schema
) -> dict[str, Schema]:
    """Return a schema for each of `NAMES`, and for the public types they are made of. `refined`
    says more of members than their types do, by schema and member; `texts` describe whole schemas,
    and `integer` is what every number is."""
    _, found = msgspec.json.schema_components(NAMES, ref_template=_PREFIX + "{name}")
    own = {kind.__name__: name for kind, name in NAMES.items()}
    schemas = {
        own.get(name, name.removesuffix("Json")): _cleaned(schema, own, integer)
        for name, schema in found.items()
        if not name.startswith("_")
    }
    for name, text in texts.items():
        schemas[name]["description"] = text
    for name, members in refined.items():
        properties = schemas[name]["properties"]
        for member, more in members.items():
            properties[member] = _with(properties[member], more)
    return schemas


def _cleaned(value: Any, own: dict[str, str], integer: Schema) -> Any:
    """The schema under the document's names, without what is of Python: defaults and titles."""
    if isinstance(value, list):
        return [_cleaned(each, own, integer) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "integer":
        return integer
    if "$ref" in value:
        name = value["$ref"].removeprefix(_PREFIX)
        return {"$ref": _PREFIX + own.get(name, name.removesuffix("Json"))}
    return {
        key: (
            {name: _cleaned(each, own, integer) for name, each in inside.items()}
            if key == "properties"
            else _cleaned(inside, own, integer)
        )
        for key, inside in value.items()
        if key not in ("title", "default", "description") and not (key == "required" and not inside)
    }


def _with(schema: Schema, more: Schema) -> Schema:
    """What may be null is refined in what else it may be."""
    if "anyOf" not in schema:
        return {**schema, **more}
    kinds = [kind if kind == {"type": "null"} else {**kind, **more} for kind in schema["anyOf"]]
    return {"anyOf": kinds}
