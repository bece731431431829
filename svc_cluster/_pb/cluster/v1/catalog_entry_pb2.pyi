from svc_cluster._pb.cluster.v1 import access_pb2 as _access_pb2
from svc_cluster._pb.cluster.v1 import config_pb2 as _config_pb2
from svc_cluster._pb.cluster.v1 import usage_pb2 as _usage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CatalogEntry(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[CatalogCommand]
    def __init__(self, commands: _Optional[_Iterable[_Union[CatalogCommand, _Mapping]]] = ...) -> None: ...

class CatalogCommand(_message.Message):
    __slots__ = ("register_node", "create_basin", "delete_basin", "remove_basin", "keyed_write", "expire_outcomes", "issue_token", "revoke_token", "set_root_token", "set_default_location", "report_usage", "raise_active_version", "replace_node", "drain_node", "begin_change", "cancel_change", "allow_seal", "configured", "open_ticket", "admit_node", "remove_node")
    REGISTER_NODE_FIELD_NUMBER: _ClassVar[int]
    CREATE_BASIN_FIELD_NUMBER: _ClassVar[int]
    DELETE_BASIN_FIELD_NUMBER: _ClassVar[int]
    REMOVE_BASIN_FIELD_NUMBER: _ClassVar[int]
    KEYED_WRITE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    ISSUE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SET_ROOT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SET_DEFAULT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    REPORT_USAGE_FIELD_NUMBER: _ClassVar[int]
    RAISE_ACTIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_NODE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_NODE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_CHANGE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_CHANGE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SEAL_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    OPEN_TICKET_FIELD_NUMBER: _ClassVar[int]
    ADMIT_NODE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_FIELD_NUMBER: _ClassVar[int]
    register_node: RegisterNode
    create_basin: CreateBasin
    delete_basin: DeleteBasin
    remove_basin: RemoveBasin
    keyed_write: IdempotentCatalogWrite
    expire_outcomes: ExpireIdempotencyKeys
    issue_token: IssueToken
    revoke_token: RevokeToken
    set_root_token: SetRootToken
    set_default_location: SetDefaultLocation
    report_usage: ReportUsage
    raise_active_version: RaiseActiveVersion
    replace_node: ReplaceNode
    drain_node: DrainNode
    begin_change: BeginChange
    cancel_change: CancelChange
    allow_seal: AllowSeal
    configured: Configured
    open_ticket: OpenTicket
    admit_node: AdmitNode
    remove_node: RemoveNode
    def __init__(self, register_node: _Optional[_Union[RegisterNode, _Mapping]] = ..., create_basin: _Optional[_Union[CreateBasin, _Mapping]] = ..., delete_basin: _Optional[_Union[DeleteBasin, _Mapping]] = ..., remove_basin: _Optional[_Union[RemoveBasin, _Mapping]] = ..., keyed_write: _Optional[_Union[IdempotentCatalogWrite, _Mapping]] = ..., expire_outcomes: _Optional[_Union[ExpireIdempotencyKeys, _Mapping]] = ..., issue_token: _Optional[_Union[IssueToken, _Mapping]] = ..., revoke_token: _Optional[_Union[RevokeToken, _Mapping]] = ..., set_root_token: _Optional[_Union[SetRootToken, _Mapping]] = ..., set_default_location: _Optional[_Union[SetDefaultLocation, _Mapping]] = ..., report_usage: _Optional[_Union[ReportUsage, _Mapping]] = ..., raise_active_version: _Optional[_Union[RaiseActiveVersion, _Mapping]] = ..., replace_node: _Optional[_Union[ReplaceNode, _Mapping]] = ..., drain_node: _Optional[_Union[DrainNode, _Mapping]] = ..., begin_change: _Optional[_Union[BeginChange, _Mapping]] = ..., cancel_change: _Optional[_Union[CancelChange, _Mapping]] = ..., allow_seal: _Optional[_Union[AllowSeal, _Mapping]] = ..., configured: _Optional[_Union[Configured, _Mapping]] = ..., open_ticket: _Optional[_Union[OpenTicket, _Mapping]] = ..., admit_node: _Optional[_Union[AdmitNode, _Mapping]] = ..., remove_node: _Optional[_Union[RemoveNode, _Mapping]] = ...) -> None: ...

class RegisterNode(_message.Message):
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

class ReplaceNode(_message.Message):
    __slots__ = ("node_id", "ordinal", "incarnation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    ordinal: int
    incarnation: str
    def __init__(self, node_id: _Optional[int] = ..., ordinal: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class BeginChange(_message.Message):
    __slots__ = ("group_id", "configuration", "replicas", "reason", "present")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    configuration: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    present: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, group_id: _Optional[int] = ..., configuration: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ..., present: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelChange(_message.Message):
    __slots__ = ("group_id", "change_id", "term")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    change_id: int
    term: int
    def __init__(self, group_id: _Optional[int] = ..., change_id: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class AllowSeal(_message.Message):
    __slots__ = ("group_id", "change_id", "term")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    change_id: int
    term: int
    def __init__(self, group_id: _Optional[int] = ..., change_id: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class Configured(_message.Message):
    __slots__ = ("group_id", "configuration", "change_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    configuration: int
    change_id: int
    def __init__(self, group_id: _Optional[int] = ..., configuration: _Optional[int] = ..., change_id: _Optional[int] = ...) -> None: ...

class CreateBasin(_message.Message):
    __slots__ = ("name", "group_id", "replicas", "created_at_ms", "config", "creation_hash", "location", "owner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CREATION_HASH_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: str
    group_id: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    created_at_ms: int
    config: _config_pb2.BasinConfig
    creation_hash: bytes
    location: str
    owner: int
    def __init__(self, name: _Optional[str] = ..., group_id: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., created_at_ms: _Optional[int] = ..., config: _Optional[_Union[_config_pb2.BasinConfig, _Mapping]] = ..., creation_hash: _Optional[bytes] = ..., location: _Optional[str] = ..., owner: _Optional[int] = ...) -> None: ...

class DeleteBasin(_message.Message):
    __slots__ = ("name", "deleted_at_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    deleted_at_ms: int
    def __init__(self, name: _Optional[str] = ..., deleted_at_ms: _Optional[int] = ...) -> None: ...

class RemoveBasin(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: int
    def __init__(self, group_id: _Optional[int] = ...) -> None: ...

class IssueToken(_message.Message):
    __slots__ = ("token", "issued_at_ms")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    token: _access_pb2.AccessToken
    issued_at_ms: int
    def __init__(self, token: _Optional[_Union[_access_pb2.AccessToken, _Mapping]] = ..., issued_at_ms: _Optional[int] = ...) -> None: ...

class RevokeToken(_message.Message):
    __slots__ = ("serial",)
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    serial: int
    def __init__(self, serial: _Optional[int] = ...) -> None: ...

class SetRootToken(_message.Message):
    __slots__ = ("secret_hash", "change_id", "only_if_absent")
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    ONLY_IF_ABSENT_FIELD_NUMBER: _ClassVar[int]
    secret_hash: bytes
    change_id: bytes
    only_if_absent: bool
    def __init__(self, secret_hash: _Optional[bytes] = ..., change_id: _Optional[bytes] = ..., only_if_absent: _Optional[bool] = ...) -> None: ...

class SetDefaultLocation(_message.Message):
    __slots__ = ("name", "before")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    name: str
    before: str
    def __init__(self, name: _Optional[str] = ..., before: _Optional[str] = ...) -> None: ...

class IdempotentCatalogWrite(_message.Message):
    __slots__ = ("key", "decided_at_ms", "answer", "write")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    decided_at_ms: int
    answer: bytes
    write: CatalogCommand
    def __init__(self, key: _Optional[bytes] = ..., decided_at_ms: _Optional[int] = ..., answer: _Optional[bytes] = ..., write: _Optional[_Union[CatalogCommand, _Mapping]] = ...) -> None: ...

class ExpireIdempotencyKeys(_message.Message):
    __slots__ = ("before_ms", "at_most")
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    before_ms: int
    at_most: int
    def __init__(self, before_ms: _Optional[int] = ..., at_most: _Optional[int] = ...) -> None: ...

class RaiseActiveVersion(_message.Message):
    __slots__ = ("version", "nodes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    version: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeVersion]
    def __init__(self, version: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeVersion, _Mapping]]] = ...) -> None: ...

class NodeVersion(_message.Message):
    __slots__ = ("node_id", "incarnation", "newest")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    incarnation: str
    newest: int
    def __init__(self, node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., newest: _Optional[int] = ...) -> None: ...

class ReportUsage(_message.Message):
    __slots__ = ("at_ms", "report")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    report: _usage_pb2.Report
    def __init__(self, at_ms: _Optional[int] = ..., report: _Optional[_Union[_usage_pb2.Report, _Mapping]] = ...) -> None: ...

class DrainNode(_message.Message):
    __slots__ = ("node_id", "drains")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DRAINS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    drains: bool
    def __init__(self, node_id: _Optional[int] = ..., drains: _Optional[bool] = ...) -> None: ...

class OpenTicket(_message.Message):
    __slots__ = ("node_id", "secret_hash", "expires_at_ms", "now_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    secret_hash: bytes
    expires_at_ms: int
    now_ms: int
    def __init__(self, node_id: _Optional[int] = ..., secret_hash: _Optional[bytes] = ..., expires_at_ms: _Optional[int] = ..., now_ms: _Optional[int] = ...) -> None: ...

class AdmitNode(_message.Message):
    __slots__ = ("node", "secret_hash", "now_ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SECRET_HASH_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    node: RegisterNode
    secret_hash: bytes
    now_ms: int
    def __init__(self, node: _Optional[_Union[RegisterNode, _Mapping]] = ..., secret_hash: _Optional[bytes] = ..., now_ms: _Optional[int] = ...) -> None: ...

class RemoveNode(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    def __init__(self, node_id: _Optional[int] = ...) -> None: ...
