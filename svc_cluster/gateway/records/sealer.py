"""From a key and a stream's name to sealed batches, and from what was read to its records.

Before a batch is sealed it must be known which stream has the name, and with which cipher. What is
remembered of that may be out of date; the leader takes no batch that was sealed for another stream,
and none that is plain where records are encrypted, so that being wrong costs a question and no
more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from svc_cluster.base.errors import KeyRequiredError, SealMismatchError
from svc_cluster.codec.batch_codec import Open
from svc_cluster.codec.sealed_batch import seal_steps
from svc_cluster.gateway.cluster.backend import Backend, ReadResult
from svc_cluster.gateway.records.record_cipher import Random, RecordCipher, new_salt
from svc_cluster.gateway.request.record_key import RecordKey
from svc_cluster.model.cipher import StreamIdentity
from svc_cluster.model.record import AppendAck, StoredBatch

IDENTITIES_MAX: Final = 10_000


class Sealer:
    """One for each gateway; holds no keys."""

    def __init__(
        self, backend: Backend, random: Random, turn: Callable[[], Awaitable[None]]
    ) -> None:
        """`turn` waits for the next turn of the loop in which a step may be done."""
        self._backend = backend
        self._turn = turn
        self._random = random
        self._salt = new_salt(random)
        # Least recently used first.
        self._identities: dict[tuple[str, str], StreamIdentity] = {}

    # -- appending

    async def identity(self, basin: str, stream: str) -> StreamIdentity:
        """Which stream has the name now. Raises what `Backend.describe_stream` raises."""
        names = (basin, stream)
        self._identities.pop(names, None)
        found = await self._backend.describe_stream(basin, stream)
        self._identities[names] = found
        if len(self._identities) > IDENTITIES_MAX:
            del self._identities[next(iter(self._identities))]
        return found

    async def append(
        self,
        basin: str,
        stream: str,
        batch: StoredBatch,
        key: RecordKey,
        send: Callable[[StoredBatch], Awaitable[AppendAck]],
    ) -> AppendAck:
        """Seal `batch` where the stream is encrypted and `send` it. That is done once more if it
        was sealed for a stream that no longer has the name. Raises what `send` raises."""
        names = (basin, stream)
        identity = self._identities.pop(names, None)
        if identity is None:
            identity = await self.identity(basin, stream)
        else:
            self._identities[names] = identity
        try:
            return await send(await self.seal(batch, identity, key))
        except (KeyRequiredError, SealMismatchError):
            identity = await self.identity(basin, stream)
        try:
            return await send(await self.seal(batch, identity, key))
        except KeyRequiredError as replaced:
            raise SealMismatchError("another stream has taken the name") from replaced

    async def seal(
        self, batch: StoredBatch, identity: StreamIdentity, key: RecordKey | None
    ) -> StoredBatch:
        """`batch` as it may go into the stream: as it is, where that is plain. Raises
        KeyRequiredError."""
        if identity.cipher is None:
            return batch
        if key is None:
            raise KeyRequiredError.of(identity.cipher)
        cipher = RecordCipher(identity, key, self._random)
        sealed: StoredBatch | None = None
        for step in seal_steps(batch, identity, cipher.seal):
            if step is None:
                await self._turn()
            sealed = step
        assert sealed is not None, "the last step has the batch"
        return sealed

    # -- reading

    def opener(self, result: ReadResult, key: RecordKey | None) -> Open | None:
        """What opens the records of `result`; None: they are plain. Raises KeyRequiredError."""
        if result.cipher is None:
            return None
        if key is None:
            raise KeyRequiredError.of(result.cipher)
        identity = StreamIdentity(*result.incarnation, result.cipher)
        return RecordCipher(identity, key, self._random).open

    def fingerprint(self, key: RecordKey | None) -> bytes:
        """Equal for equal keys, within this process; empty for none."""
        return b"" if key is None else key.fingerprint(self._salt)

    def __len__(self) -> int:
        """Streams whose identity is remembered."""
        return len(self._identities)
