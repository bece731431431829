"""The objects of the wire as JSON Schema. The limits are those that the code checks by; bodies that
are asked with are made of the types that they are decoded into (codec_types.py)."""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.codec.batch_rules import RECORDS_MAX, U64_MAX
from svc_cluster.gateway.openapi.codec_types import schemas_of_types
from svc_cluster.gateway.openapi.media_schemas import MEDIA_SCHEMAS
from svc_cluster.gateway.request.endpoint import Schema
from svc_cluster.gateway.request.error_answers import SIDE_EFFECTS_HEADER
from svc_cluster.model import names
from svc_cluster.model.access import Op
from svc_cluster.model.replication import REPLICATION_FACTORS
from svc_cluster.model.stream_config import STORAGE_CLASSES, STREAM_SETTINGS, SettingKind
from svc_cluster.model.ticket_request import TICKET_SECONDS_MAX


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

_STORAGE_CLASS: Final[Schema] = {
    "type": "string",
    "description": "One of the storage classes of the locations: " + ", ".join(STORAGE_CLASSES),
}
_MODE: Final = words("client-prefer", "client-require", "arrival")
LOCATION_NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "pattern": "^[A-Za-z0-9:.-]+$",
}
_LOCATION: Final[Schema] = {
    **LOCATION_NAME,
    "description": "One of those there are; the default where none is named.",
}
_FACTOR: Final[Schema] = {
    "enum": list(REPLICATION_FACTORS),
    "description": "Replicas of the basin; the cluster's setting where none is named.",
}
_CIPHER: Final = words("aegis-256", "aes-256-gcm")
_HEADERS: Final[Schema] = {
    "type": "array",
    "items": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2},
    "description": "Pairs of name and value, in order.",
}

_SETTING_KINDS: Final[dict[SettingKind, Schema]] = {
    SettingKind.WORD: _STORAGE_CLASS,
    SettingKind.RETENTION: ref("Retention"),
    SettingKind.TIMESTAMPING_MODE: _MODE,
    SettingKind.FLAG: BOOLEAN,
    SettingKind.SECONDS: U64,
}


def _settings(*, late: bool) -> dict[str, Schema]:
    """The members of a stream's whole configuration, made of the list of its settings.

    With `late` those of later versions, which are told where they say something; else all others.
    """
    members: dict[str, Schema] = {}
    objects: dict[str, dict[str, Schema]] = {}
    for setting in STREAM_SETTINGS:
        if setting.is_late is not late:
            continue
        schema = _SETTING_KINDS[setting.kind]
        if len(setting.path) == 1:
            members[setting.path[0]] = schema
            continue
        inner = objects.setdefault(setting.path[0], {})
        inner[setting.path[1]] = schema
        members[setting.path[0]] = obj(inner)
    return members


_REFINED: Final[dict[str, dict[str, Schema]]] = {
    "CreateBasin": {"basin": BASIN_NAME, "location": _LOCATION, "replication_factor": _FACTOR},
    "EnsureBasin": {"location": _LOCATION, "replication_factor": _FACTOR},
    "CreateStream": {"stream": STREAM_NAME},
    "AppendInput": {
        "records": {"minItems": 1, "maxItems": RECORDS_MAX},
        "fencing_token": {"maxLength": names.FENCING_TOKEN_BYTES_MAX},
    },
    "AppendRecord": {"headers": _HEADERS},
    "AccessTokenScope": {"ops": {"items": words(*(op.value for op in Op))}},
    "IssueAccessToken": {"id": TOKEN_ID, "expires_at": DATE_TIME},
    "IssueReadTicket": {
        "basin": BASIN_NAME,
        "expires_in_secs": {
            "minimum": 1,
            "maximum": TICKET_SECONDS_MAX,
            "default": TICKET_SECONDS_MAX,
        },
    },
}
"""What the types of the bodies that are asked with do not say of their members."""

_TEXTS: Final = {
    "PartialStreamConfig": (
        "A member that is null or absent falls back to the basin's default, then to the system's."
    ),
    "AppendRecord": "Names, values and body are base64 or text, as the format header says.",
    "AccessTokenScope": "A set that is left out holds nothing.",
}

