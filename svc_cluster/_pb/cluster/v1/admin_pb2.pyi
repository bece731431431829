from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("cluster_id", "node_id", "incarnation", "version", "revision", "uptime_seconds", "ready", "checks", "waits_for", "draining", "groups", "groups_led", "held", "held_count", "storage")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HELD_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    node_id: int
    incarnation: str
    version: str
    revision: str
    uptime_seconds: float
    ready: bool
    checks: _containers.RepeatedCompositeFieldContainer[Check]
    waits_for: str
    draining: bool
    groups: int
    groups_led: int
    held: _containers.RepeatedCompositeFieldContainer[HeldGroup]
    held_count: int
    storage: Storage
    def __init__(self, cluster_id: _Optional[str] = ..., node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., version: _Optional[str] = ..., revision: _Optional[str] = ..., uptime_seconds: _Optional[float] = ..., ready: _Optional[bool] = ..., checks: _Optional[_Iterable[_Union[Check, _Mapping]]] = ..., waits_for: _Optional[str] = ..., draining: _Optional[bool] = ..., groups: _Optional[int] = ..., groups_led: _Optional[int] = ..., held: _Optional[_Iterable[_Union[HeldGroup, _Mapping]]] = ..., held_count: _Optional[int] = ..., storage: _Optional[_Union[Storage, _Mapping]] = ...) -> None: ...

