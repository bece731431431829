from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Retention(_message.Message):
    __slots__ = ("age_seconds",)
    AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    age_seconds: int
    def __init__(self, age_seconds: _Optional[int] = ...) -> None: ...

class PartialStreamConfig(_message.Message):
    __slots__ = ("storage_class", "retention", "timestamping_mode", "timestamping_uncapped", "delete_on_empty_min_age_seconds", "shared_caching")
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPING_MODE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPING_UNCAPPED_FIELD_NUMBER: _ClassVar[int]
    DELETE_ON_EMPTY_MIN_AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SHARED_CACHING_FIELD_NUMBER: _ClassVar[int]
    storage_class: str
    retention: Retention
    timestamping_mode: int
    timestamping_uncapped: bool
    delete_on_empty_min_age_seconds: int
    shared_caching: bool
    def __init__(self, storage_class: _Optional[str] = ..., retention: _Optional[_Union[Retention, _Mapping]] = ..., timestamping_mode: _Optional[int] = ..., timestamping_uncapped: _Optional[bool] = ..., delete_on_empty_min_age_seconds: _Optional[int] = ..., shared_caching: _Optional[bool] = ...) -> None: ...

class BasinConfig(_message.Message):
    __slots__ = ("default_stream_config", "stream_cipher", "create_stream_on_append", "create_stream_on_read")
    DEFAULT_STREAM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    STREAM_CIPHER_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_ON_APPEND_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_ON_READ_FIELD_NUMBER: _ClassVar[int]
    default_stream_config: PartialStreamConfig
    stream_cipher: str
    create_stream_on_append: bool
    create_stream_on_read: bool
    def __init__(self, default_stream_config: _Optional[_Union[PartialStreamConfig, _Mapping]] = ..., stream_cipher: _Optional[str] = ..., create_stream_on_append: _Optional[bool] = ..., create_stream_on_read: _Optional[bool] = ...) -> None: ...

class StreamPatch(_message.Message):
    __slots__ = ("set", "cleared")
    SET_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    set: PartialStreamConfig
    cleared: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, set: _Optional[_Union[PartialStreamConfig, _Mapping]] = ..., cleared: _Optional[_Iterable[int]] = ...) -> None: ...

class BasinPatch(_message.Message):
    __slots__ = ("default_stream_config", "clear_default_stream_config", "stream_cipher", "clear_stream_cipher", "create_stream_on_append", "create_stream_on_read")
    DEFAULT_STREAM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CLEAR_DEFAULT_STREAM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    STREAM_CIPHER_FIELD_NUMBER: _ClassVar[int]
    CLEAR_STREAM_CIPHER_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_ON_APPEND_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_ON_READ_FIELD_NUMBER: _ClassVar[int]
    default_stream_config: StreamPatch
    clear_default_stream_config: bool
    stream_cipher: str
    clear_stream_cipher: bool
    create_stream_on_append: bool
    create_stream_on_read: bool
    def __init__(self, default_stream_config: _Optional[_Union[StreamPatch, _Mapping]] = ..., clear_default_stream_config: _Optional[bool] = ..., stream_cipher: _Optional[str] = ..., clear_stream_cipher: _Optional[bool] = ..., create_stream_on_append: _Optional[bool] = ..., create_stream_on_read: _Optional[bool] = ...) -> None: ...
