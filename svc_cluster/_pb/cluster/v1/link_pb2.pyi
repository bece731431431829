from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Greeting(_message.Message):
    __slots__ = ("challenge", "claim", "welcome", "refusal")
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    challenge: Challenge
    claim: Claim
    welcome: Welcome
    refusal: Refusal
    def __init__(self, challenge: _Optional[_Union[Challenge, _Mapping]] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Challenge(_message.Message):
    __slots__ = ("version_min", "version_max", "nonce")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    nonce: bytes
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("version", "nonce", "speaker", "proof")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    version: int
    nonce: bytes
    speaker: bytes
    proof: bytes
    def __init__(self, version: _Optional[int] = ..., nonce: _Optional[bytes] = ..., speaker: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("speaker", "proof")
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    speaker: bytes
    proof: bytes
    def __init__(self, speaker: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Speaker(_message.Message):
    __slots__ = ("cluster_id", "role", "node_id", "incarnation", "features", "basin_commands", "catalog_commands", "version_oldest", "version_newest", "places")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    BASIN_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    CATALOG_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_OLDEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_NEWEST_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    role: str
    node_id: int
    incarnation: str
    features: _containers.RepeatedScalarFieldContainer[str]
    basin_commands: int
    catalog_commands: int
    version_oldest: int
    version_newest: int
    places: _containers.RepeatedCompositeFieldContainer[SpeakerPlace]
    def __init__(self, cluster_id: _Optional[str] = ..., role: _Optional[str] = ..., node_id: _Optional[int] = ..., incarnation: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., basin_commands: _Optional[int] = ..., catalog_commands: _Optional[int] = ..., version_oldest: _Optional[int] = ..., version_newest: _Optional[int] = ..., places: _Optional[_Iterable[_Union[SpeakerPlace, _Mapping]]] = ...) -> None: ...

class SpeakerPlace(_message.Message):
    __slots__ = ("node_id", "ordinal", "incarnation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    ordinal: int
    incarnation: bytes
    def __init__(self, node_id: _Optional[int] = ..., ordinal: _Optional[int] = ..., incarnation: _Optional[bytes] = ...) -> None: ...