class Check(_message.Message):
    __slots__ = ("name", "passed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    passed: bool
    def __init__(self, name: _Optional[str] = ..., passed: _Optional[bool] = ...) -> None: ...

class HeldGroup(_message.Message):
    __slots__ = ("group_id", "basin", "state", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    BASIN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    basin: str
    state: str
    reason: str
    def __init__(self, group_id: _Optional[int] = ..., basin: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Storage(_message.Message):
    __slots__ = ("wal_bytes", "free_bytes", "capacity_bytes", "takes_appends")
    WAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    TAKES_APPENDS_FIELD_NUMBER: _ClassVar[int]
    wal_bytes: int
    free_bytes: int
    capacity_bytes: int
    takes_appends: bool
    def __init__(self, wal_bytes: _Optional[int] = ..., free_bytes: _Optional[int] = ..., capacity_bytes: _Optional[int] = ..., takes_appends: _Optional[bool] = ...) -> None: ...

class MembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MembersResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node_id", "address", "standing", "incarnation", "asks", "ordinal", "replacing", "state", "host", "zone", "admin_address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    REPLACING_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    ADMIN_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    address: str
    standing: str
    incarnation: str
    asks: bool
    ordinal: int
    replacing: bool
    state: str
    host: str
    zone: str
    admin_address: str
    def __init__(self, node_id: _Optional[int] = ..., address: _Optional[str] = ..., standing: _Optional[str] = ..., incarnation: _Optional[str] = ..., asks: _Optional[bool] = ..., ordinal: _Optional[int] = ..., replacing: _Optional[bool] = ..., state: _Optional[str] = ..., host: _Optional[str] = ..., zone: _Optional[str] = ..., admin_address: _Optional[str] = ...) -> None: ...

class ReplaceMemberRequest(_message.Message):
    __slots__ = ("node_id", "also_lost")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ALSO_LOST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    also_lost: bool
    def __init__(self, node_id: _Optional[int] = ..., also_lost: _Optional[bool] = ...) -> None: ...

class ReplaceMemberResponse(_message.Message):
    __slots__ = ("ordinal", "incarnation", "lost_basins", "lost_basins_count", "refused")
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LOST_BASINS_FIELD_NUMBER: _ClassVar[int]
    LOST_BASINS_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ordinal: int
    incarnation: str
    lost_basins: _containers.RepeatedScalarFieldContainer[str]
    lost_basins_count: int
    refused: bool
    def __init__(self, ordinal: _Optional[int] = ..., incarnation: _Optional[str] = ..., lost_basins: _Optional[_Iterable[str]] = ..., lost_basins_count: _Optional[int] = ..., refused: _Optional[bool] = ...) -> None: ...

class AddMemberRequest(_message.Message):
    __slots__ = ("node_id", "ttl_seconds", "secret_hash")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    ttl_seconds: int
    secret_hash: bytes
    def __init__(self, node_id: _Optional[int] = ..., ttl_seconds: _Optional[int] = ..., secret_hash: _Optional[bytes] = ...) -> None: ...

class AddMemberResponse(_message.Message):
    __slots__ = ("node_id", "join_token", "expires_at_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    JOIN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    join_token: str
    expires_at_ms: int
    def __init__(self, node_id: _Optional[int] = ..., join_token: _Optional[str] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    def __init__(self, node_id: _Optional[int] = ...) -> None: ...

class RemoveMemberResponse(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    def __init__(self, node_id: _Optional[int] = ...) -> None: ...

class LeadersRequest(_message.Message):
    __slots__ = ("limit", "start_after")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    START_AFTER_FIELD_NUMBER: _ClassVar[int]
    limit: int
    start_after: int
    def __init__(self, limit: _Optional[int] = ..., start_after: _Optional[int] = ...) -> None: ...

class LeadersResponse(_message.Message):
    __slots__ = ("groups", "has_more")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupLeader]
    has_more: bool
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupLeader, _Mapping]]] = ..., has_more: _Optional[bool] = ...) -> None: ...

class GroupLeader(_message.Message):
    __slots__ = ("group_id", "basin", "leader", "term", "role", "members")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    BASIN_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    basin: str
    leader: int
    term: int
    role: str
    members: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group_id: _Optional[int] = ..., basin: _Optional[str] = ..., leader: _Optional[int] = ..., term: _Optional[int] = ..., role: _Optional[str] = ..., members: _Optional[_Iterable[int]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("groups_led", "groups_left", "seconds", "left")
    GROUPS_LED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LEFT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    groups_led: int
    groups_left: int
    seconds: float
    left: _containers.RepeatedCompositeFieldContainer[GroupLeader]
    def __init__(self, groups_led: _Optional[int] = ..., groups_left: _Optional[int] = ..., seconds: _Optional[float] = ..., left: _Optional[_Iterable[_Union[GroupLeader, _Mapping]]] = ...) -> None: ...

class VersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FinalizeUpgradeRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class VersionResponse(_message.Message):
    __slots__ = ("active", "newest", "why_not", "processes")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    active: int
    newest: int
    why_not: str
    processes: _containers.RepeatedCompositeFieldContainer[ProcessVersion]
    def __init__(self, active: _Optional[int] = ..., newest: _Optional[int] = ..., why_not: _Optional[str] = ..., processes: _Optional[_Iterable[_Union[ProcessVersion, _Mapping]]] = ...) -> None: ...

class ProcessVersion(_message.Message):
    __slots__ = ("role", "node_id", "incarnation", "newest", "release")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    role: str
    node_id: int
    incarnation: str
    newest: int
    release: str
    def __init__(self, role: _Optional[str] = ..., node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., newest: _Optional[int] = ..., release: _Optional[str] = ...) -> None: ...

class ConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfigurationResponse(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("key", "value", "masked")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MASKED_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    masked: bool
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., masked: _Optional[bool] = ...) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ("group_id", "ranges", "applied_index")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[ExportRange]
    applied_index: int
    def __init__(self, group_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[ExportRange, _Mapping]]] = ..., applied_index: _Optional[int] = ...) -> None: ...

