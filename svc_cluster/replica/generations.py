"""Which replicas a node ever had: a number for each, and what is left of those that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from svc_cluster.base.guarded import guarded
from svc_cluster.base.ids import Generation
from svc_cluster.base.write_set import WriteSet
from svc_cluster.replica.group_replica import STALL_RETRY_SECONDS
from svc_cluster.replica.group_services import GroupServices
from svc_cluster.replica.prefixed import PREFIX_BYTES, generation_end, generation_prefix
from svc_cluster.storage.state_store import StoreStalledError


class Generations:
    """The generations of one node. Their keys in the store go when nothing names them any more."""

    def __init__(
        self,
        services: GroupServices,
        newest: Generation,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`newest`: the highest that the log names."""
        self._services = services
        self._newest = newest
        self._sweep_again = guarded(self._sweep, on_fatal)
        self._garbage: list[Generation] = []
        self._stopped = False

    def new(self) -> Generation:
        self._newest = Generation(self._newest + 1)
        return self._newest

    def stop(self) -> None:
        """The next start finds what is not deleted yet."""
        self._stopped = True

    def discard(self, generation: Generation) -> None:
        """Delete what the store has of it, once the store takes writes."""
        self._garbage.append(generation)
        self._sweep()

    def _sweep(self) -> None:
        while self._garbage and not self._stopped:
            generation = self._garbage[0]
            write_set = WriteSet()
            write_set.delete_range(generation_prefix(generation), generation_end(generation))
            try:
                self._services.store.write(write_set)
            except StoreStalledError:
                self._services.loop.call_later(STALL_RETRY_SECONDS, self._sweep_again)
                return
            self._garbage.pop(0)

    def clear_strays(self, live: Iterable[Generation], *, keep_all: bool) -> bool:
        """Delete what an install or a destruction that a crash interrupted has left behind. Nothing
        is deleted while the log is damaged or gone, which may have named it (`keep_all`). Returns
        whether the store holds anything."""
        known = set(live)
        start = b""
        while True:
            pair = next(self._services.store.scan(start, b"\xff" * PREFIX_BYTES), None)
            if pair is None:
                return start != b""
            generation = Generation(int.from_bytes(pair[0][:PREFIX_BYTES], "big"))
            self._newest = max(self._newest, generation)
            if generation not in known and not keep_all:
                self.discard(generation)
            start = generation_end(generation)