COMPONENTS: Final[dict[str, Schema]] = {
    **schemas_of_types(_REFINED, _TEXTS, U64),
    "Position": obj(
        {"seq_num": U64, "timestamp": {**U64, "description": "Unix milliseconds."}},
    ),
    "Tail": obj({"tail": ref("Position")}),
    "Retention": {"oneOf": [ref("RetentionAge"), ref("RetentionInfinite")]},
    "RetentionAge": obj({"age": {**U64, "minimum": 1, "description": "Seconds."}}),
    "RetentionInfinite": obj({"infinite": ref("Infinite")}),
    "Infinite": obj({}, text="For ever: it has no members."),
    "StreamConfig": obj(_settings(late=False), _settings(late=True)),
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
    "Cluster": obj(
        {
            "gateway": obj({"version": TEXT}),
            "nodes": {"type": "array", "items": ref("Node")},
        }
    ),
    "Node": obj(
        {"node_id": U64, "is_up": BOOLEAN},
        {
            "host": {"type": "string", "description": "Empty where the node does not say it."},
            "zone": {"type": "string", "description": "Empty where the node does not say it."},
            "state": words("active", "draining"),
            "version": TEXT,
            **dict.fromkeys(("groups", "groups_led", "groups_without_leader", "groups_held"), U64),
            "lag_entries": {**U64, "description": "Committed and not applied, of the worst group."},
            "is_draining": BOOLEAN,
            **dict.fromkeys(("wal_bytes", "free_bytes"), U64),
            "takes_appends": BOOLEAN,
            "leads": {
                "type": "array",
                "items": TEXT,
                "description": "Basins, the first thousand; the empty name is the catalog's.",
            },
        },
        text="Of a node that does not answer only what stands before `version`: host, zone and "
        "state are the catalog's, and left out while no node tells it.",
    ),
    "Activity": obj({"events": {"type": "array", "items": {"type": "object"}}}),
    "Location": obj(
        {
            "name": LOCATION_NAME,
            "is_private": BOOLEAN,
            "storage_classes": {
                "type": "array",
                "items": TEXT,
                "description": "Those that streams of its basins can have.",
            },
            "default_storage_class": {
                "type": "string",
                "description": "That of a stream where nobody names one, in this dialect.",
            },
        }
    ),
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
    "ReadPing": obj(
        {"timestamp": {**U64, "description": "Unix milliseconds."}, "tail": ref("Position")},
        text="The data of an event `ping`.",
    ),
    **MEDIA_SCHEMAS,
    "Version": obj({"name": TEXT, "version": TEXT}),
    "NameSet": {
        "description": "One name, or all that begin so. An empty `exact` is no name.",
        "oneOf": [obj({"exact": TEXT}), obj({"prefix": TEXT})],
    },
    "IssuedAccessToken": obj({"access_token": TEXT}),
    "IssuedReadTicket": obj({"read_ticket": TEXT, "expires_at": DATE_TIME}),
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
    "Error": obj(
        {
            "error": {**TEXT, "description": "The seed dialect's word."},
            "code": words(*sorted(code.value for code in ErrorCode)),
            "message": {**TEXT, "minLength": 1},
            "may_have_taken_effect": {
                **BOOLEAN,
                "description": "Whether a write that was refused may have happened all the same.",
            },
        },
        text="Every refusal's body; the refusal's description names the codes it may have.",
    ),
    "RangeNotSatisfiable": {"allOf": [ref("Tail"), ref("Error")]},
}

HEADERS: Final[dict[str, Schema]] = {
    SIDE_EFFECTS_HEADER: {
        "description": "Whether a write that was refused may have happened all the same.",
        "schema": words("none", "possible"),
    },
    "retry-after-ms": {
        "description": (
            "After so many milliseconds another try may do; not where the write may have happened."
        ),
        "schema": U64,
    },
    "retry-after": {"description": "The same, in whole seconds, rounded up.", "schema": U64},
    "www-authenticate": {
        "description": (
            "What is asked for: a token, and where one was given, what is wrong with it (RFC 6750)."
        ),
        "schema": TEXT,
    },
}
"""What refusals say beside their bodies."""
