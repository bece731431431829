"""The objects of the wire as JSON Schema. The limits are those that the code checks by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.codec.records import RECORDS_MAX, U64_MAX
from svc_cluster.model import names
from svc_cluster.model.access import Op

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def obj(
    required: dict[str, Schema], optional: dict[str, Schema] | None = None, text: str = ""
) -> Schema:
    """An object; members that are not named are allowed, and mean nothing."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    if text:
        schema["description"] = text
    return schema


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def words(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


U64: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": U64_MAX}
BOOLEAN: Final[Schema] = {"type": "boolean"}
TEXT: Final[Schema] = {"type": "string"}
BINARY: Final[Schema] = {"type": "string", "format": "binary"}
DATE_TIME: Final[Schema] = {"type": "string", "format": "date-time"}

_METRIC_UNIT: Final[Schema] = words("bytes", "operations")
_METRIC_VALUES: Final[Schema] = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
}
BASIN_NAME: Final[Schema] = {
    "type": "string",
    "minLength": 8,
    "maxLength": 48,
    "pattern": "^[a-z0-9][a-z0-9-]*[a-z0-9]$",
}
BASIN_PREFIX: Final[Schema] = {
    "type": "string",
    "maxLength": 48,
    "pattern": "^([a-z0-9][a-z0-9-]*)?$",
}
_NO_NUL: Final = "^[^\\u0000]*$"
STREAM_NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "pattern": _NO_NUL,
    "maxLength": names.STREAM_NAME_BYTES_MAX,
    "not": {"enum": [".", ".."]},
    "description": "Lengths are in bytes of UTF-8.",
}
STREAM_PREFIX: Final[Schema] = {
    "type": "string",
    "maxLength": names.STREAM_NAME_BYTES_MAX,
    "pattern": _NO_NUL,
}
TOKEN_ID: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "pattern": _NO_NUL,
    "maxLength": names.TOKEN_ID_BYTES_MAX,
    "not": {"enum": [".", ".."]},
}
TOKEN_ID_PREFIX: Final[Schema] = {
    "type": "string",
    "maxLength": names.TOKEN_ID_BYTES_MAX,
    "pattern": _NO_NUL,
}
REQUEST_TOKEN: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": names.REQUEST_TOKEN_BYTES_MAX,
}

_STORAGE_CLASS: Final = words("standard", "express")
_MODE: Final = words("client-prefer", "client-require", "arrival")
LOCATION_NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "pattern": "^[A-Za-z0-9:.-]+$",
}
_LOCATION: Final = nullable(
    {**LOCATION_NAME, "description": "One of those there are; the default where none is named."}
)
_CIPHER: Final = words("aegis-256", "aes-256-gcm")
_HEADERS: Final[Schema] = {
    "type": "array",
    "items": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2},
    "description": "Pairs of name and value, in order.",
}

