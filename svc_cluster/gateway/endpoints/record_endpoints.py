"""Records.

What they need has no more to do with the mode (unary, session, events) than with the format: all
modes are one operation. A stream that is made because records are appended to it, or read, needs
nothing beyond that.
"""

from __future__ import annotations

from typing import Final

from svc_cluster.base.errors import ErrorCode
from svc_cluster.codec.batch_rules import U64_MAX
from svc_cluster.gateway.api import records
from svc_cluster.gateway.openapi.schemas import BOOLEAN, TEXT, U64, ref
from svc_cluster.gateway.openapi.vocabulary import (
    BODY_ERRORS,
    FORMAT,
    FORMATS,
    KEYS,
    REQUEST_TOKEN_HEADER,
    STREAM_CONFIGS,
    STREAM_ERRORS,
    TICKET,
    frames_of,
    header,
    input_of,
    output_of,
    query,
)
from svc_cluster.gateway.request.endpoint import Description, Endpoint, Moves, Names, Need, of_basin
from svc_cluster.gateway.request.negotiation import EVENT_STREAM
from svc_cluster.http.message import JSON
from svc_cluster.model.access import Op

RECORDS: Final = (
    Endpoint(
        operation="read",
        method="GET",
        paths=(
            "/v1/streams/{stream}/records",
            "/v1/basins/{basin}/streams/{stream}/read",
        ),
        handler=records.read,
        need=Need(Names.STREAM, (Op.READ,)),
        moves=Moves.READ,
        takes_stored_names=True,
        takes_ticket=True,
        description=Description(
            summary="Read records once, as server-sent events, or as a session",
            status=200,
            may_be_unmodified=True,
            answer={
                JSON: ref("ReadBatch"),
                **output_of("ReadBatch"),
                EVENT_STREAM: ref("ReadEvents"),
                **frames_of("ReadBatch"),
            },
            parameters=(
                query("seq_num", U64, "Start at this sequence number."),
                query("timestamp", U64, "Start at the first record not before this time."),
                query("tail_offset", U64, "Start so many records before the tail."),
                query("clamp", BOOLEAN, "Start at the tail where the start is beyond it."),
                query("count", U64, "Records at most."),
                query("bytes", U64, "Metered bytes at most."),
                query("until", U64, "Only records before this time."),
                query(
                    "wait",
                    {**U64, "maximum": min(U64_MAX, 2**32 - 1)},
                    "Seconds to wait at the tail.",
                ),
                FORMAT,
                TICKET,
                header("last-event-id", TEXT, "Of the last event seen, to go on behind it."),
                header("if-none-match", TEXT, "The tag of an answer that the client has."),
                *STREAM_CONFIGS,
                *KEYS,
                *FORMATS,
            ),
            errors=(
                ErrorCode.BAD_PATH,
                ErrorCode.BAD_QUERY,
                ErrorCode.INVALID,
                *STREAM_ERRORS,
                ErrorCode.DECRYPTION_FAILED,
                ErrorCode.TRANSACTION_CONFLICT,
                ErrorCode.RANGE_NOT_SATISFIABLE,
            ),
        ),
    ),
    Endpoint(
        operation="append",
        method="POST",
        paths=(
            "/v1/streams/{stream}/records",
            "/v1/basins/{basin}/streams/{stream}/append",
        ),
        handler=records.append,
        # which of the three is known with the records: `require_append`
        need=Need(Names.STREAM, any_of=(Op.APPEND, Op.FENCE, Op.TRIM)),
        moves=Moves.APPENDED,
        description=Description(
            summary="Append a batch of records, all or none, or a session of batches",
            status=200,
            answer={
                JSON: ref("AppendAck"),
                **output_of("AppendAck"),
                **frames_of("AppendAck"),
            },
            body={
                JSON: ref("AppendInput"),
                **input_of("AppendInput"),
                **frames_of("AppendInput"),
            },
            parameters=(REQUEST_TOKEN_HEADER, *STREAM_CONFIGS, *KEYS, *FORMATS),
            errors=(
                *BODY_ERRORS,
                ErrorCode.BAD_PROTO,
                ErrorCode.BAD_PATH,
                *STREAM_ERRORS,
                ErrorCode.TRANSACTION_CONFLICT,
                ErrorCode.APPEND_CONDITION_FAILED,
                ErrorCode.QUOTA_EXHAUSTED,
            ),
        ),
    ),
    Endpoint(
        operation="check-tail",
        method="GET",
        paths=(
            "/v1/streams/{stream}/records/tail",
            "/v1/basins/{basin}/streams/{stream}/tail",
        ),
        handler=records.check_tail,
        need=Need(Names.STREAM, (Op.CHECK_TAIL,)),
        counted=of_basin(Op.CHECK_TAIL),
        takes_stored_names=True,
        takes_ticket=True,
        description=Description(
            summary="Where the next record will go",
            status=200,
            answer={JSON: ref("Tail")},
            parameters=(TICKET, *STREAM_CONFIGS),
            errors=(
                ErrorCode.BAD_PATH,
                ErrorCode.INVALID,
                *STREAM_ERRORS,
                ErrorCode.TRANSACTION_CONFLICT,
            ),
        ),
    ),
)
