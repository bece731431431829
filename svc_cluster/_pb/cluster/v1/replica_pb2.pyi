from svc_cluster._pb.cluster.v1 import access_pb2 as _access_pb2
from svc_cluster._pb.cluster.v1 import config_pb2 as _config_pb2
from svc_cluster._pb.cluster.v1 import trace_pb2 as _trace_pb2
from svc_cluster._pb.cluster.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChangeStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_STEP_UNSPECIFIED: _ClassVar[ChangeStep]
    CHANGE_STEP_READY: _ClassVar[ChangeStep]
    CHANGE_STEP_CONFIGURED: _ClassVar[ChangeStep]
    CHANGE_STEP_GIVEN_UP: _ClassVar[ChangeStep]
CHANGE_STEP_UNSPECIFIED: ChangeStep
CHANGE_STEP_READY: ChangeStep
CHANGE_STEP_CONFIGURED: ChangeStep
CHANGE_STEP_GIVEN_UP: ChangeStep

class PeerFrame(_message.Message):
    __slots__ = ("envelope",)
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    envelope: bytes
    def __init__(self, envelope: _Optional[bytes] = ...) -> None: ...

class RequestBatch(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[Request]
    def __init__(self, requests: _Optional[_Iterable[_Union[Request, _Mapping]]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, members: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("id", "group_id", "deadline_ms", "request_key", "trace", "ping", "append", "read", "check_tail", "create_stream", "list_streams", "get_stream_config", "delete_stream", "get_basin_config", "await_basin", "seal_basin", "freeze_basin", "drain_node", "plan_placement", "ensure_stream", "reconfigure_stream", "auto_create_stream", "ensure_basin_config", "reconfigure_basin", "describe_stream", "create_basin", "list_basins", "resolve_basin", "delete_basin", "register_node", "remove_basin", "renew_lease", "issue_token", "revoke_token", "list_tokens", "set_root_token", "hand_on_leases", "report_usage", "get_usage", "get_storage", "active_basins", "overview", "list_locations", "set_default_location", "get_version", "raise_version", "replace_node", "list_nodes", "add_member", "join_cluster", "remove_member", "view_group", "list_led", "give_lead", "balance_leads", "fetch_committed", "report_change", "change_members", "create_placed_basin")
    ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_KEY_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    CHECK_TAIL_FIELD_NUMBER: _ClassVar[int]
    CREATE_STREAM_FIELD_NUMBER: _ClassVar[int]
    LIST_STREAMS_FIELD_NUMBER: _ClassVar[int]
    GET_STREAM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DELETE_STREAM_FIELD_NUMBER: _ClassVar[int]
    GET_BASIN_CONFIG_FIELD_NUMBER: _ClassVar[int]
    AWAIT_BASIN_FIELD_NUMBER: _ClassVar[int]
    SEAL_BASIN_FIELD_NUMBER: _ClassVar[int]
    FREEZE_BASIN_FIELD_NUMBER: _ClassVar[int]
    DRAIN_NODE_FIELD_NUMBER: _ClassVar[int]
    PLAN_PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    ENSURE_STREAM_FIELD_NUMBER: _ClassVar[int]
    RECONFIGURE_STREAM_FIELD_NUMBER: _ClassVar[int]
    AUTO_CREATE_STREAM_FIELD_NUMBER: _ClassVar[int]
    ENSURE_BASIN_CONFIG_FIELD_NUMBER: _ClassVar[int]
    RECONFIGURE_BASIN_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_STREAM_FIELD_NUMBER: _ClassVar[int]
    CREATE_BASIN_FIELD_NUMBER: _ClassVar[int]
    LIST_BASINS_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_BASIN_FIELD_NUMBER: _ClassVar[int]
    DELETE_BASIN_FIELD_NUMBER: _ClassVar[int]
    REGISTER_NODE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_BASIN_FIELD_NUMBER: _ClassVar[int]
    RENEW_LEASE_FIELD_NUMBER: _ClassVar[int]
    ISSUE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LIST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SET_ROOT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HAND_ON_LEASES_FIELD_NUMBER: _ClassVar[int]
    REPORT_USAGE_FIELD_NUMBER: _ClassVar[int]
    GET_USAGE_FIELD_NUMBER: _ClassVar[int]
    GET_STORAGE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BASINS_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_FIELD_NUMBER: _ClassVar[int]
    LIST_LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    SET_DEFAULT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    GET_VERSION_FIELD_NUMBER: _ClassVar[int]
    RAISE_VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_NODE_FIELD_NUMBER: _ClassVar[int]
    LIST_NODES_FIELD_NUMBER: _ClassVar[int]
    ADD_MEMBER_FIELD_NUMBER: _ClassVar[int]
    JOIN_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REMOVE_MEMBER_FIELD_NUMBER: _ClassVar[int]
    VIEW_GROUP_FIELD_NUMBER: _ClassVar[int]
    LIST_LED_FIELD_NUMBER: _ClassVar[int]
    GIVE_LEAD_FIELD_NUMBER: _ClassVar[int]
    BALANCE_LEADS_FIELD_NUMBER: _ClassVar[int]
    FETCH_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    REPORT_CHANGE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    CREATE_PLACED_BASIN_FIELD_NUMBER: _ClassVar[int]
    id: int
    group_id: int
    deadline_ms: int
    request_key: bytes
    trace: _trace_pb2.TraceContext
    ping: Done
    append: AppendRequest
    read: ReadRequest
    check_tail: CheckTailRequest
    create_stream: CreateStreamRequest
    list_streams: ListRequest
    get_stream_config: StreamRequest
    delete_stream: StreamRequest
    get_basin_config: BasinRequest
    await_basin: BasinRequest
    seal_basin: BasinRequest
    freeze_basin: FreezeBasinRequest
    drain_node: DrainNodeRequest
    plan_placement: PlanPlacementRequest
    ensure_stream: EnsureStreamRequest
    reconfigure_stream: ReconfigureStreamRequest
    auto_create_stream: AutoCreateRequest
    ensure_basin_config: EnsureBasinRequest
    reconfigure_basin: ReconfigureBasinRequest
    describe_stream: StreamRequest
    create_basin: CreateBasinRequest
    list_basins: ListRequest
    resolve_basin: BasinRequest
    delete_basin: BasinRequest
    register_node: RegisterNodeRequest
    remove_basin: RemoveBasinRequest
    renew_lease: RenewLeaseRequest
    issue_token: IssueTokenRequest
    revoke_token: RevokeTokenRequest
    list_tokens: ListRequest
    set_root_token: SetRootTokenRequest
    hand_on_leases: HandOnLeasesRequest
    report_usage: _usage_pb2.Report
    get_usage: UsageRequest
    get_storage: StorageRequest
    active_basins: ActiveBasinsRequest
    overview: OverviewRequest
    list_locations: ListLocationsRequest
    set_default_location: SetDefaultLocationRequest
    get_version: VersionRequest
    raise_version: VersionRequest
    replace_node: ReplaceNodeRequest
    list_nodes: ListNodesRequest
    add_member: AddMemberRequest
    join_cluster: JoinClusterRequest
    remove_member: RemoveMemberRequest
    view_group: GroupViewRequest
    list_led: ListLedRequest
    give_lead: GiveLeadRequest
    balance_leads: BalanceLeadsRequest
    fetch_committed: FetchCommittedRequest
    report_change: ReportChangeRequest
    change_members: ChangeMembersRequest
    create_placed_basin: CreatePlacedBasinRequest
    def __init__(self, id: _Optional[int] = ..., group_id: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., request_key: _Optional[bytes] = ..., trace: _Optional[_Union[_trace_pb2.TraceContext, _Mapping]] = ..., ping: _Optional[_Union[Done, _Mapping]] = ..., append: _Optional[_Union[AppendRequest, _Mapping]] = ..., read: _Optional[_Union[ReadRequest, _Mapping]] = ..., check_tail: _Optional[_Union[CheckTailRequest, _Mapping]] = ..., create_stream: _Optional[_Union[CreateStreamRequest, _Mapping]] = ..., list_streams: _Optional[_Union[ListRequest, _Mapping]] = ..., get_stream_config: _Optional[_Union[StreamRequest, _Mapping]] = ..., delete_stream: _Optional[_Union[StreamRequest, _Mapping]] = ..., get_basin_config: _Optional[_Union[BasinRequest, _Mapping]] = ..., await_basin: _Optional[_Union[BasinRequest, _Mapping]] = ..., seal_basin: _Optional[_Union[BasinRequest, _Mapping]] = ..., freeze_basin: _Optional[_Union[FreezeBasinRequest, _Mapping]] = ..., drain_node: _Optional[_Union[DrainNodeRequest, _Mapping]] = ..., plan_placement: _Optional[_Union[PlanPlacementRequest, _Mapping]] = ..., ensure_stream: _Optional[_Union[EnsureStreamRequest, _Mapping]] = ..., reconfigure_stream: _Optional[_Union[ReconfigureStreamRequest, _Mapping]] = ..., auto_create_stream: _Optional[_Union[AutoCreateRequest, _Mapping]] = ..., ensure_basin_config: _Optional[_Union[EnsureBasinRequest, _Mapping]] = ..., reconfigure_basin: _Optional[_Union[ReconfigureBasinRequest, _Mapping]] = ..., describe_stream: _Optional[_Union[StreamRequest, _Mapping]] = ..., create_basin: _Optional[_Union[CreateBasinRequest, _Mapping]] = ..., list_basins: _Optional[_Union[ListRequest, _Mapping]] = ..., resolve_basin: _Optional[_Union[BasinRequest, _Mapping]] = ..., delete_basin: _Optional[_Union[BasinRequest, _Mapping]] = ..., register_node: _Optional[_Union[RegisterNodeRequest, _Mapping]] = ..., remove_basin: _Optional[_Union[RemoveBasinRequest, _Mapping]] = ..., renew_lease: _Optional[_Union[RenewLeaseRequest, _Mapping]] = ..., issue_token: _Optional[_Union[IssueTokenRequest, _Mapping]] = ..., revoke_token: _Optional[_Union[RevokeTokenRequest, _Mapping]] = ..., list_tokens: _Optional[_Union[ListRequest, _Mapping]] = ..., set_root_token: _Optional[_Union[SetRootTokenRequest, _Mapping]] = ..., hand_on_leases: _Optional[_Union[HandOnLeasesRequest, _Mapping]] = ..., report_usage: _Optional[_Union[_usage_pb2.Report, _Mapping]] = ..., get_usage: _Optional[_Union[UsageRequest, _Mapping]] = ..., get_storage: _Optional[_Union[StorageRequest, _Mapping]] = ..., active_basins: _Optional[_Union[ActiveBasinsRequest, _Mapping]] = ..., overview: _Optional[_Union[OverviewRequest, _Mapping]] = ..., list_locations: _Optional[_Union[ListLocationsRequest, _Mapping]] = ..., set_default_location: _Optional[_Union[SetDefaultLocationRequest, _Mapping]] = ..., get_version: _Optional[_Union[VersionRequest, _Mapping]] = ..., raise_version: _Optional[_Union[VersionRequest, _Mapping]] = ..., replace_node: _Optional[_Union[ReplaceNodeRequest, _Mapping]] = ..., list_nodes: _Optional[_Union[ListNodesRequest, _Mapping]] = ..., add_member: _Optional[_Union[AddMemberRequest, _Mapping]] = ..., join_cluster: _Optional[_Union[JoinClusterRequest, _Mapping]] = ..., remove_member: _Optional[_Union[RemoveMemberRequest, _Mapping]] = ..., view_group: _Optional[_Union[GroupViewRequest, _Mapping]] = ..., list_led: _Optional[_Union[ListLedRequest, _Mapping]] = ..., give_lead: _Optional[_Union[GiveLeadRequest, _Mapping]] = ..., balance_leads: _Optional[_Union[BalanceLeadsRequest, _Mapping]] = ..., fetch_committed: _Optional[_Union[FetchCommittedRequest, _Mapping]] = ..., report_change: _Optional[_Union[ReportChangeRequest, _Mapping]] = ..., change_members: _Optional[_Union[ChangeMembersRequest, _Mapping]] = ..., create_placed_basin: _Optional[_Union[CreatePlacedBasinRequest, _Mapping]] = ...) -> None: ...

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

class AppendRequest(_message.Message):
    __slots__ = ("stream", "records", "record_count", "metered_bytes", "timestamp_max_ms", "timestamps_given", "commands", "match_seq_num", "fencing_token", "timestamp_first_ms", "session", "sealed_for", "requests", "op_units")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    METERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_GIVEN_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    MATCH_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIRST_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEALED_FOR_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    OP_UNITS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    records: bytes
    record_count: int
    metered_bytes: int
    timestamp_max_ms: int
    timestamps_given: int
    commands: _containers.RepeatedCompositeFieldContainer[CommandRecord]
    match_seq_num: int
    fencing_token: str
    timestamp_first_ms: int
    session: SessionSequence
    sealed_for: StreamIdentity
    requests: int
    op_units: int
    def __init__(self, stream: _Optional[str] = ..., records: _Optional[bytes] = ..., record_count: _Optional[int] = ..., metered_bytes: _Optional[int] = ..., timestamp_max_ms: _Optional[int] = ..., timestamps_given: _Optional[int] = ..., commands: _Optional[_Iterable[_Union[CommandRecord, _Mapping]]] = ..., match_seq_num: _Optional[int] = ..., fencing_token: _Optional[str] = ..., timestamp_first_ms: _Optional[int] = ..., session: _Optional[_Union[SessionSequence, _Mapping]] = ..., sealed_for: _Optional[_Union[StreamIdentity, _Mapping]] = ..., requests: _Optional[int] = ..., op_units: _Optional[int] = ...) -> None: ...

class StreamIdentity(_message.Message):
    __slots__ = ("group_id", "stream_id", "cipher")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CIPHER_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    stream_id: int
    cipher: str
    def __init__(self, group_id: _Optional[int] = ..., stream_id: _Optional[int] = ..., cipher: _Optional[str] = ...) -> None: ...

class SessionSequence(_message.Message):
    __slots__ = ("session_id", "sequence")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    session_id: bytes
    sequence: int
    def __init__(self, session_id: _Optional[bytes] = ..., sequence: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("stream", "start_kind", "start_value", "clamp", "count", "metered_bytes", "until_ms", "refuse_at_tail", "wait_ms", "has_key", "portion_bytes", "committed", "at_least")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    START_KIND_FIELD_NUMBER: _ClassVar[int]
    START_VALUE_FIELD_NUMBER: _ClassVar[int]
    CLAMP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    METERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    REFUSE_AT_TAIL_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_KEY_FIELD_NUMBER: _ClassVar[int]
    PORTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    stream: str
    start_kind: int
    start_value: int
    clamp: bool
    count: int
    metered_bytes: int
    until_ms: int
    refuse_at_tail: bool
    wait_ms: int
    has_key: bool
    portion_bytes: int
    committed: bool
    at_least: int
    def __init__(self, stream: _Optional[str] = ..., start_kind: _Optional[int] = ..., start_value: _Optional[int] = ..., clamp: _Optional[bool] = ..., count: _Optional[int] = ..., metered_bytes: _Optional[int] = ..., until_ms: _Optional[int] = ..., refuse_at_tail: _Optional[bool] = ..., wait_ms: _Optional[int] = ..., has_key: _Optional[bool] = ..., portion_bytes: _Optional[int] = ..., committed: _Optional[bool] = ..., at_least: _Optional[int] = ...) -> None: ...

class CheckTailRequest(_message.Message):
    __slots__ = ("stream",)
    STREAM_FIELD_NUMBER: _ClassVar[int]
    stream: str
    def __init__(self, stream: _Optional[str] = ...) -> None: ...

class UsageRequest(_message.Message):
    __slots__ = ("start", "end", "step_seconds")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    step_seconds: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., step_seconds: _Optional[int] = ...) -> None: ...

class StorageRequest(_message.Message):
    __slots__ = ("stream", "start", "end", "step_seconds")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    stream: str
    start: int
    end: int
    step_seconds: int
    def __init__(self, stream: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., step_seconds: _Optional[int] = ...) -> None: ...

class ActiveBasinsRequest(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class OverviewRequest(_message.Message):
    __slots__ = ("without_lists", "without_groups")
    WITHOUT_LISTS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_GROUPS_FIELD_NUMBER: _ClassVar[int]
    without_lists: bool
    without_groups: bool
    def __init__(self, without_lists: _Optional[bool] = ..., without_groups: _Optional[bool] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("stream",)
    STREAM_FIELD_NUMBER: _ClassVar[int]
    stream: str
    def __init__(self, stream: _Optional[str] = ...) -> None: ...

class BasinRequest(_message.Message):
    __slots__ = ("basin",)
    BASIN_FIELD_NUMBER: _ClassVar[int]
    basin: str
    def __init__(self, basin: _Optional[str] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node_id", "verb", "forced")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    verb: int
    forced: bool
    def __init__(self, node_id: _Optional[int] = ..., verb: _Optional[int] = ..., forced: _Optional[bool] = ...) -> None: ...

class NodeDrain(_message.Message):
    __slots__ = ("state", "replicas", "alone")
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ALONE_FIELD_NUMBER: _ClassVar[int]
    state: str
    replicas: int
    alone: int
    def __init__(self, state: _Optional[str] = ..., replicas: _Optional[int] = ..., alone: _Optional[int] = ...) -> None: ...

class PlanPlacementRequest(_message.Message):
    __slots__ = ("carry_out", "progress_only")
    CARRY_OUT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_ONLY_FIELD_NUMBER: _ClassVar[int]
    carry_out: bool
    progress_only: bool
    def __init__(self, carry_out: _Optional[bool] = ..., progress_only: _Optional[bool] = ...) -> None: ...

class PlacementProgress(_message.Message):
    __slots__ = ("open", "begun", "given_up", "is_done", "waits")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    IS_DONE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    open: _containers.RepeatedCompositeFieldContainer[OpenMove]
    begun: int
    given_up: int
    is_done: bool
    waits: str
    def __init__(self, open: _Optional[_Iterable[_Union[OpenMove, _Mapping]]] = ..., begun: _Optional[int] = ..., given_up: _Optional[int] = ..., is_done: _Optional[bool] = ..., waits: _Optional[str] = ...) -> None: ...

class OpenMove(_message.Message):
    __slots__ = ("group_id", "to", "reason", "given_up")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    to: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    given_up: bool
    def __init__(self, group_id: _Optional[int] = ..., to: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., given_up: _Optional[bool] = ...) -> None: ...

class PlacementPlan(_message.Message):
    __slots__ = ("changes", "transfers", "has_more", "progress")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[PlacementMove]
    transfers: _containers.RepeatedCompositeFieldContainer[LeadMove]
    has_more: bool
    progress: PlacementProgress
    def __init__(self, changes: _Optional[_Iterable[_Union[PlacementMove, _Mapping]]] = ..., transfers: _Optional[_Iterable[_Union[LeadMove, _Mapping]]] = ..., has_more: _Optional[bool] = ..., progress: _Optional[_Union[PlacementProgress, _Mapping]] = ...) -> None: ...

class PlacementMove(_message.Message):
    __slots__ = ("group_id", "from_node", "to_node", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    from_node: int
    to_node: int
    reason: str
    def __init__(self, group_id: _Optional[int] = ..., from_node: _Optional[int] = ..., to_node: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class FreezeBasinRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("prefix", "start_after", "limit")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    START_AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    start_after: str
    limit: int
    def __init__(self, prefix: _Optional[str] = ..., start_after: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class CreateStreamRequest(_message.Message):
    __slots__ = ("stream", "config", "storage_class_default", "creation_hash")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    CREATION_HASH_FIELD_NUMBER: _ClassVar[int]
    stream: str
    config: _config_pb2.PartialStreamConfig
    storage_class_default: str
    creation_hash: bytes
    def __init__(self, stream: _Optional[str] = ..., config: _Optional[_Union[_config_pb2.PartialStreamConfig, _Mapping]] = ..., storage_class_default: _Optional[str] = ..., creation_hash: _Optional[bytes] = ...) -> None: ...

class EnsureStreamRequest(_message.Message):
    __slots__ = ("stream", "config", "storage_class_default")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    config: _config_pb2.PartialStreamConfig
    storage_class_default: str
    def __init__(self, stream: _Optional[str] = ..., config: _Optional[_Union[_config_pb2.PartialStreamConfig, _Mapping]] = ..., storage_class_default: _Optional[str] = ...) -> None: ...

class ReconfigureStreamRequest(_message.Message):
    __slots__ = ("stream", "patch", "storage_class_default")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PATCH_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    patch: _config_pb2.StreamPatch
    storage_class_default: str
    def __init__(self, stream: _Optional[str] = ..., patch: _Optional[_Union[_config_pb2.StreamPatch, _Mapping]] = ..., storage_class_default: _Optional[str] = ...) -> None: ...

class AutoCreateRequest(_message.Message):
    __slots__ = ("stream", "on_read", "config", "storage_class_default")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    ON_READ_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    on_read: bool
    config: _config_pb2.PartialStreamConfig
    storage_class_default: str
    def __init__(self, stream: _Optional[str] = ..., on_read: _Optional[bool] = ..., config: _Optional[_Union[_config_pb2.PartialStreamConfig, _Mapping]] = ..., storage_class_default: _Optional[str] = ...) -> None: ...

class CreatePlacedBasinRequest(_message.Message):
    __slots__ = ("basin", "replication_factor")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    basin: CreateBasinRequest
    replication_factor: int
    def __init__(self, basin: _Optional[_Union[CreateBasinRequest, _Mapping]] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class CreateBasinRequest(_message.Message):
    __slots__ = ("basin", "config", "creation_hash", "or_existing", "location", "token_serial", "authentication_off")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CREATION_HASH_FIELD_NUMBER: _ClassVar[int]
    OR_EXISTING_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SERIAL_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATION_OFF_FIELD_NUMBER: _ClassVar[int]
    basin: str
    config: _config_pb2.BasinConfig
    creation_hash: bytes
    or_existing: bool
    location: str
    token_serial: int
    authentication_off: Done
    def __init__(self, basin: _Optional[str] = ..., config: _Optional[_Union[_config_pb2.BasinConfig, _Mapping]] = ..., creation_hash: _Optional[bytes] = ..., or_existing: _Optional[bool] = ..., location: _Optional[str] = ..., token_serial: _Optional[int] = ..., authentication_off: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class EnsureBasinRequest(_message.Message):
    __slots__ = ("config", "storage_class")
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    config: _config_pb2.BasinConfig
    storage_class: str
    def __init__(self, config: _Optional[_Union[_config_pb2.BasinConfig, _Mapping]] = ..., storage_class: _Optional[str] = ...) -> None: ...

class ReconfigureBasinRequest(_message.Message):
    __slots__ = ("patch",)
    PATCH_FIELD_NUMBER: _ClassVar[int]
    patch: _config_pb2.BasinPatch
    def __init__(self, patch: _Optional[_Union[_config_pb2.BasinPatch, _Mapping]] = ...) -> None: ...

class ReplaceNodeRequest(_message.Message):
    __slots__ = ("node_id", "also_lost")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ALSO_LOST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    also_lost: bool
    def __init__(self, node_id: _Optional[int] = ..., also_lost: _Optional[bool] = ...) -> None: ...

class Replacement(_message.Message):
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

class RegisterNodeRequest(_message.Message):
    __slots__ = ("node_id", "incarnation", "address", "facts")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    incarnation: str
    address: str
    facts: NodeFacts
    def __init__(self, node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., address: _Optional[str] = ..., facts: _Optional[_Union[NodeFacts, _Mapping]] = ...) -> None: ...

class AddMemberRequest(_message.Message):
    __slots__ = ("node_id", "secret_hash", "ttl_seconds")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    secret_hash: bytes
    ttl_seconds: int
    def __init__(self, node_id: _Optional[int] = ..., secret_hash: _Optional[bytes] = ..., ttl_seconds: _Optional[int] = ...) -> None: ...

class MemberTicket(_message.Message):
    __slots__ = ("expires_at_ms",)
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    expires_at_ms: int
    def __init__(self, expires_at_ms: _Optional[int] = ...) -> None: ...

class JoinClusterRequest(_message.Message):
    __slots__ = ("node", "secret", "forwarded")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    node: RegisterNodeRequest
    secret: bytes
    forwarded: bool
    def __init__(self, node: _Optional[_Union[RegisterNodeRequest, _Mapping]] = ..., secret: _Optional[bytes] = ..., forwarded: _Optional[bool] = ...) -> None: ...

class JoinedCluster(_message.Message):
    __slots__ = ("formation", "seeds")
    FORMATION_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    formation: FormationReport
    seeds: _containers.RepeatedCompositeFieldContainer[NodePlace]
    def __init__(self, formation: _Optional[_Union[FormationReport, _Mapping]] = ..., seeds: _Optional[_Iterable[_Union[NodePlace, _Mapping]]] = ...) -> None: ...

class RemoveMemberRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    def __init__(self, node_id: _Optional[int] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodePlace]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodePlace, _Mapping]]] = ...) -> None: ...

class NodePlace(_message.Message):
    __slots__ = ("node_id", "address", "link_address", "host", "zone", "state")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LINK_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    address: str
    link_address: str
    host: str
    zone: str
    state: str
    def __init__(self, node_id: _Optional[int] = ..., address: _Optional[str] = ..., link_address: _Optional[str] = ..., host: _Optional[str] = ..., zone: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class NodeFacts(_message.Message):
    __slots__ = ("link_address", "admin_address", "host", "zone")
    LINK_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ADMIN_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    link_address: str
    admin_address: str
    host: str
    zone: str
    def __init__(self, link_address: _Optional[str] = ..., admin_address: _Optional[str] = ..., host: _Optional[str] = ..., zone: _Optional[str] = ...) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("gateway_id", "version", "read_all", "after_serial", "version_newest")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    READ_ALL_FIELD_NUMBER: _ClassVar[int]
    AFTER_SERIAL_FIELD_NUMBER: _ClassVar[int]
    VERSION_NEWEST_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    version: int
    read_all: bool
    after_serial: int
    version_newest: int
    def __init__(self, gateway_id: _Optional[str] = ..., version: _Optional[int] = ..., read_all: _Optional[bool] = ..., after_serial: _Optional[int] = ..., version_newest: _Optional[int] = ...) -> None: ...

class HandOnLeasesRequest(_message.Message):
    __slots__ = ("term", "taken")
    TERM_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    term: int
    taken: bool
    def __init__(self, term: _Optional[int] = ..., taken: _Optional[bool] = ...) -> None: ...

class IssueTokenRequest(_message.Message):
    __slots__ = ("token", "token_serial", "authentication_off", "sealed_secret")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SERIAL_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATION_OFF_FIELD_NUMBER: _ClassVar[int]
    SEALED_SECRET_FIELD_NUMBER: _ClassVar[int]
    token: _access_pb2.AccessToken
    token_serial: int
    authentication_off: Done
    sealed_secret: bytes
    def __init__(self, token: _Optional[_Union[_access_pb2.AccessToken, _Mapping]] = ..., token_serial: _Optional[int] = ..., authentication_off: _Optional[_Union[Done, _Mapping]] = ..., sealed_secret: _Optional[bytes] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("token_id", "token_serial", "authentication_off")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SERIAL_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATION_OFF_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    token_serial: int
    authentication_off: Done
    def __init__(self, token_id: _Optional[str] = ..., token_serial: _Optional[int] = ..., authentication_off: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class SetRootTokenRequest(_message.Message):
    __slots__ = ("secret_hash", "change_id", "only_if_absent")
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    ONLY_IF_ABSENT_FIELD_NUMBER: _ClassVar[int]
    secret_hash: bytes
    change_id: bytes
    only_if_absent: bool
    def __init__(self, secret_hash: _Optional[bytes] = ..., change_id: _Optional[bytes] = ..., only_if_absent: _Optional[bool] = ...) -> None: ...

class ListLocationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetDefaultLocationRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveBasinRequest(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    def __init__(self, group_id: _Optional[int] = ...) -> None: ...

class ResponseBatch(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[Response]
    def __init__(self, responses: _Optional[_Iterable[_Union[Response, _Mapping]]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("id", "provision", "is_repeated", "stages", "refusal", "append", "read", "tail", "stream", "streams", "stream_config", "basin_config", "basin", "basins", "done", "stream_identity", "lease", "tokens", "usage", "storage", "active_basins", "issued_token", "handed_leases", "overview", "locations", "version", "replacement", "nodes", "member_ticket", "joined_cluster", "group_view", "led_groups", "lead_balance", "node_drain", "placement_plan", "committed")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROVISION_FIELD_NUMBER: _ClassVar[int]
    IS_REPEATED_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    STREAM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    BASIN_CONFIG_FIELD_NUMBER: _ClassVar[int]
    BASIN_FIELD_NUMBER: _ClassVar[int]
    BASINS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    STREAM_IDENTITY_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BASINS_FIELD_NUMBER: _ClassVar[int]
    ISSUED_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HANDED_LEASES_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MEMBER_TICKET_FIELD_NUMBER: _ClassVar[int]
    JOINED_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_VIEW_FIELD_NUMBER: _ClassVar[int]
    LED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    LEAD_BALANCE_FIELD_NUMBER: _ClassVar[int]
    NODE_DRAIN_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_PLAN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    id: int
    provision: int
    is_repeated: bool
    stages: LeaderStages
    refusal: Refusal
    append: AppendAck
    read: ReadResult
    tail: Position
    stream: StreamInfo
    streams: StreamList
    stream_config: _config_pb2.PartialStreamConfig
    basin_config: _config_pb2.BasinConfig
    basin: BasinInfo
    basins: BasinList
    done: Done
    stream_identity: StreamIdentity
    lease: Lease
    tokens: TokenList
    usage: Usage
    storage: Storage
    active_basins: ActiveBasins
    issued_token: IssuedToken
    handed_leases: HandedLeases
    overview: NodeOverview
    locations: LocationList
    version: VersionInfo
    replacement: Replacement
    nodes: NodeList
    member_ticket: MemberTicket
    joined_cluster: JoinedCluster
    group_view: GroupView
    led_groups: LedGroups
    lead_balance: LeadBalance
    node_drain: NodeDrain
    placement_plan: PlacementPlan
    committed: Committed
    def __init__(self, id: _Optional[int] = ..., provision: _Optional[int] = ..., is_repeated: _Optional[bool] = ..., stages: _Optional[_Union[LeaderStages, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., append: _Optional[_Union[AppendAck, _Mapping]] = ..., read: _Optional[_Union[ReadResult, _Mapping]] = ..., tail: _Optional[_Union[Position, _Mapping]] = ..., stream: _Optional[_Union[StreamInfo, _Mapping]] = ..., streams: _Optional[_Union[StreamList, _Mapping]] = ..., stream_config: _Optional[_Union[_config_pb2.PartialStreamConfig, _Mapping]] = ..., basin_config: _Optional[_Union[_config_pb2.BasinConfig, _Mapping]] = ..., basin: _Optional[_Union[BasinInfo, _Mapping]] = ..., basins: _Optional[_Union[BasinList, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., stream_identity: _Optional[_Union[StreamIdentity, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., tokens: _Optional[_Union[TokenList, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., storage: _Optional[_Union[Storage, _Mapping]] = ..., active_basins: _Optional[_Union[ActiveBasins, _Mapping]] = ..., issued_token: _Optional[_Union[IssuedToken, _Mapping]] = ..., handed_leases: _Optional[_Union[HandedLeases, _Mapping]] = ..., overview: _Optional[_Union[NodeOverview, _Mapping]] = ..., locations: _Optional[_Union[LocationList, _Mapping]] = ..., version: _Optional[_Union[VersionInfo, _Mapping]] = ..., replacement: _Optional[_Union[Replacement, _Mapping]] = ..., nodes: _Optional[_Union[NodeList, _Mapping]] = ..., member_ticket: _Optional[_Union[MemberTicket, _Mapping]] = ..., joined_cluster: _Optional[_Union[JoinedCluster, _Mapping]] = ..., group_view: _Optional[_Union[GroupView, _Mapping]] = ..., led_groups: _Optional[_Union[LedGroups, _Mapping]] = ..., lead_balance: _Optional[_Union[LeadBalance, _Mapping]] = ..., node_drain: _Optional[_Union[NodeDrain, _Mapping]] = ..., placement_plan: _Optional[_Union[PlacementPlan, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaderStages(_message.Message):
    __slots__ = ("queue_us", "wal_us", "quorum_us", "apply_us")
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    WAL_US_FIELD_NUMBER: _ClassVar[int]
    QUORUM_US_FIELD_NUMBER: _ClassVar[int]
    APPLY_US_FIELD_NUMBER: _ClassVar[int]
    queue_us: int
    wal_us: int
    quorum_us: int
    apply_us: int
    def __init__(self, queue_us: _Optional[int] = ..., wal_us: _Optional[int] = ..., quorum_us: _Optional[int] = ..., apply_us: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("granted", "version", "behind", "changes", "all_read", "gateways")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ALL_READ_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    version: int
    behind: bool
    changes: _containers.RepeatedCompositeFieldContainer[TokenChange]
    all_read: bool
    gateways: int
    def __init__(self, granted: _Optional[bool] = ..., version: _Optional[int] = ..., behind: _Optional[bool] = ..., changes: _Optional[_Iterable[_Union[TokenChange, _Mapping]]] = ..., all_read: _Optional[bool] = ..., gateways: _Optional[int] = ...) -> None: ...

class HandedLeases(_message.Message):
    __slots__ = ("known", "earlier_ms_left", "leases")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    EARLIER_MS_LEFT_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    known: bool
    earlier_ms_left: int
    leases: _containers.RepeatedCompositeFieldContainer[HandedLease]
    def __init__(self, known: _Optional[bool] = ..., earlier_ms_left: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[HandedLease, _Mapping]]] = ...) -> None: ...

class HandedLease(_message.Message):
    __slots__ = ("gateway_id", "version", "ms_left", "version_newest")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MS_LEFT_FIELD_NUMBER: _ClassVar[int]
    VERSION_NEWEST_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    version: int
    ms_left: int
    version_newest: int
    def __init__(self, gateway_id: _Optional[str] = ..., version: _Optional[int] = ..., ms_left: _Optional[int] = ..., version_newest: _Optional[int] = ...) -> None: ...

class VersionRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class VersionInfo(_message.Message):
    __slots__ = ("active", "newest", "processes", "gateways_unknown_ms", "why_not")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_UNKNOWN_MS_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    active: int
    newest: int
    processes: _containers.RepeatedCompositeFieldContainer[ProcessVersion]
    gateways_unknown_ms: int
    why_not: str
    def __init__(self, active: _Optional[int] = ..., newest: _Optional[int] = ..., processes: _Optional[_Iterable[_Union[ProcessVersion, _Mapping]]] = ..., gateways_unknown_ms: _Optional[int] = ..., why_not: _Optional[str] = ...) -> None: ...

class ProcessVersion(_message.Message):
    __slots__ = ("role", "node_id", "incarnation", "oldest", "newest")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    role: str
    node_id: int
    incarnation: str
    oldest: int
    newest: int
    def __init__(self, role: _Optional[str] = ..., node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., oldest: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class TokenChange(_message.Message):
    __slots__ = ("serial", "token")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    serial: int
    token: _access_pb2.AccessToken
    def __init__(self, serial: _Optional[int] = ..., token: _Optional[_Union[_access_pb2.AccessToken, _Mapping]] = ...) -> None: ...

class IssuedToken(_message.Message):
    __slots__ = ("sealed_secret",)
    SEALED_SECRET_FIELD_NUMBER: _ClassVar[int]
    sealed_secret: bytes
    def __init__(self, sealed_secret: _Optional[bytes] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("buckets",)
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    buckets: _containers.RepeatedCompositeFieldContainer[_usage_pb2.Counts]
    def __init__(self, buckets: _Optional[_Iterable[_Union[_usage_pb2.Counts, _Mapping]]] = ...) -> None: ...

class Storage(_message.Message):
    __slots__ = ("before", "changes", "now")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    before: int
    changes: _containers.RepeatedCompositeFieldContainer[StorageReading]
    now: int
    def __init__(self, before: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[StorageReading, _Mapping]]] = ..., now: _Optional[int] = ...) -> None: ...

class StorageReading(_message.Message):
    __slots__ = ("at", "stored_bytes")
    AT_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    at: int
    stored_bytes: int
    def __init__(self, at: _Optional[int] = ..., stored_bytes: _Optional[int] = ...) -> None: ...

class ActiveBasins(_message.Message):
    __slots__ = ("basins",)
    BASINS_FIELD_NUMBER: _ClassVar[int]
    basins: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, basins: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeOverview(_message.Message):
    __slots__ = ("node_id", "version", "groups", "groups_led", "groups_without_leader", "groups_held", "lag_entries", "draining", "wal_bytes", "free_bytes", "takes_appends", "leads", "groups_recovering", "failed_checks", "avoids_leads", "memory_bytes", "memory_bytes_max", "peers_up", "gateways", "asking", "groups_lost")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_WITHOUT_LEADER_FIELD_NUMBER: _ClassVar[int]
    GROUPS_HELD_FIELD_NUMBER: _ClassVar[int]
    LAG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    WAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TAKES_APPENDS_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_RECOVERING_FIELD_NUMBER: _ClassVar[int]
    FAILED_CHECKS_FIELD_NUMBER: _ClassVar[int]
    AVOIDS_LEADS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PEERS_UP_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    ASKING_FIELD_NUMBER: _ClassVar[int]
    GROUPS_LOST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    version: str
    groups: int
    groups_led: int
    groups_without_leader: int
    groups_held: int
    lag_entries: int
    draining: bool
    wal_bytes: int
    free_bytes: int
    takes_appends: bool
    leads: _containers.RepeatedScalarFieldContainer[str]
    groups_recovering: int
    failed_checks: _containers.RepeatedScalarFieldContainer[str]
    avoids_leads: bool
    memory_bytes: int
    memory_bytes_max: int
    peers_up: _containers.RepeatedScalarFieldContainer[int]
    gateways: _containers.RepeatedCompositeFieldContainer[TalkingGateway]
    asking: _containers.RepeatedCompositeFieldContainer[AskingNode]
    groups_lost: int
    def __init__(self, node_id: _Optional[int] = ..., version: _Optional[str] = ..., groups: _Optional[int] = ..., groups_led: _Optional[int] = ..., groups_without_leader: _Optional[int] = ..., groups_held: _Optional[int] = ..., lag_entries: _Optional[int] = ..., draining: _Optional[bool] = ..., wal_bytes: _Optional[int] = ..., free_bytes: _Optional[int] = ..., takes_appends: _Optional[bool] = ..., leads: _Optional[_Iterable[str]] = ..., groups_recovering: _Optional[int] = ..., failed_checks: _Optional[_Iterable[str]] = ..., avoids_leads: _Optional[bool] = ..., memory_bytes: _Optional[int] = ..., memory_bytes_max: _Optional[int] = ..., peers_up: _Optional[_Iterable[int]] = ..., gateways: _Optional[_Iterable[_Union[TalkingGateway, _Mapping]]] = ..., asking: _Optional[_Iterable[_Union[AskingNode, _Mapping]]] = ..., groups_lost: _Optional[int] = ...) -> None: ...

class AskingNode(_message.Message):
    __slots__ = ("node_id", "incarnation", "seconds", "now", "newest")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    incarnation: str
    seconds: float
    now: bool
    newest: int
    def __init__(self, node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., seconds: _Optional[float] = ..., now: _Optional[bool] = ..., newest: _Optional[int] = ...) -> None: ...

class TalkingGateway(_message.Message):
    __slots__ = ("process", "newest")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    process: str
    newest: int
    def __init__(self, process: _Optional[str] = ..., newest: _Optional[int] = ...) -> None: ...

class GroupViewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupView(_message.Message):
    __slots__ = ("role", "reason", "term", "leader", "commit_index", "applied_index", "last_index", "base_index", "log_bytes", "digest", "recovering", "streams", "stored_bytes", "frozen", "change_waits")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
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
    CHANGE_WAITS_FIELD_NUMBER: _ClassVar[int]
    role: str
    reason: str
    term: int
    leader: int
    commit_index: int
    applied_index: int
    last_index: int
    base_index: int
    log_bytes: int
    digest: int
    recovering: bool
    streams: int
    stored_bytes: int
    frozen: str
    change_waits: str
    def __init__(self, role: _Optional[str] = ..., reason: _Optional[str] = ..., term: _Optional[int] = ..., leader: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., last_index: _Optional[int] = ..., base_index: _Optional[int] = ..., log_bytes: _Optional[int] = ..., digest: _Optional[int] = ..., recovering: _Optional[bool] = ..., streams: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., frozen: _Optional[str] = ..., change_waits: _Optional[str] = ...) -> None: ...

class FetchCommittedRequest(_message.Message):
    __slots__ = ("log_index", "node_id", "recovers")
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RECOVERS_FIELD_NUMBER: _ClassVar[int]
    log_index: int
    node_id: int
    recovers: bool
    def __init__(self, log_index: _Optional[int] = ..., node_id: _Optional[int] = ..., recovers: _Optional[bool] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("configuration", "previous_index", "previous_term", "entries", "needs_snapshot", "leader")
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEEDS_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    configuration: bytes
    previous_index: int
    previous_term: int
    entries: _containers.RepeatedCompositeFieldContainer[CommittedEntry]
    needs_snapshot: bool
    leader: int
    def __init__(self, configuration: _Optional[bytes] = ..., previous_index: _Optional[int] = ..., previous_term: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[CommittedEntry, _Mapping]]] = ..., needs_snapshot: _Optional[bool] = ..., leader: _Optional[int] = ...) -> None: ...

class CommittedEntry(_message.Message):
    __slots__ = ("term", "payload")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    term: int
    payload: bytes
    def __init__(self, term: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class ReportChangeRequest(_message.Message):
    __slots__ = ("group_id", "change_id", "term", "step", "configuration")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    change_id: int
    term: int
    step: ChangeStep
    configuration: int
    def __init__(self, group_id: _Optional[int] = ..., change_id: _Optional[int] = ..., term: _Optional[int] = ..., step: _Optional[_Union[ChangeStep, str]] = ..., configuration: _Optional[int] = ...) -> None: ...

class ChangeMembersRequest(_message.Message):
    __slots__ = ("basin", "replicas", "reason", "catalog")
    BASIN_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    basin: str
    replicas: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    catalog: bool
    def __init__(self, basin: _Optional[str] = ..., replicas: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., catalog: _Optional[bool] = ...) -> None: ...

class ListLedRequest(_message.Message):
    __slots__ = ("start_after", "limit", "with_loads")
    START_AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WITH_LOADS_FIELD_NUMBER: _ClassVar[int]
    start_after: int
    limit: int
    with_loads: bool
    def __init__(self, start_after: _Optional[int] = ..., limit: _Optional[int] = ..., with_loads: _Optional[bool] = ...) -> None: ...

class LedGroups(_message.Message):
    __slots__ = ("groups", "has_more", "stored_bytes", "appends")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    APPENDS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[int]
    has_more: bool
    stored_bytes: _containers.RepeatedScalarFieldContainer[int]
    appends: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, groups: _Optional[_Iterable[int]] = ..., has_more: _Optional[bool] = ..., stored_bytes: _Optional[_Iterable[int]] = ..., appends: _Optional[_Iterable[int]] = ...) -> None: ...

class GiveLeadRequest(_message.Message):
    __slots__ = ("to",)
    TO_FIELD_NUMBER: _ClassVar[int]
    to: int
    def __init__(self, to: _Optional[int] = ...) -> None: ...

class BalanceLeadsRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class LeadBalance(_message.Message):
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
    __slots__ = ("group_id", "from_node", "to_node", "done")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    from_node: int
    to_node: int
    done: bool
    def __init__(self, group_id: _Optional[int] = ..., from_node: _Optional[int] = ..., to_node: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...

class TokenList(_message.Message):
    __slots__ = ("tokens", "has_more")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[_access_pb2.AccessToken]
    has_more: bool
    def __init__(self, tokens: _Optional[_Iterable[_Union[_access_pb2.AccessToken, _Mapping]]] = ..., has_more: _Optional[bool] = ...) -> None: ...

class Location(_message.Message):
    __slots__ = ("name", "is_private")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_PRIVATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_private: bool
    def __init__(self, name: _Optional[str] = ..., is_private: _Optional[bool] = ...) -> None: ...

class LocationList(_message.Message):
    __slots__ = ("locations", "default_location")
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    locations: _containers.RepeatedCompositeFieldContainer[Location]
    default_location: Location
    def __init__(self, locations: _Optional[_Iterable[_Union[Location, _Mapping]]] = ..., default_location: _Optional[_Union[Location, _Mapping]] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("seq_num", "timestamp_ms")
    SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    seq_num: int
    timestamp_ms: int
    def __init__(self, seq_num: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("code", "message", "may_have_taken_effect", "not_leader", "leader", "group_unknown", "tail_seq_num", "tail_timestamp_ms", "fencing_token", "retry_after_ms", "seal_mismatch", "not_active_yet")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MAY_HAVE_TAKEN_EFFECT_FIELD_NUMBER: _ClassVar[int]
    NOT_LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    GROUP_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    TAIL_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    TAIL_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SEAL_MISMATCH_FIELD_NUMBER: _ClassVar[int]
    NOT_ACTIVE_YET_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    may_have_taken_effect: bool
    not_leader: bool
    leader: int
    group_unknown: bool
    tail_seq_num: int
    tail_timestamp_ms: int
    fencing_token: str
    retry_after_ms: int
    seal_mismatch: bool
    not_active_yet: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., may_have_taken_effect: _Optional[bool] = ..., not_leader: _Optional[bool] = ..., leader: _Optional[int] = ..., group_unknown: _Optional[bool] = ..., tail_seq_num: _Optional[int] = ..., tail_timestamp_ms: _Optional[int] = ..., fencing_token: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., seal_mismatch: _Optional[bool] = ..., not_active_yet: _Optional[bool] = ...) -> None: ...

class AppendAck(_message.Message):
    __slots__ = ("start", "end", "tail")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    start: Position
    end: Position
    tail: Position
    def __init__(self, start: _Optional[_Union[Position, _Mapping]] = ..., end: _Optional[_Union[Position, _Mapping]] = ..., tail: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class SequencedBatch(_message.Message):
    __slots__ = ("first_seq_num", "record_count", "metered_bytes", "base_timestamp_ms", "arrival_ms", "last_timestamp_ms", "timestamping_mode", "uncapped", "expires_at_ms", "records")
    FIRST_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    METERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BASE_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPING_MODE_FIELD_NUMBER: _ClassVar[int]
    UNCAPPED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    first_seq_num: int
    record_count: int
    metered_bytes: int
    base_timestamp_ms: int
    arrival_ms: int
    last_timestamp_ms: int
    timestamping_mode: int
    uncapped: bool
    expires_at_ms: int
    records: bytes
    def __init__(self, first_seq_num: _Optional[int] = ..., record_count: _Optional[int] = ..., metered_bytes: _Optional[int] = ..., base_timestamp_ms: _Optional[int] = ..., arrival_ms: _Optional[int] = ..., last_timestamp_ms: _Optional[int] = ..., timestamping_mode: _Optional[int] = ..., uncapped: _Optional[bool] = ..., expires_at_ms: _Optional[int] = ..., records: _Optional[bytes] = ...) -> None: ...

class ReadResult(_message.Message):
    __slots__ = ("start_seq_num", "batches", "tail", "may_have_more", "group_id", "stream_id", "cipher", "shared_caching", "applied_index")
    START_SEQ_NUM_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    MAY_HAVE_MORE_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CIPHER_FIELD_NUMBER: _ClassVar[int]
    SHARED_CACHING_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    start_seq_num: int
    batches: _containers.RepeatedCompositeFieldContainer[SequencedBatch]
    tail: Position
    may_have_more: bool
    group_id: int
    stream_id: int
    cipher: str
    shared_caching: bool
    applied_index: int
    def __init__(self, start_seq_num: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[SequencedBatch, _Mapping]]] = ..., tail: _Optional[_Union[Position, _Mapping]] = ..., may_have_more: _Optional[bool] = ..., group_id: _Optional[int] = ..., stream_id: _Optional[int] = ..., cipher: _Optional[str] = ..., shared_caching: _Optional[bool] = ..., applied_index: _Optional[int] = ...) -> None: ...

class StreamInfo(_message.Message):
    __slots__ = ("name", "created_at_ms", "deleted_at_ms", "cipher")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CIPHER_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at_ms: int
    deleted_at_ms: int
    cipher: str
    def __init__(self, name: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., deleted_at_ms: _Optional[int] = ..., cipher: _Optional[str] = ...) -> None: ...

class StreamList(_message.Message):
    __slots__ = ("streams", "has_more")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[StreamInfo]
    has_more: bool
    def __init__(self, streams: _Optional[_Iterable[_Union[StreamInfo, _Mapping]]] = ..., has_more: _Optional[bool] = ...) -> None: ...

class BasinInfo(_message.Message):
    __slots__ = ("name", "created_at_ms", "deleted_at_ms", "group_id", "replicas", "location")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    created_at_ms: int
    deleted_at_ms: int
    group_id: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    location: str
    def __init__(self, name: _Optional[str] = ..., created_at_ms: _Optional[int] = ..., deleted_at_ms: _Optional[int] = ..., group_id: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., location: _Optional[str] = ...) -> None: ...

class BasinList(_message.Message):
    __slots__ = ("basins", "has_more")
    BASINS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    basins: _containers.RepeatedCompositeFieldContainer[BasinInfo]
    has_more: bool
    def __init__(self, basins: _Optional[_Iterable[_Union[BasinInfo, _Mapping]]] = ..., has_more: _Optional[bool] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("group_id", "sequence", "transfer_id", "log_index", "term", "keys", "values", "last", "digest", "pairs", "recovery", "sender_term", "encoding", "kinds", "pieces", "kept", "until", "proof")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    SENDER_TERM_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    sequence: int
    transfer_id: int
    log_index: int
    term: int
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    values: _containers.RepeatedScalarFieldContainer[bytes]
    last: bool
    digest: int
    pairs: int
    recovery: int
    sender_term: int
    encoding: int
    kinds: _containers.RepeatedScalarFieldContainer[str]
    pieces: bool
    kept: int
    until: bytes
    proof: bytes
    def __init__(self, group_id: _Optional[int] = ..., sequence: _Optional[int] = ..., transfer_id: _Optional[int] = ..., log_index: _Optional[int] = ..., term: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ..., values: _Optional[_Iterable[bytes]] = ..., last: _Optional[bool] = ..., digest: _Optional[int] = ..., pairs: _Optional[int] = ..., recovery: _Optional[int] = ..., sender_term: _Optional[int] = ..., encoding: _Optional[int] = ..., kinds: _Optional[_Iterable[str]] = ..., pieces: _Optional[bool] = ..., kept: _Optional[int] = ..., until: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class SnapshotResult(_message.Message):
    __slots__ = ("accepted", "reason", "pieces")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    pieces: _containers.RepeatedCompositeFieldContainer[SnapshotPiece]
    def __init__(self, accepted: _Optional[bool] = ..., reason: _Optional[str] = ..., pieces: _Optional[_Iterable[_Union[SnapshotPiece, _Mapping]]] = ...) -> None: ...

class SnapshotPiece(_message.Message):
    __slots__ = ("last_key", "digest")
    LAST_KEY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    last_key: bytes
    digest: bytes
    def __init__(self, last_key: _Optional[bytes] = ..., digest: _Optional[bytes] = ...) -> None: ...

class FormationReport(_message.Message):
    __slots__ = ("node_id", "incarnation", "round", "stage", "members", "places", "restored", "newest")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    incarnation: str
    round: int
    stage: int
    members: _containers.RepeatedCompositeFieldContainer[InitialNode]
    places: _containers.RepeatedCompositeFieldContainer[Place]
    restored: str
    newest: int
    def __init__(self, node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., round: _Optional[int] = ..., stage: _Optional[int] = ..., members: _Optional[_Iterable[_Union[InitialNode, _Mapping]]] = ..., places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ..., restored: _Optional[str] = ..., newest: _Optional[int] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("node_id", "ordinal", "incarnation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    ordinal: int
    incarnation: str
    def __init__(self, node_id: _Optional[int] = ..., ordinal: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class InitialNode(_message.Message):
    __slots__ = ("node_id", "incarnation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    incarnation: str
    def __init__(self, node_id: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...