class ExportRange(_message.Message):
    __slots__ = ("stream_id", "first", "end")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    first: int
    end: int
    def __init__(self, stream_id: _Optional[int] = ..., first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class ExportPortion(_message.Message):
    __slots__ = ("head", "stream", "rows", "last")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    head: ExportHead
    stream: ExportedStream
    rows: bytes
    last: bool
    def __init__(self, head: _Optional[_Union[ExportHead, _Mapping]] = ..., stream: _Optional[_Union[ExportedStream, _Mapping]] = ..., rows: _Optional[bytes] = ..., last: _Optional[bool] = ...) -> None: ...

class ExportHead(_message.Message):
    __slots__ = ("cluster_id", "group_id", "applied_index", "applied_term", "taken_at_ms", "encoding", "kinds")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_TERM_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    group_id: int
    applied_index: int
    applied_term: int
    taken_at_ms: int
    encoding: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., group_id: _Optional[int] = ..., applied_index: _Optional[int] = ..., applied_term: _Optional[int] = ..., taken_at_ms: _Optional[int] = ..., encoding: _Optional[int] = ..., kinds: _Optional[_Iterable[str]] = ...) -> None: ...

class ExportedStream(_message.Message):
    __slots__ = ("stream_id", "gone", "trim_point")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    TRIM_POINT_FIELD_NUMBER: _ClassVar[int]
    stream_id: int
    gone: bool
    trim_point: int
    def __init__(self, stream_id: _Optional[int] = ..., gone: _Optional[bool] = ..., trim_point: _Optional[int] = ...) -> None: ...

class BackupTakenRequest(_message.Message):
    __slots__ = ("finished_at_ms",)
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    finished_at_ms: int
    def __init__(self, finished_at_ms: _Optional[int] = ...) -> None: ...

class BackupTakenResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "asked_node", "catalog_leader", "active_version", "newest_version", "basins", "nodes", "problems", "outstanding")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ASKED_NODE_FIELD_NUMBER: _ClassVar[int]
    CATALOG_LEADER_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    BASINS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    asked_node: int
    catalog_leader: int
    active_version: int
    newest_version: int
    basins: int
    nodes: _containers.RepeatedCompositeFieldContainer[ClusterNode]
    problems: _containers.RepeatedScalarFieldContainer[str]
    outstanding: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., asked_node: _Optional[int] = ..., catalog_leader: _Optional[int] = ..., active_version: _Optional[int] = ..., newest_version: _Optional[int] = ..., basins: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[ClusterNode, _Mapping]]] = ..., problems: _Optional[_Iterable[str]] = ..., outstanding: _Optional[_Iterable[str]] = ...) -> None: ...

class ClusterNode(_message.Message):
    __slots__ = ("node_id", "address", "standing", "release", "groups", "groups_led", "groups_without_leader", "groups_held", "groups_recovering", "lag_entries", "draining", "avoids_leads", "wal_bytes", "free_bytes", "takes_appends", "memory_bytes", "memory_bytes_max", "failed_checks", "state", "replicas", "holds_catalog", "groups_lost")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_WITHOUT_LEADER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_HELD_FIELD_NUMBER: _ClassVar[int]
    GROUPS_RECOVERING_FIELD_NUMBER: _ClassVar[int]
    LAG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    AVOIDS_LEADS_FIELD_NUMBER: _ClassVar[int]
    WAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TAKES_APPENDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    FAILED_CHECKS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_CATALOG_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LOST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    address: str
    standing: str
    release: str
    groups: int
    groups_led: int
    groups_without_leader: int
    groups_held: int
    groups_recovering: int
    lag_entries: int
    draining: bool
    avoids_leads: bool
    wal_bytes: int
    free_bytes: int
    takes_appends: bool
    memory_bytes: int
    memory_bytes_max: int
    failed_checks: _containers.RepeatedScalarFieldContainer[str]
    state: str
    replicas: int
    holds_catalog: bool
    groups_lost: int
    def __init__(self, node_id: _Optional[int] = ..., address: _Optional[str] = ..., standing: _Optional[str] = ..., release: _Optional[str] = ..., groups: _Optional[int] = ..., groups_led: _Optional[int] = ..., groups_without_leader: _Optional[int] = ..., groups_held: _Optional[int] = ..., groups_recovering: _Optional[int] = ..., lag_entries: _Optional[int] = ..., draining: _Optional[bool] = ..., avoids_leads: _Optional[bool] = ..., wal_bytes: _Optional[int] = ..., free_bytes: _Optional[int] = ..., takes_appends: _Optional[bool] = ..., memory_bytes: _Optional[int] = ..., memory_bytes_max: _Optional[int] = ..., failed_checks: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., replicas: _Optional[int] = ..., holds_catalog: _Optional[bool] = ..., groups_lost: _Optional[int] = ...) -> None: ...

