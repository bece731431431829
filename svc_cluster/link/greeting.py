"""Who is calling, and who answers: both prove the cluster secret, neither sends it.

The acceptor challenges with a nonce of its own, so that a proof that was overheard proves nothing a
second time. Until the proofs are complete a side reads GREETING_BYTES_MAX bytes and no more.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from svc_cluster._pb.cluster.v1 import link_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.link.frame import FrameError
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.model import versions
from svc_cluster.model.places import Place, Places, are_places
from svc_cluster.model.versions import SPOKEN, Spoken

PROTOCOL_VERSION_MIN: Final = 1
PROTOCOL_VERSION_MAX: Final = versions.newest_read(versions.LINK)

GREETING_BYTES_MAX: Final = 4 * 1024
NONCE_BYTES: Final = 32
REASON_CHARS_MAX: Final = 200
ROLES: Final = ("node", "gateway", "administrator")


@dataclass(frozen=True, slots=True)
class Speaker:
    """One side of a conversation, as it describes itself under its proof."""

    identity: Identity
    features: tuple[str, ...] = ()
    basin_commands: int = 0
    """The newest kind of command of a basin's log that it can apply; 0: it applies none."""

    catalog_commands: int = 0
    versions: Spoken = SPOKEN
    """The active versions of a cluster that it works under."""
    places: Places = ()
    """The places that a node knows to be given away, all of them on its disk."""


class RefusedError(HandshakeError):
    """The acceptor gave a reason why it does not talk."""


def make_challenge(nonce: bytes) -> bytes:
    assert len(nonce) == NONCE_BYTES
    greeting = pb.Greeting()
    greeting.challenge.version_min = PROTOCOL_VERSION_MIN
    greeting.challenge.version_max = PROTOCOL_VERSION_MAX
    greeting.challenge.nonce = nonce
    return greeting.SerializeToString()


def make_claim(
    secret: bytes, challenge: bytes, speaker: Speaker, nonce: bytes
) -> tuple[bytes, int]:
    """The caller's answer to a challenge, and the version that both then speak. Raises
    RefusedError with the acceptor's reason, HandshakeError when no version is common to both."""
    greeting = _parse(challenge, "challenge")
    given = greeting.challenge
    version = min(PROTOCOL_VERSION_MAX, given.version_max)
    if version < max(PROTOCOL_VERSION_MIN, given.version_min):
        raise HandshakeError(
            f"the other side speaks versions {given.version_min} to {given.version_max} of the "
            f"link protocol, this process {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION_MAX}"
        )
    if len(given.nonce) != NONCE_BYTES:
        raise FrameError("a challenge with a nonce of another length")
    answer = pb.Greeting()
    claim = answer.claim
    claim.version = version
    claim.nonce = nonce
    claim.speaker = _encode(speaker)
    claim.proof = _proof(secret, b"caller", given.nonce, nonce, version, claim.speaker)
    return answer.SerializeToString(), version


def check_claim(
    secret: bytes, cluster_id: str, own_nonce: bytes, claim: bytes
) -> tuple[Speaker, bytes, int]:
    """The proven caller, its nonce, and the version. Raises HandshakeError for a wrong secret,
    another cluster or a version that is not spoken here."""
    given = _parse(claim, "claim").claim
    expected = _proof(secret, b"caller", own_nonce, given.nonce, given.version, given.speaker)
    if len(given.nonce) != NONCE_BYTES or not hmac.compare_digest(given.proof, expected):
        raise HandshakeError("the caller does not know the cluster secret")
    if not PROTOCOL_VERSION_MIN <= given.version <= PROTOCOL_VERSION_MAX:
        raise HandshakeError(f"version {given.version} of the link protocol is not spoken here")
    return _decode(given.speaker, cluster_id), given.nonce, given.version


def make_welcome(
    secret: bytes, own_nonce: bytes, caller_nonce: bytes, version: int, speaker: Speaker
) -> bytes:
    greeting = pb.Greeting()
    welcome = greeting.welcome
    welcome.speaker = _encode(speaker)
    welcome.proof = _proof(secret, b"acceptor", own_nonce, caller_nonce, version, welcome.speaker)
    return greeting.SerializeToString()


def check_welcome(
    secret: bytes, cluster_id: str, challenge: bytes, own_nonce: bytes, version: int, welcome: bytes
) -> Speaker:
    """The proven acceptor. Raises RefusedError with its reason, HandshakeError for a wrong one."""
    given = _parse(welcome, "welcome").welcome
    nonce = _parse(challenge, "challenge").challenge.nonce
    expected = _proof(secret, b"acceptor", nonce, own_nonce, version, given.speaker)
    if not hmac.compare_digest(given.proof, expected):
        raise HandshakeError("the other side does not know the cluster secret")
    return _decode(given.speaker, cluster_id)


def make_refusal(reason: str) -> bytes:
    greeting = pb.Greeting()
    greeting.refusal.reason = reason[:REASON_CHARS_MAX]
    return greeting.SerializeToString()


def _parse(data: bytes, step: str) -> pb.Greeting:
    try:
        greeting = pb.Greeting.FromString(data)
    except DecodeError as cause:
        raise FrameError("not a greeting") from cause
    found = greeting.WhichOneof("step")
    if found == "refusal":
        raise RefusedError(greeting.refusal.reason[:REASON_CHARS_MAX] or "no reason was given")
    if found != step:
        raise FrameError(f"a greeting out of turn: {found} instead of {step}")
    return greeting


def _encode(speaker: Speaker) -> bytes:
    out = pb.Speaker()
    identity = speaker.identity
    out.cluster_id = identity.cluster_id
    out.role = identity.role
    out.node_id = identity.node_id
    out.incarnation = identity.incarnation
    out.features.extend(speaker.features)
    out.basin_commands = speaker.basin_commands
    out.catalog_commands = speaker.catalog_commands
    out.version_oldest = speaker.versions.oldest
    out.version_newest = speaker.versions.newest
    for place in speaker.places:
        incarnation = bytes.fromhex(place.incarnation)
        out.places.add(node_id=place.node_id, ordinal=place.ordinal, incarnation=incarnation)
    return out.SerializeToString()


def _decode(data: bytes, cluster_id: str) -> Speaker:
    try:
        given = pb.Speaker.FromString(data)
    except DecodeError as cause:
        raise FrameError("not a speaker") from cause
    if given.cluster_id != cluster_id:
        raise HandshakeError("the caller belongs to another cluster")
    is_node = given.role == "node"
    places = tuple(
        Place(NodeId(place.node_id), place.ordinal, place.incarnation.hex())
        for place in given.places
    )
    if not are_places(places):
        raise HandshakeError("the caller names places that there cannot be")
    if given.role not in ROLES or not given.incarnation or is_node != bool(given.node_id):
        raise HandshakeError("the caller does not say who it is")
    return Speaker(
        Identity(given.cluster_id, given.role, NodeId(given.node_id), given.incarnation),
        tuple(given.features),
        given.basin_commands,
        given.catalog_commands,
        Spoken(given.version_oldest or versions.FIRST, given.version_newest or versions.FIRST),
        places,
    )


def _proof(
    secret: bytes, side: bytes, challenge: bytes, nonce: bytes, version: int, speaker: bytes
) -> bytes:
    """What is proved holds for one side, one pair of nonces and one description of the speaker."""
    parts = (
        b"svc-cluster link",
        side,
        challenge,
        nonce,
        str(version).encode(),
        speaker,
    )
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, text, hashlib.sha256).digest()
