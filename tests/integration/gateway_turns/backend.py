"""A cluster whose answers are as large as they may be, at no cost to the gateway's loop."""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from typing import Any, Final

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import SeqNum, TimestampMs
from svc_cluster.codec.batch_codec import RecordIn
from svc_cluster.codec.batch_rules import METERED_BYTES_MAX, RECORDS_MAX
from svc_cluster.gateway.cluster.backend import AppendWatch, BasinInfo, ReadResult, StreamInfo
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.gateway.records.record_cipher import RecordCipher
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.model.access import ROOT_SCOPE, Op, OpGroups, ReadWrite, Scope, exact, prefix
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import NO_PARENT, AccessToken, AskedBy, Expiry, TokenRequest
from svc_cluster.model.cipher import AEGIS_256, AES_256_GCM, StreamIdentity
from svc_cluster.model.read_bounds import ReadBounds, ReadStart
from svc_cluster.model.record import AppendAck, Position, StoredBatch
from svc_cluster.model.stream_config import BasinConfig, NewStream
from svc_cluster.model.usage import Counts, Readings, UsageReport
from tests.at_once import build_batch, seal_batch
from tests.contract.memory_backend import MemoryBackend

BASIN: Final = "turns-basin"
SECRET: Final = secret_text(bytes(range(32)))
KEY: Final = bytes(range(32))
PAGE: Final = 1000
TOKENS: Final = 2 * PAGE
CIPHERS: Final = {"aegis": AEGIS_256, "aes": AES_256_GCM}

BODY_BYTES: Final = METERED_BYTES_MAX // RECORDS_MAX - 8
HEADERS_OF_ONE: Final = (METERED_BYTES_MAX - 8) // 3
HEADERS_OF_MANY: Final = BODY_BYTES // 3


def _noise(size: int) -> bytes:
    """Text that cannot be compressed much."""
    return base64.b64encode(random.Random(1).randbytes(size))[:size]


SHAPES: Final[dict[str, list[RecordIn]]] = {
    "bodies": [(None, (), b"x" * BODY_BYTES)] * RECORDS_MAX,
    "escapes": [(None, (), b"\x01" * BODY_BYTES)] * RECORDS_MAX,
    "headers": [(None, ((b"a", b""),) * HEADERS_OF_MANY, b"")] * RECORDS_MAX,
    "header-heap": [(None, ((b"a", b""),) * HEADERS_OF_ONE, b"")],
    "garbage": [(None, (), b"\xff" * BODY_BYTES)] * RECORDS_MAX,
    "noise": [(None, (), _noise(METERED_BYTES_MAX - 8))],
    "empty": [(None, (), b"")] * RECORDS_MAX,
}
"""Whole batches at one of their limits each."""

_BATCHES_OF_EMPTY: Final = METERED_BYTES_MAX // (8 * RECORDS_MAX)
_WORST_NAME: Final = "\x01"
ACTIVE: Final = {f"b{n:047}" for n in range(20_000)}


