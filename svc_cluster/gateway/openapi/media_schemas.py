"""Bodies that are no JSON: messages of protobuf, the frames of sessions, events.

JSON Schema only says that they are bytes or text; what they are made of stands in words, and in the
`.proto` file, which the server gives away itself.
"""

from __future__ import annotations

from typing import Final

from svc_cluster.gateway.request.endpoint import Schema

PROTO_PATH: Final = "/proto/s2/v1/s2.proto"
"""Where the file is, on this server and in the repository."""

_FRAMES: Final = (
    "A frame is a length of 3 bytes (big-endian, of what follows, at most 2 MiB), a byte of flags "
    "and a payload. Flags: 0x80 the last frame, with 2 bytes of status (big-endian) and an Error "
    "in JSON as payload, never compressed; 0x60 the payload's compression (0x00 none, 0x20 zstd, "
    "0x40 gzip); 0x10 connect anew, this server stops. A payload is one message."
)


def _message(name: str, text: str = "") -> Schema:
    return {
        "type": "string",
        "format": "binary",
        "description": text or f"One message `s2.v1.{name}`.",
        "externalDocs": {"description": f"message {name}", "url": PROTO_PATH},
    }


def _frames(name: str, text: str) -> Schema:
    return _message(name, f"Frames with a message `s2.v1.{name}` each. {text} {_FRAMES}")


MEDIA_SCHEMAS: Final[dict[str, Schema]] = {
    "AppendInputMessage": _message("AppendInput"),
    "AppendAckMessage": _message("AppendAck"),
    "ReadBatchMessage": _message("ReadBatch"),
    "AppendInputFrames": _frames(
        "AppendInput",
        "The client may send the next before the one before is acknowledged, and ends the session "
        "by ending the body.",
    ),
    "AppendAckFrames": _frames(
        "AppendAck",
        "The answer's head comes before the first frame is sent, then one acknowledgement for each "
        "input in order. The first input that fails ends the session.",
    ),
    "ReadBatchFrames": _frames(
        "ReadBatch",
        "A batch without records is a heartbeat and has the tail: on entering the tail, and after "
        "5 to 15 seconds of silence.",
    ),
    "ReadEvents": {
        # no type: some take it for that of the text, others for that of each event
        "description": (
            "Server-sent events. `batch`: the data is a ReadBatch, the id is "
            "`<last seq_num>,<records>,<metered bytes>`, both counted from the beginning of the "
            "read, and goes into `last-event-id` to go on behind it. `ping`: the data is a "
            "ReadPing, on entering the tail and after 5 to 15 seconds of silence. `error`: the "
            "data is an Error, and nothing follows. At the end the data is `[DONE]`."
        ),
        "contentMediaType": "text/event-stream",
        # of each event's data; OpenAPI 3.1 has no member for that
        "x-events": {
            name: {"$ref": f"#/components/schemas/{schema}"}
            for name, schema in (("batch", "ReadBatch"), ("ping", "ReadPing"), ("error", "Error"))
        },
    },
}
"""By what the document calls them."""
