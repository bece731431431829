"""One example for each body that is asked with and each that is answered, in one story.

A basin `orders-eu` is made, a stream `invoices` in it, two records are appended and read. A test
plays the story to a server and holds its answers against these.
"""

from __future__ import annotations

from typing import Any, Final

from svc_cluster.base.errors import ErrorCode

BASIN: Final = "orders-eu"
STREAM: Final = "invoices"
TOKEN_ID: Final = "reader"

_CREATED: Final = "2026-01-05T09:00:00Z"
_AT_MS: Final = 1_767_603_600_000
_BASIN_INFO: Final = {
    "name": BASIN,
    "basin": BASIN,
    "location": "local",
    "created_at": _CREATED,
    "deleted_at": None,
    "state": "active",
}
_STREAM_INFO: Final = {
    "name": STREAM,
    "created_at": _CREATED,
    "deleted_at": None,
    "cipher": None,
}
_STREAM_CONFIG: Final = {
    "storage_class": "standard",
    "retention_policy": {"age": 86400},
    "timestamping": {"mode": "client-prefer", "uncapped": False},
    "delete_on_empty": {"min_age_secs": 0},
}
_BASIN_CONFIG: Final = {
    "default_stream_config": {
        "storage_class": None,
        "retention_policy": {"age": 86400},
        "timestamping": None,
        "delete_on_empty": None,
    },
    "stream_cipher": None,
    "create_stream_on_append": True,
    "create_stream_on_read": False,
    "storage_class": "standard",
}
_RECORDS: Final[list[dict[str, Any]]] = [
    {"headers": [["a2luZA==", "cGFpZA=="]], "body": "aW52b2ljZSAx"},
    {"body": "aW52b2ljZSAy"},
]
_TAIL: Final = {"seq_num": 2, "timestamp": _AT_MS}
_READ: Final = {
    "records": [
        {"seq_num": number, "timestamp": _AT_MS, **record} for number, record in enumerate(_RECORDS)
    ],
    "tail": _TAIL,
}
_NEITHER: Final = {"read": False, "write": False}
_SCOPE: Final = {
    "basins": {"exact": BASIN},
    "streams": {"prefix": ""},
    "ops": ["read", "check-tail"],
}

BODIES: Final[dict[str, Any]] = {
    "create-basin": {
        "basin": BASIN,
        "config": {"default_stream_config": {"retention_policy": {"age": 86400}}},
    },
    "ensure-basin": {
        "config": {"default_stream_config": {"retention_policy": {"age": 86400}}},
    },
    "reconfigure-basin": {"create_stream_on_append": True},
    "create-stream": {"stream": STREAM, "config": {"timestamping": {"mode": "client-prefer"}}},
    "ensure-stream": {"retention_policy": {"age": 3600}},
    "reconfigure-stream": {"retention_policy": {"age": 86400}},
    "append": {"records": _RECORDS, "match_seq_num": 0},
    "issue-access-token": {"id": TOKEN_ID, "scope": _SCOPE, "expires_at": "2099-12-31T00:00:00Z"},
    "issue-read-ticket": {"basin": BASIN, "streams": {"prefix": ""}, "expires_in_secs": 600},
    "set-default-location": "local",
}
"""What is sent, in JSON, by operation."""

_LOCATION: Final[dict[str, Any]] = {
    "name": "local",
    "is_private": False,
    "storage_classes": ["express", "standard"],
    "default_storage_class": "standard",
}

