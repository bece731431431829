from svc_cluster._pb.cluster.v1 import config_pb2 as _config_pb2
from svc_cluster._pb.cluster.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogEntry(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("append", "bootstrap", "create_stream", "expire_prefix", "delete_stream", "purge_stream", "seal", "configure_basin", "configure_stream", "delete_empty_stream", "keyed_write", "expire_outcomes", "count_usage", "report_usage", "keep_usage", "freeze_basin")
    APPEND_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_PREFIX_FIELD_NUMBER: _ClassVar[int]
    DELETE_STREAM_FIELD_NUMBER: _ClassVar[int]
    PURGE_STREAM_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_BASIN_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_STREAM_FIELD_NUMBER: _ClassVar[int]
    DELETE_EMPTY_STREAM_FIELD_NUMBER: _ClassVar[int]
    KEYED_WRITE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    COUNT_USAGE_FIELD_NUMBER: _ClassVar[int]
    REPORT_USAGE_FIELD_NUMBER: _ClassVar[int]
    KEEP_USAGE_FIELD_NUMBER: _ClassVar[int]
    FREEZE_BASIN_FIELD_NUMBER: _ClassVar[int]
    append: Append
    bootstrap: Bootstrap
    create_stream: CreateStream
    expire_prefix: ExpirePrefix
    delete_stream: DeleteStream
    purge_stream: PurgeStream
    seal: Seal
    configure_basin: ConfigureBasin
    configure_stream: ConfigureStream
    delete_empty_stream: DeleteEmptyStream
    keyed_write: IdempotentWrite
    expire_outcomes: ExpireIdempotencyKeys
    count_usage: CountUsage
    report_usage: ReportUsage
    keep_usage: KeepUsage
    freeze_basin: FreezeBasin
    def __init__(self, append: _Optional[_Union[Append, _Mapping]] = ..., bootstrap: _Optional[_Union[Bootstrap, _Mapping]] = ..., create_stream: _Optional[_Union[CreateStream, _Mapping]] = ..., expire_prefix: _Optional[_Union[ExpirePrefix, _Mapping]] = ..., delete_stream: _Optional[_Union[DeleteStream, _Mapping]] = ..., purge_stream: _Optional[_Union[PurgeStream, _Mapping]] = ..., seal: _Optional[_Union[Seal, _Mapping]] = ..., configure_basin: _Optional[_Union[ConfigureBasin, _Mapping]] = ..., configure_stream: _Optional[_Union[ConfigureStream, _Mapping]] = ..., delete_empty_stream: _Optional[_Union[DeleteEmptyStream, _Mapping]] = ..., keyed_write: _Optional[_Union[IdempotentWrite, _Mapping]] = ..., expire_outcomes: _Optional[_Union[ExpireIdempotencyKeys, _Mapping]] = ..., count_usage: _Optional[_Union[CountUsage, _Mapping]] = ..., report_usage: _Optional[_Union[ReportUsage, _Mapping]] = ..., keep_usage: _Optional[_Union[KeepUsage, _Mapping]] = ..., freeze_basin: _Optional[_Union[FreezeBasin, _Mapping]] = ...) -> None: ...

class Append(_message.Message):
    __slots__ = ("stream_id", "first_seq_num", "record_count", "metered_bytes", "base_timestamp_ms", "arrival_ms", "start_timestamp_ms", "last_timestamp_ms", "timestamping_mode", "uncapped", "expires_at_ms", "match_seq_num", "fencing_token", "command_records", "records", "op_units")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    METERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BASE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_MS_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPING_MODE_FIELD_NUMBER: _ClassVar[int]
    UNCAPPED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MATCH_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COMMAND_RECORDS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    OP_UNITS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    first_seq_num: int
    record_count: int
    metered_bytes: int
    base_timestamp_ms: int
    arrival_ms: int
    start_timestamp_ms: int
    last_timestamp_ms: int
    timestamping_mode: int
    uncapped: bool
    expires_at_ms: int
    match_seq_num: int
    fencing_token: str
    command_records: _containers.RepeatedCompositeFieldContainer[CommandRecord]
    records: bytes
    op_units: int
    def __init__(self, stream_id: _Optional[int] = ..., first_seq_num: _Optional[int] = ..., record_count: _Optional[int] = ..., metered_bytes: _Optional[int] = ..., base_timestamp_ms: _Optional[int] = ..., arrival_ms: _Optional[int] = ..., start_timestamp_ms: _Optional[int] = ..., last_timestamp_ms: _Optional[int] = ..., timestamping_mode: _Optional[int] = ..., uncapped: _Optional[bool] = ..., expires_at_ms: _Optional[int] = ..., match_seq_num: _Optional[int] = ..., fencing_token: _Optional[str] = ..., command_records: _Optional[_Iterable[_Union[CommandRecord, _Mapping]]] = ..., records: _Optional[bytes] = ..., op_units: _Optional[int] = ...) -> None: ...

class CommandRecord(_message.Message):
    __slots__ = ("offset", "kind", "token", "trim_point")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TRIM_POINT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    kind: int
    token: str
    trim_point: int
    def __init__(self, offset: _Optional[int] = ..., kind: _Optional[int] = ..., token: _Optional[str] = ..., trim_point: _Optional[int] = ...) -> None: ...

class Bootstrap(_message.Message):
    __slots__ = ("basin", "created_at_ms", "config", "counts_usage")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    COUNTS_USAGE_FIELD_NUMBER: _ClassVar[int]
    basin: str
    created_at_ms: int
    config: _config_pb2.BasinConfig
    counts_usage: bool
    def __init__(self, basin: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., config: _Optional[_Union[_config_pb2.BasinConfig, _Mapping]] = ..., counts_usage: _Optional[bool] = ...) -> None: ...

class CreateStream(_message.Message):
    __slots__ = ("stream_id", "name", "created_at_ms", "cipher", "storage_class", "retention_age_seconds", "timestamping_mode", "timestamping_uncapped", "delete_on_empty_min_age_seconds", "creation_hash", "shared_caching")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CIPHER_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPING_MODE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPING_UNCAPPED_FIELD_NUMBER: _ClassVar[int]
    DELETE_ON_EMPTY_MIN_AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CREATION_HASH_FIELD_NUMBER: _ClassVar[int]
    SHARED_CACHING_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    name: str
    created_at_ms: int
    cipher: str
    storage_class: str
    retention_age_seconds: int
    timestamping_mode: int
    timestamping_uncapped: bool
    delete_on_empty_min_age_seconds: int
    creation_hash: bytes
    shared_caching: bool
    def __init__(self, stream_id: _Optional[int] = ..., name: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., cipher: _Optional[str] = ..., storage_class: _Optional[str] = ..., retention_age_seconds: _Optional[int] = ..., timestamping_mode: _Optional[int] = ..., timestamping_uncapped: _Optional[bool] = ..., delete_on_empty_min_age_seconds: _Optional[int] = ..., creation_hash: _Optional[bytes] = ..., shared_caching: _Optional[bool] = ...) -> None: ...

class ExpirePrefix(_message.Message):
    __slots__ = ("stream_id", "trim_point", "at_ms")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    TRIM_POINT_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    trim_point: int
    at_ms: int
    def __init__(self, stream_id: _Optional[int] = ..., trim_point: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class DeleteStream(_message.Message):
    __slots__ = ("stream_id", "deleted_at_ms")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    deleted_at_ms: int
    def __init__(self, stream_id: _Optional[int] = ..., deleted_at_ms: _Optional[int] = ...) -> None: ...

class PurgeStream(_message.Message):
    __slots__ = ("stream_id", "at_ms")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    at_ms: int
    def __init__(self, stream_id: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class Seal(_message.Message):
    __slots__ = ("sealed_at_ms",)
    SEALED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    sealed_at_ms: int
    def __init__(self, sealed_at_ms: _Optional[int] = ...) -> None: ...

class ConfigureBasin(_message.Message):
    __slots__ = ("config",)
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    config: _config_pb2.BasinConfig
    def __init__(self, config: _Optional[_Union[_config_pb2.BasinConfig, _Mapping]] = ...) -> None: ...

class ConfigureStream(_message.Message):
    __slots__ = ("stream_id", "config")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    config: _config_pb2.PartialStreamConfig
    def __init__(self, stream_id: _Optional[int] = ..., config: _Optional[_Union[_config_pb2.PartialStreamConfig, _Mapping]] = ...) -> None: ...

class DeleteEmptyStream(_message.Message):
    __slots__ = ("stream_id", "deleted_at_ms")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    deleted_at_ms: int
    def __init__(self, stream_id: _Optional[int] = ..., deleted_at_ms: _Optional[int] = ...) -> None: ...

class IdempotentWrite(_message.Message):
    __slots__ = ("key", "decided_at_ms", "answer", "write")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    decided_at_ms: int
    answer: bytes
    write: Command
    def __init__(self, key: _Optional[bytes] = ..., decided_at_ms: _Optional[int] = ..., answer: _Optional[bytes] = ..., write: _Optional[_Union[Command, _Mapping]] = ...) -> None: ...

class ExpireIdempotencyKeys(_message.Message):
    __slots__ = ("before_ms", "at_most")
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    before_ms: int
    at_most: int
    def __init__(self, before_ms: _Optional[int] = ..., at_most: _Optional[int] = ...) -> None: ...

class CountUsage(_message.Message):
    __slots__ = ("at_ms",)
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    def __init__(self, at_ms: _Optional[int] = ...) -> None: ...

class KeepUsage(_message.Message):
    __slots__ = ("kept",)
    KEPT_FIELD_NUMBER: _ClassVar[int]
    kept: int
    def __init__(self, kept: _Optional[int] = ...) -> None: ...

class ReportUsage(_message.Message):
    __slots__ = ("at_ms", "report")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    report: _usage_pb2.Report
    def __init__(self, at_ms: _Optional[int] = ..., report: _Optional[_Union[_usage_pb2.Report, _Mapping]] = ...) -> None: ...

class FreezeBasin(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