COMPONENTS: Final[dict[str, Schema]] = {
    "Position": obj(
        {"seq_num": U64, "timestamp": {**U64, "description": "Unix milliseconds."}},
    ),
    "Tail": obj({"tail": ref("Position")}),
    "Retention": {
        "oneOf": [
            obj({"age": {**U64, "minimum": 1, "description": "Seconds."}}),
            obj({"infinite": obj({})}),
        ]
    },
    "StreamConfig": obj(
        {
            "storage_class": _STORAGE_CLASS,
            "retention_policy": ref("Retention"),
            "timestamping": obj({"mode": _MODE, "uncapped": BOOLEAN}),
            "delete_on_empty": obj({"min_age_secs": U64}),
        }
    ),
    "PartialStreamConfig": obj(
        {},
        {
            "storage_class": nullable(_STORAGE_CLASS),
            "retention_policy": nullable(ref("Retention")),
            "timestamping": nullable(
                obj({}, {"mode": nullable(_MODE), "uncapped": nullable(BOOLEAN)})
            ),
            "delete_on_empty": nullable(obj({}, {"min_age_secs": nullable(U64)})),
        },
        "A member that is null or absent falls back to the basin's default, then to the system's.",
    ),
    "BasinConfig": obj(
        {
            "default_stream_config": nullable(ref("PartialStreamConfig")),
            "stream_cipher": nullable(_CIPHER),
            "create_stream_on_append": BOOLEAN,
            "create_stream_on_read": BOOLEAN,
        },
        {
            "storage_class": {
                **_STORAGE_CLASS,
                "description": "That of default_stream_config; not in the S2 dialect.",
            }
        },
    ),
    "BasinInfo": obj(
        {
            "name": BASIN_NAME,
            "basin": BASIN_NAME,
            "location": nullable(TEXT),
            "created_at": DATE_TIME,
            "deleted_at": nullable(DATE_TIME),
            "state": words("active", "deleting"),
        }
    ),
    "Metrics": obj({"values": {"type": "array", "items": ref("Metric")}}),
    "Metric": {
        "oneOf": [
            obj({"accumulation": ref("Accumulation")}),
            obj({"gauge": ref("Gauge")}),
            obj({"label": ref("Label")}),
        ],
    },
    "Accumulation": obj(
        {
            "name": TEXT,
            "unit": _METRIC_UNIT,
            "interval": words("minute", "hour", "day"),
            "values": _METRIC_VALUES,
        },
        text="What was counted from each Unix second on; buckets with nothing are left out.",
    ),
    "Gauge": obj(
        {"name": TEXT, "unit": _METRIC_UNIT, "values": _METRIC_VALUES},
        text="One reading an interval, the last of it.",
    ),
    "Label": obj({"name": TEXT, "values": {"type": "array", "items": TEXT}}),
    "Location": obj({"name": LOCATION_NAME, "is_private": BOOLEAN}),
    "BasinList": obj({"basins": {"type": "array", "items": ref("BasinInfo")}, "has_more": BOOLEAN}),
    "StreamInfo": obj(
        {
            "name": STREAM_NAME,
            "created_at": DATE_TIME,
            "deleted_at": nullable(DATE_TIME),
            "cipher": nullable(_CIPHER),
        }
    ),
    "StreamList": obj(
        {"streams": {"type": "array", "items": ref("StreamInfo")}, "has_more": BOOLEAN}
    ),
    "WantedBasinConfig": obj(
        {},
        {
            "default_stream_config": nullable(ref("PartialStreamConfig")),
            "stream_cipher": nullable(_CIPHER),
            "create_stream_on_append": nullable(BOOLEAN),
            "create_stream_on_read": nullable(BOOLEAN),
            "storage_class": nullable(_STORAGE_CLASS),
        },
    ),
    "EnsureBasin": obj({}, {"config": nullable(ref("WantedBasinConfig")), "location": _LOCATION}),
    "BasinReconfiguration": {
        "allOf": [ref("WantedBasinConfig")],
        "description": (
            "A member that is absent is left alone, and so are the booleans that are null; all "
            "others are cleared by null."
        ),
    },
    "EnsureStream": {
        "oneOf": [
            {**ref("PartialStreamConfig"), "not": {"required": ["config"]}},
            obj({"config": nullable(ref("PartialStreamConfig"))}),
        ],
        "description": "The configuration itself, or an object that has nothing but it.",
    },
    "CreateBasin": obj(
        {"basin": BASIN_NAME},
        {
            "config": nullable(ref("WantedBasinConfig")),
            "location": _LOCATION,
        },
    ),
    "CreateStream": obj({"stream": STREAM_NAME}, {"config": nullable(ref("PartialStreamConfig"))}),
    "AppendInput": obj(
        {
            "records": {
                "type": "array",
                "minItems": 1,
                "maxItems": RECORDS_MAX,
                "items": obj(
                    {},
                    {
                        "timestamp": nullable(U64),
                        "headers": nullable(_HEADERS),
                        "body": nullable(TEXT),
                    },
                ),
            }
        },
        {
            "match_seq_num": nullable(U64),
            "fencing_token": nullable(
                {"type": "string", "maxLength": names.FENCING_TOKEN_BYTES_MAX}
            ),
        },
        "Names, values and bodies of records are base64 or text, as the format header says.",
    ),
    "AppendAck": obj({"start": ref("Position"), "end": ref("Position"), "tail": ref("Position")}),
    "ReadBatch": obj(
        {
            "records": {
                "type": "array",
                "maxItems": RECORDS_MAX,
                "items": obj(
                    {"seq_num": U64, "timestamp": U64}, {"headers": _HEADERS, "body": TEXT}
                ),
            }
        },
        {"tail": ref("Position")},
    ),
    "Version": obj({"name": TEXT, "version": TEXT}),
    "NameSet": {
        "description": "One name, or all that begin so. An empty `exact` is no name.",
        "oneOf": [obj({"exact": TEXT}), obj({"prefix": TEXT})],
    },
    "Halves": obj({}, {"read": nullable(BOOLEAN), "write": nullable(BOOLEAN)}),
    "AccessTokenScope": obj(
        {},
        {
            **dict.fromkeys(("basins", "streams", "access_tokens"), nullable(ref("NameSet"))),
            "op_groups": nullable(
                obj({}, dict.fromkeys(("account", "basin", "stream"), nullable(ref("Halves"))))
            ),
            "ops": nullable({"type": "array", "items": words(*(op.value for op in Op))}),
        },
        "A set that is left out holds nothing.",
    ),
    "IssueAccessToken": obj(
        {"id": TOKEN_ID, "scope": ref("AccessTokenScope")},
        {"auto_prefix_streams": nullable(BOOLEAN), "expires_at": nullable(DATE_TIME)},
    ),
    "IssuedAccessToken": obj({"access_token": TEXT}),
    "AccessTokenInfo": obj(
        {
            "id": TEXT,
            "expires_at": nullable(DATE_TIME),
            "auto_prefix_streams": BOOLEAN,
            "scope": ref("AccessTokenScope"),
        }
    ),
    "AccessTokenList": obj(
        {
            "access_tokens": {"type": "array", "items": ref("AccessTokenInfo")},
            "has_more": BOOLEAN,
        }
    ),
    "AppendConditionFailed": {
        "oneOf": [
            obj({"seq_num_mismatch": {**U64, "description": "The next sequence number."}}),
            obj({"fencing_token_mismatch": {**TEXT, "description": "The current token."}}),
        ],
        "description": "The one key alone, or beside those of an error in the seed dialect.",
    },
}


def error_schema(codes: Iterable[ErrorCode]) -> Schema:
    """The standard body of a refusal with one of `codes`."""
    return obj(
        {
            "error": {**TEXT, "description": "The seed dialect's word."},
            "code": words(*sorted(code.value for code in codes)),
            "message": {**TEXT, "minLength": 1},
            "may_have_taken_effect": {
                **BOOLEAN,
                "description": "Whether a write that was refused may have happened all the same.",
            },
        }
    )


RANGE_NOT_SATISFIABLE: Final = {
    "allOf": [ref("Tail"), error_schema([ErrorCode.RANGE_NOT_SATISFIABLE])]
}