ANSWERS: Final[dict[str, Any]] = {
    "list-basins": {"basins": [_BASIN_INFO], "has_more": False},
    "create-basin": _BASIN_INFO,
    "get-basin-config": _BASIN_CONFIG,
    "ensure-basin": _BASIN_INFO,
    "reconfigure-basin": _BASIN_CONFIG,
    "list-streams": {"streams": [_STREAM_INFO], "has_more": False},
    "create-stream": _STREAM_INFO,
    "get-stream-config": _STREAM_CONFIG,
    "ensure-stream": _STREAM_INFO,
    "reconfigure-stream": _STREAM_CONFIG,
    "append": {"start": {"seq_num": 0, "timestamp": _AT_MS}, "end": _TAIL, "tail": _TAIL},
    "read": _READ,
    "check-tail": {"tail": _TAIL},
    "issue-access-token": {
        "access_token": "svct_iNqvOdhCW-YT4Lz6mfC-QhwLMS7yIbs_Q0R-BulA5hA34568a10"
    },
    "issue-read-ticket": {
        "read_ticket": (
            "svcr_AQAAAAAAAAAHAAABuNrFtAABCXRlbGVtZXRyeXNlbnNvcnMv4gJaBAWm4kC3crlV_QZ1A7B9yDzjhnij"
            "AFVZZUBysp459b3fc7f"
        ),
        "expires_at": "2030-01-01T00:00:00.000Z",
    },
    "list-access-tokens": {
        "access_tokens": [
            {
                "id": TOKEN_ID,
                "expires_at": "2099-12-31T00:00:00Z",
                "auto_prefix_streams": False,
                "scope": {
                    **_SCOPE,
                    "access_tokens": None,
                    "op_groups": dict.fromkeys(("account", "basin", "stream"), _NEITHER),
                },
            }
        ],
        "has_more": False,
    },
    "get-cluster": {
        "gateway": {"version": "0.3.0"},
        "nodes": [
            {
                "node_id": 1,
                "is_up": True,
                "host": "rack-7",
                "zone": "east",
                "state": "active",
                "version": "0.3.0",
                "groups": 2,
                "groups_led": 2,
                "groups_without_leader": 0,
                "groups_held": 0,
                "lag_entries": 0,
                "is_draining": False,
                "wal_bytes": 67_108_864,
                "free_bytes": 53_687_091_200,
                "takes_appends": True,
                "leads": ["", BASIN],
            }
        ],
    },
    "list-activity": {
        "events": [
            {
                "time": "2030-01-01T00:00:00.000Z",
                "operation": "create-basin",
                "token": "-",
                "address": "127.0.0.1",
                "basin": BASIN,
                "stream": None,
                "token_id": None,
                "location": None,
                "request_id": "f3b1c2d4",
                "status": 201,
                "code": None,
                "effect": "done",
                "outcome": "created",
            }
        ]
    },
    "list-locations": [_LOCATION],
    "get-default-location": _LOCATION,
    "set-default-location": _LOCATION,
    "account-metrics": {"values": [{"label": {"name": "active_basins", "values": [BASIN]}}]},
    "basin-metrics": {
        "values": [
            {
                "accumulation": {
                    "name": name,
                    "unit": "operations",
                    "interval": "minute",
                    "values": values,
                }
            }
            for name, values in (("standard", [[1_767_603_600, 1.0]]), ("express", []))
        ]
    },
    "stream-metrics": {
        "values": [
            {
                "gauge": {
                    "name": "stream_storage",
                    "unit": "bytes",
                    "values": [[1_767_603_600, 44.0]],
                }
            }
        ]
    },
    "health": "OK",
    "livez": "ok",
    "readyz": "ok",
    "metrics": "# TYPE svc_http_requests_in_flight gauge\n",
    "version": {"name": "svc-cluster", "version": "0.3.0"},
    "openapi": {"openapi": "3.1.0"},
    "docs": "<!doctype html>\n",
    "console": "<!doctype html>\n",
    "console-asset": "{",
    "protocol": 'syntax = "proto3";\n',
}
"""What is answered, in JSON or as text, by operation."""

EVENTS: Final = (
    "event: batch\n"
    "id: 1,2,44\n"
    'data: {"records":[{"seq_num":0,"timestamp":1767603600000,"headers":[["a2luZA==","cGFpZA=="]],'
    '"body":"aW52b2ljZSAx"},{"seq_num":1,"timestamp":1767603600000,"body":"aW52b2ljZSAy"}],'
    '"tail":{"seq_num":2,"timestamp":1767603600000}}\n'
    "\n"
    "data: [DONE]\n"
    "\n"
)
"""The same read as events."""

REFUSALS: Final[dict[ErrorCode, str]] = {
    ErrorCode.NOT_FOUND: "the console has no such file",
    ErrorCode.ACCESS_TOKEN_NOT_FOUND: "there is no access token `reader`",
    ErrorCode.APPEND_CONDITION_FAILED: "the next sequence number is 2",
    ErrorCode.AUTHN: "the access token is unknown or revoked",
    ErrorCode.BAD_HEADER: "svc-basin is missing",
    ErrorCode.BAD_JSON: "the body is empty",
    ErrorCode.BAD_PATH: "a basin's name has 8 to 48 bytes, this one has 3",
    ErrorCode.BAD_PROTO: "the body is no AppendInput",
    ErrorCode.BAD_QUERY: "the parameter `seq_num` is given twice",
    ErrorCode.BASIN_DELETION_PENDING: "the basin is being deleted",
    ErrorCode.BASIN_NOT_FOUND: "there is no basin `orders-eu`",
    ErrorCode.DECRYPTION_FAILED: "a record cannot be opened with the key in svc-encryption-key",
    ErrorCode.HOT_SERVER: "too many requests are in progress",
    ErrorCode.INVALID: "a batch has 1 to 1000 records, this one has 1001",
    ErrorCode.NOT_IMPLEMENTED: "nothing is billed",
    ErrorCode.OTHER: "internal",
    ErrorCode.PAYLOAD_TOO_LARGE: "a body has at most 65536 bytes, this one has 70013",
    ErrorCode.PERMISSION_DENIED: (
        "the access token does not allow `read` on the stream `invoices` of the basin `orders-eu`"
    ),
    ErrorCode.QUOTA_EXHAUSTED: "the account has as many basins as it may have",
    ErrorCode.RANGE_NOT_SATISFIABLE: "the start is behind the tail",
    ErrorCode.RATE_LIMITED: "the rate of the account is exhausted",
    ErrorCode.REQUEST_TIMEOUT: "the deadline passed",
    ErrorCode.RESOURCE_ALREADY_EXISTS: "there is one already",
    ErrorCode.SERVER_DRAINING: "the server is stopping; try another",
    ErrorCode.STREAM_DELETION_PENDING: "the stream is being deleted",
    ErrorCode.STREAM_NOT_FOUND: "there is no stream `invoices`",
    ErrorCode.TRANSACTION_CONFLICT: "something else changed it meanwhile",
    ErrorCode.UNAVAILABLE: "nobody leads the basin at the moment",
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: "the Content-Encoding is `gzip` or `zstd`, not `br`",
}
"""What a message may say, by code; the words are not promised."""
