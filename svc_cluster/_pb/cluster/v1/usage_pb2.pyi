from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Report(_message.Message):
    __slots__ = ("reporter", "sequence", "minutes")
    REPORTER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MINUTES_FIELD_NUMBER: _ClassVar[int]
    reporter: bytes
    sequence: int
    minutes: _containers.RepeatedCompositeFieldContainer[Counts]
    def __init__(self, reporter: _Optional[bytes] = ..., sequence: _Optional[int] = ..., minutes: _Optional[_Iterable[_Union[Counts, _Mapping]]] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("at", "append_ops_standard", "append_ops_express", "append_bytes_standard", "append_bytes_express", "read_ops_unary", "read_ops_streaming", "read_bytes", "ops")
    AT_FIELD_NUMBER: _ClassVar[int]
    APPEND_OPS_STANDARD_FIELD_NUMBER: _ClassVar[int]
    APPEND_OPS_EXPRESS_FIELD_NUMBER: _ClassVar[int]
    APPEND_BYTES_STANDARD_FIELD_NUMBER: _ClassVar[int]
    APPEND_BYTES_EXPRESS_FIELD_NUMBER: _ClassVar[int]
    READ_OPS_UNARY_FIELD_NUMBER: _ClassVar[int]
    READ_OPS_STREAMING_FIELD_NUMBER: _ClassVar[int]
    READ_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    at: int
    append_ops_standard: int
    append_ops_express: int
    append_bytes_standard: int
    append_bytes_express: int
    read_ops_unary: int
    read_ops_streaming: int
    read_bytes: int
    ops: _containers.RepeatedCompositeFieldContainer[OpCount]
    def __init__(self, at: _Optional[int] = ..., append_ops_standard: _Optional[int] = ..., append_ops_express: _Optional[int] = ..., append_bytes_standard: _Optional[int] = ..., append_bytes_express: _Optional[int] = ..., read_ops_unary: _Optional[int] = ..., read_ops_streaming: _Optional[int] = ..., read_bytes: _Optional[int] = ..., ops: _Optional[_Iterable[_Union[OpCount, _Mapping]]] = ...) -> None: ...

class OpCount(_message.Message):
    __slots__ = ("op", "count")
    OP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    op: str
    count: int
    def __init__(self, op: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
