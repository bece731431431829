from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NameSet(_message.Message):
    __slots__ = ("value", "is_prefix")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    IS_PREFIX_FIELD_NUMBER: _ClassVar[int]
    value: str
    is_prefix: bool
    def __init__(self, value: _Optional[str] = ..., is_prefix: _Optional[bool] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("basins", "streams", "access_tokens", "groups", "ops")
    BASINS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    basins: NameSet
    streams: NameSet
    access_tokens: NameSet
    groups: _containers.RepeatedScalarFieldContainer[bool]
    ops: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, basins: _Optional[_Union[NameSet, _Mapping]] = ..., streams: _Optional[_Union[NameSet, _Mapping]] = ..., access_tokens: _Optional[_Union[NameSet, _Mapping]] = ..., groups: _Optional[_Iterable[bool]] = ..., ops: _Optional[_Iterable[str]] = ...) -> None: ...

class Expiry(_message.Message):
    __slots__ = ("text", "unix_ns")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    text: str
    unix_ns: int
    def __init__(self, text: _Optional[str] = ..., unix_ns: _Optional[int] = ...) -> None: ...

class AccessToken(_message.Message):
    __slots__ = ("serial", "token_id", "secret_hash", "parent", "scope", "auto_prefix_streams", "name_prefix", "expires_at")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    AUTO_PREFIX_STREAMS_FIELD_NUMBER: _ClassVar[int]
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    serial: int
    token_id: str
    secret_hash: bytes
    parent: int
    scope: Scope
    auto_prefix_streams: bool
    name_prefix: str
    expires_at: Expiry
    def __init__(self, serial: _Optional[int] = ..., token_id: _Optional[str] = ..., secret_hash: _Optional[bytes] = ..., parent: _Optional[int] = ..., scope: _Optional[_Union[Scope, _Mapping]] = ..., auto_prefix_streams: _Optional[bool] = ..., name_prefix: _Optional[str] = ..., expires_at: _Optional[_Union[Expiry, _Mapping]] = ...) -> None: ...