class BasinRequest(_message.Message):
    __slots__ = ("basin", "catalog")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    basin: str
    catalog: bool
    def __init__(self, basin: _Optional[str] = ..., catalog: _Optional[bool] = ...) -> None: ...

class BasinResponse(_message.Message):
    __slots__ = ("basin", "group_id", "leader", "replicas", "diverged", "deleted", "frozen", "configuration", "move", "last_move")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    DIVERGED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    LAST_MOVE_FIELD_NUMBER: _ClassVar[int]
    basin: str
    group_id: int
    leader: int
    replicas: _containers.RepeatedCompositeFieldContainer[BasinReplica]
    diverged: bool
    deleted: bool
    frozen: str
    configuration: int
    move: BasinMove
    last_move: str
    def __init__(self, basin: _Optional[str] = ..., group_id: _Optional[int] = ..., leader: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[BasinReplica, _Mapping]]] = ..., diverged: _Optional[bool] = ..., deleted: _Optional[bool] = ..., frozen: _Optional[str] = ..., configuration: _Optional[int] = ..., move: _Optional[_Union[BasinMove, _Mapping]] = ..., last_move: _Optional[str] = ...) -> None: ...

class BasinMove(_message.Message):
    __slots__ = ("to", "reason", "sealing", "given_up", "waits")
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SEALING_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    to: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    sealing: bool
    given_up: bool
    waits: str
    def __init__(self, to: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., sealing: _Optional[bool] = ..., given_up: _Optional[bool] = ..., waits: _Optional[str] = ...) -> None: ...

class BasinReplica(_message.Message):
    __slots__ = ("node_id", "role", "reason", "term", "commit_index", "applied_index", "last_index", "base_index", "log_bytes", "digest", "recovering", "streams", "stored_bytes", "frozen")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    BASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    role: str
    reason: str
    term: int
    commit_index: int
    applied_index: int
    last_index: int
    base_index: int
    log_bytes: int
    digest: str
    recovering: bool
    streams: int
    stored_bytes: int
    frozen: str
    def __init__(self, node_id: _Optional[int] = ..., role: _Optional[str] = ..., reason: _Optional[str] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., last_index: _Optional[int] = ..., base_index: _Optional[int] = ..., log_bytes: _Optional[int] = ..., digest: _Optional[str] = ..., recovering: _Optional[bool] = ..., streams: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., frozen: _Optional[str] = ...) -> None: ...

