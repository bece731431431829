from svc_cluster._pb.cluster.v1 import trace_pb2 as _trace_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerEnvelope(_message.Message):
    __slots__ = ("messages", "wall_ms")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[GroupMessage]
    wall_ms: int
    def __init__(self, messages: _Optional[_Iterable[_Union[GroupMessage, _Mapping]]] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class PeerBatch(_message.Message):
    __slots__ = ("messages", "wall_ms")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    wall_ms: int
    def __init__(self, messages: _Optional[_Iterable[bytes]] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class GroupMessage(_message.Message):
    __slots__ = ("group_id", "sender_term", "append_request", "append_response", "vote_request", "vote_granted", "pre_vote_request", "pre_vote_response", "stale_term", "timeout_now", "state_mark", "scrub_question", "scrub_answer", "scrub_verdict", "entry_traces", "ended", "rest_mark", "beat", "rest_list")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_TERM_FIELD_NUMBER: _ClassVar[int]
    APPEND_REQUEST_FIELD_NUMBER: _ClassVar[int]
    APPEND_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_GRANTED_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STALE_TERM_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    STATE_MARK_FIELD_NUMBER: _ClassVar[int]
    SCRUB_QUESTION_FIELD_NUMBER: _ClassVar[int]
    SCRUB_ANSWER_FIELD_NUMBER: _ClassVar[int]
    SCRUB_VERDICT_FIELD_NUMBER: _ClassVar[int]
    ENTRY_TRACES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    REST_MARK_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    REST_LIST_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    sender_term: int
    append_request: AppendRequest
    append_response: AppendResponse
    vote_request: VoteRequest
    vote_granted: VoteGranted
    pre_vote_request: PreVoteRequest
    pre_vote_response: PreVoteResponse
    stale_term: StaleTerm
    timeout_now: TimeoutNow
    state_mark: StateMark
    scrub_question: ScrubQuestion
    scrub_answer: ScrubAnswer
    scrub_verdict: ScrubVerdict
    entry_traces: EntryTraces
    ended: Ended
    rest_mark: RestMark
    beat: Beat
    rest_list: RestList
    def __init__(self, group_id: _Optional[int] = ..., sender_term: _Optional[int] = ..., append_request: _Optional[_Union[AppendRequest, _Mapping]] = ..., append_response: _Optional[_Union[AppendResponse, _Mapping]] = ..., vote_request: _Optional[_Union[VoteRequest, _Mapping]] = ..., vote_granted: _Optional[_Union[VoteGranted, _Mapping]] = ..., pre_vote_request: _Optional[_Union[PreVoteRequest, _Mapping]] = ..., pre_vote_response: _Optional[_Union[PreVoteResponse, _Mapping]] = ..., stale_term: _Optional[_Union[StaleTerm, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., state_mark: _Optional[_Union[StateMark, _Mapping]] = ..., scrub_question: _Optional[_Union[ScrubQuestion, _Mapping]] = ..., scrub_answer: _Optional[_Union[ScrubAnswer, _Mapping]] = ..., scrub_verdict: _Optional[_Union[ScrubVerdict, _Mapping]] = ..., entry_traces: _Optional[_Union[EntryTraces, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., rest_mark: _Optional[_Union[RestMark, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., rest_list: _Optional[_Union[RestList, _Mapping]] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("previous_index", "previous_term", "commit_index", "read_sequence", "entries")
    PREVIOUS_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    READ_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    previous_index: int
    previous_term: int
    commit_index: int
    read_sequence: int
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, previous_index: _Optional[int] = ..., previous_term: _Optional[int] = ..., commit_index: _Optional[int] = ..., read_sequence: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("term", "payload")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    term: int
    payload: bytes
    def __init__(self, term: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("next_index", "success", "reset", "read_sequence", "recovery")
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    READ_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    next_index: int
    success: bool
    reset: bool
    read_sequence: int
    recovery: int
    def __init__(self, next_index: _Optional[int] = ..., success: _Optional[bool] = ..., reset: _Optional[bool] = ..., read_sequence: _Optional[int] = ..., recovery: _Optional[int] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("last_index", "last_term")
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    last_index: int
    last_term: int
    def __init__(self, last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class VoteGranted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PreVoteRequest(_message.Message):
    __slots__ = ("next_term", "last_index", "last_term")
    NEXT_TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    next_term: int
    last_index: int
    last_term: int
    def __init__(self, next_term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class PreVoteResponse(_message.Message):
    __slots__ = ("next_term", "granted")
    NEXT_TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    next_term: int
    granted: bool
    def __init__(self, next_term: _Optional[int] = ..., granted: _Optional[bool] = ...) -> None: ...

class StaleTerm(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StateMark(_message.Message):
    __slots__ = ("log_index", "digest", "kind", "encoding", "scrub")
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    log_index: int
    digest: int
    kind: int
    encoding: int
    scrub: int
    def __init__(self, log_index: _Optional[int] = ..., digest: _Optional[int] = ..., kind: _Optional[int] = ..., encoding: _Optional[int] = ..., scrub: _Optional[int] = ...) -> None: ...

class ScrubQuestion(_message.Message):
    __slots__ = ("version", "encoding", "chunk", "log_index", "after", "cost_max", "round", "covered", "completed_round", "completed_ago_ms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    COST_MAX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_ROUND_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AGO_MS_FIELD_NUMBER: _ClassVar[int]
    version: int
    encoding: int
    chunk: int
    log_index: int
    after: bytes
    cost_max: int
    round: int
    covered: bool
    completed_round: int
    completed_ago_ms: int
    def __init__(self, version: _Optional[int] = ..., encoding: _Optional[int] = ..., chunk: _Optional[int] = ..., log_index: _Optional[int] = ..., after: _Optional[bytes] = ..., cost_max: _Optional[int] = ..., round: _Optional[int] = ..., covered: _Optional[bool] = ..., completed_round: _Optional[int] = ..., completed_ago_ms: _Optional[int] = ...) -> None: ...

class ScrubAnswer(_message.Message):
    __slots__ = ("version", "encoding", "chunk", "outcome", "end", "digest", "rows", "flawed", "copied_from")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FLAWED_FIELD_NUMBER: _ClassVar[int]
    COPIED_FROM_FIELD_NUMBER: _ClassVar[int]
    version: int
    encoding: int
    chunk: int
    outcome: int
    end: bytes
    digest: int
    rows: int
    flawed: bool
    copied_from: int
    def __init__(self, version: _Optional[int] = ..., encoding: _Optional[int] = ..., chunk: _Optional[int] = ..., outcome: _Optional[int] = ..., end: _Optional[bytes] = ..., digest: _Optional[int] = ..., rows: _Optional[int] = ..., flawed: _Optional[bool] = ..., copied_from: _Optional[int] = ...) -> None: ...

class ScrubVerdict(_message.Message):
    __slots__ = ("version", "encoding", "chunk", "end", "digest", "rows")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    version: int
    encoding: int
    chunk: int
    end: bytes
    digest: int
    rows: int
    def __init__(self, version: _Optional[int] = ..., encoding: _Optional[int] = ..., chunk: _Optional[int] = ..., end: _Optional[bytes] = ..., digest: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class EntryTraces(_message.Message):
    __slots__ = ("log_index", "traces")
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    TRACES_FIELD_NUMBER: _ClassVar[int]
    log_index: int
    traces: _containers.RepeatedCompositeFieldContainer[_trace_pb2.TraceContext]
    def __init__(self, log_index: _Optional[int] = ..., traces: _Optional[_Iterable[_Union[_trace_pb2.TraceContext, _Mapping]]] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("configuration",)
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    configuration: bytes
    def __init__(self, configuration: _Optional[bytes] = ...) -> None: ...

class RestMark(_message.Message):
    __slots__ = ("kind", "log_index", "number")
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    kind: int
    log_index: int
    number: int
    def __init__(self, kind: _Optional[int] = ..., log_index: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("boot", "count", "digest", "lists")
    BOOT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    boot: int
    count: int
    digest: int
    lists: bool
    def __init__(self, boot: _Optional[int] = ..., count: _Optional[int] = ..., digest: _Optional[int] = ..., lists: _Optional[bool] = ...) -> None: ...

class RestList(_message.Message):
    __slots__ = ("groups", "terms")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    terms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, groups: _Optional[_Iterable[int]] = ..., terms: _Optional[_Iterable[int]] = ...) -> None: ...