class LargeBackend(MemoryBackend):
    """Lists are pages at their maximum; what is appended is dropped, and what is read was there."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        now = clock.wall_ms()
        self._basins_page = [BasinInfo(f"b{n:047}", now, None, "local") for n in range(PAGE)]
        self._streams_page = [
            StreamInfo(f"{n:04}" + _WORST_NAME * 508, now, None, AEGIS_256) for n in range(PAGE)
        ]
        self._ciphers: dict[str, StreamIdentity] = {}

    async def fill(self) -> None:
        await self.create_basin(BASIN, BasinConfig())
        await self.create_stream(BASIN, "log", NewStream())
        for shape, records in SHAPES.items():
            batch = build_batch(records)
            await self.create_stream(BASIN, shape, NewStream())
            for _ in range(_BATCHES_OF_EMPTY if shape == "empty" else 1):
                await super().append(BASIN, shape, batch, None, None)
            for short, cipher in CIPHERS.items():
                name = f"{short}-{shape}"
                identity = self._ciphers[name] = StreamIdentity(1, len(self._ciphers), cipher)
                seal = RecordCipher(identity, RecordKey(KEY), bytes).seal
                await self.create_stream(BASIN, name, NewStream())
                await super().append(BASIN, name, seal_batch(batch, identity, seal), None, None)

    async def describe_stream(self, basin: str, stream: str) -> StreamIdentity:
        return self._ciphers.get(stream) or await super().describe_stream(basin, stream)

    async def delete_basin(self, name: str, *, request_key: bytes = b"") -> None:
        pass

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        match_seq_num: int | None,
        fencing_token: str | None,
        *,
        request_key: bytes = b"",
        watch: AppendWatch | None = None,
    ) -> AppendAck:
        start = Position(SeqNum(7), TimestampMs(7))
        end = Position(SeqNum(7 + batch.record_count), TimestampMs(8))
        return AppendAck(start, end, end)

    async def read(
        self, basin: str, stream: str, start: ReadStart, bounds: ReadBounds, **more: Any
    ) -> ReadResult:
        result = await super().read(basin, stream, start, bounds, **more)
        identity = self._ciphers.get(stream)
        if identity is None:
            return result
        incarnation = (identity.group_id, identity.stream_id)
        return replace(result, incarnation=incarnation, cipher=identity.cipher)

    async def list_basins(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[BasinInfo], bool]:
        return self._basins_page, True

    async def list_streams(
        self, basin: str, prefix: str, start_after: str, limit: int
    ) -> tuple[list[StreamInfo], bool]:
        return self._streams_page, True


def largest_scope() -> Scope:
    both = ReadWrite(read=True, write=True)
    return Scope(
        basins=exact("b" * 48),
        streams=prefix(_WORST_NAME * 512),
        access_tokens=prefix(_WORST_NAME * 96),
        op_groups=OpGroups(both, both, both),
        ops=tuple(Op),
    )


class LargeTokens:
    """Implements `TokenBackend`: pages of tokens with the largest scopes, and a root token."""

    def __init__(self) -> None:
        self._root = AccessToken(1, "root", secret_hash(SECRET), NO_PARENT, ROOT_SCOPE)
        expiry = Expiry.parse("2099-12-31T23:59:59.999999999+23:59")
        self._tokens = [
            AccessToken(
                serial,
                f"{serial:04}" + _WORST_NAME * 92,
                secret_hash(str(serial)),
                1,
                largest_scope(),
                expires_at=expiry,
            )
            for serial in range(2, TOKENS + 2)
        ]
        self.renewals = 0

    async def renew(
        self, gateway_id: str, version: int, *, read_all: bool, after_serial: int
    ) -> TokenNews:
        self.renewals += 1
        if read_all:
            found = [t for t in [self._root, *self._tokens] if t.serial > after_serial]
            page = tuple((token.serial, token) for token in found[:PAGE])
            return TokenNews(False, 9, False, page, len(found) <= PAGE)
        return TokenNews(version == 9, 9, version != 9, (), False, 1)

    async def issue(
        self,
        request: TokenRequest,
        secret_hash: bytes,
        asked_by: AskedBy,
        *,
        key: bytes = b"",
        sealed_secret: bytes = b"",
    ) -> bytes | None:
        return None

    async def revoke(self, token_id: str, asked_by: AskedBy, *, key: bytes = b"") -> None:
        pass

    async def page(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[AccessToken], bool]:
        return self._tokens[:limit], True


class LargeUsage:
    """Implements `UsageBackend`: something of everything in every minute."""

    async def report(self, basin: str | None, report: UsageReport) -> None:
        pass

    async def usage(
        self, basin: str | None, start: int, end: int, step_seconds: int
    ) -> list[tuple[int, Counts]]:
        most = 2**53
        counts = Counts(
            append_ops_standard=most,
            append_ops_express=most,
            append_bytes_standard=most,
            append_bytes_express=most,
            read_ops_unary=most,
            read_ops_streaming=most,
            read_bytes=most,
            ops={op.value: most for op in Op},
        )
        first = start // step_seconds * step_seconds
        return [(at, counts) for at in range(first, end, step_seconds)]

    async def storage(
        self, basin: str, stream: str | None, start: int, end: int, step_seconds: int
    ) -> Readings:
        changes = tuple((at, at << 20) for at in range(start, end, step_seconds))
        return Readings(1, changes, 3)

    async def active_basins(self, start: int, end: int) -> set[str]:
        return ACTIVE