class TransferLeaderRequest(_message.Message):
    __slots__ = ("basin", "group_id", "to")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    basin: str
    group_id: int
    to: int
    def __init__(self, basin: _Optional[str] = ..., group_id: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class TransferLeaderResponse(_message.Message):
    __slots__ = ("group_id", "from_node", "leader")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    from_node: int
    leader: int
    def __init__(self, group_id: _Optional[int] = ..., from_node: _Optional[int] = ..., leader: _Optional[int] = ...) -> None: ...

class BalanceLeadersRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class BalanceLeadersResponse(_message.Message):
    __slots__ = ("counts", "moves", "moved", "has_more", "without_leader")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_LEADER_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[LeadCount]
    moves: _containers.RepeatedCompositeFieldContainer[LeadMove]
    moved: int
    has_more: bool
    without_leader: int
    def __init__(self, counts: _Optional[_Iterable[_Union[LeadCount, _Mapping]]] = ..., moves: _Optional[_Iterable[_Union[LeadMove, _Mapping]]] = ..., moved: _Optional[int] = ..., has_more: _Optional[bool] = ..., without_leader: _Optional[int] = ...) -> None: ...

class LeadCount(_message.Message):
    __slots__ = ("node_id", "led", "avoids_leads")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LED_FIELD_NUMBER: _ClassVar[int]
    AVOIDS_LEADS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    led: int
    avoids_leads: bool
    def __init__(self, node_id: _Optional[int] = ..., led: _Optional[int] = ..., avoids_leads: _Optional[bool] = ...) -> None: ...

class LeadMove(_message.Message):
    __slots__ = ("group_id", "basin", "from_node", "to_node", "done")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    BASIN_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    basin: str
    from_node: int
    to_node: int
    done: bool
    def __init__(self, group_id: _Optional[int] = ..., basin: _Optional[str] = ..., from_node: _Optional[int] = ..., to_node: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class MoveBasinRequest(_message.Message):
    __slots__ = ("basin", "to", "reason", "catalog")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    basin: str
    to: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    catalog: bool
    def __init__(self, basin: _Optional[str] = ..., to: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., catalog: _Optional[bool] = ...) -> None: ...

class MoveBasinResponse(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    def __init__(self, group_id: _Optional[int] = ...) -> None: ...

class FreezeBasinRequest(_message.Message):
    __slots__ = ("basin", "reason")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    basin: str
    reason: str
    def __init__(self, basin: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class FreezeBasinResponse(_message.Message):
    __slots__ = ("group_id", "frozen")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    frozen: str
    def __init__(self, group_id: _Optional[int] = ..., frozen: _Optional[str] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node_id", "verb", "force")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    verb: str
    force: bool
    def __init__(self, node_id: _Optional[int] = ..., verb: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("node_id", "state", "replicas", "alone", "leads", "answers", "empty", "holds_catalog")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ALONE_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    HOLDS_CATALOG_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    state: str
    replicas: int
    alone: int
    leads: int
    answers: bool
    empty: bool
    holds_catalog: bool
    def __init__(self, node_id: _Optional[int] = ..., state: _Optional[str] = ..., replicas: _Optional[int] = ..., alone: _Optional[int] = ..., leads: _Optional[int] = ..., answers: _Optional[bool] = ..., empty: _Optional[bool] = ..., holds_catalog: _Optional[bool] = ...) -> None: ...

class PlanPlacementRequest(_message.Message):
    __slots__ = ("carry_out", "progress_only")
    CARRY_OUT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_ONLY_FIELD_NUMBER: _ClassVar[int]
    carry_out: bool
    progress_only: bool
    def __init__(self, carry_out: _Optional[bool] = ..., progress_only: _Optional[bool] = ...) -> None: ...

class PlanPlacementResponse(_message.Message):
    __slots__ = ("changes", "transfers", "has_more", "open", "begun", "given_up", "done", "waits")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[PlacementMove]
    transfers: _containers.RepeatedCompositeFieldContainer[LeadMove]
    has_more: bool
    open: _containers.RepeatedCompositeFieldContainer[OpenMove]
    begun: int
    given_up: int
    done: bool
    waits: str
    def __init__(self, changes: _Optional[_Iterable[_Union[PlacementMove, _Mapping]]] = ..., transfers: _Optional[_Iterable[_Union[LeadMove, _Mapping]]] = ..., has_more: _Optional[bool] = ..., open: _Optional[_Iterable[_Union[OpenMove, _Mapping]]] = ..., begun: _Optional[int] = ..., given_up: _Optional[int] = ..., done: _Optional[bool] = ..., waits: _Optional[str] = ...) -> None: ...

class OpenMove(_message.Message):
    __slots__ = ("group_id", "basin", "to", "reason", "given_up")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    BASIN_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    basin: str
    to: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    given_up: bool
    def __init__(self, group_id: _Optional[int] = ..., basin: _Optional[str] = ..., to: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., given_up: _Optional[bool] = ...) -> None: ...

class PlacementMove(_message.Message):
    __slots__ = ("group_id", "basin", "from_node", "to_node", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    BASIN_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    basin: str
    from_node: int
    to_node: int
    reason: str
    def __init__(self, group_id: _Optional[int] = ..., basin: _Optional[str] = ..., from_node: _Optional[int] = ..., to_node: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
