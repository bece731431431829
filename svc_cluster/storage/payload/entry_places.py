"""Where the payloads of one group's entries stand, as far as they are not in its log."""

from __future__ import annotations

from collections.abc import Iterator

from svc_cluster.storage.payload.payload_frame import PayloadPlace


class EntryPlaces:
    """Places by log index. They are noted in the order of the log."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, PayloadPlace] = {}

    def note(self, log_index: int, place: PayloadPlace) -> None:
        """The entry's payload stands there. It is the last entry of the log."""
        self._places[log_index] = place

    def get(self, log_index: int) -> PayloadPlace | None:
        return self._places.get(log_index)

    def trim(self, log_index: int) -> None:
        """Forget the entries up to and including `log_index`."""
        while self._places and (first := next(iter(self._places))) <= log_index:
            del self._places[first]

    def truncate(self, first_removed: int) -> None:
        """Forget the entries from `first_removed` on."""
        while self._places and (last := next(reversed(self._places))) >= first_removed:
            del self._places[last]

    def clear(self) -> None:
        self._places.clear()

    def numbers(self) -> set[int]:
        """The files that are named."""
        return {place.number for place in self._places.values()}

    def __iter__(self) -> Iterator[PayloadPlace]:
        return iter(self._places.values())

    def __len__(self) -> int:
        return len(self._places)

    def bytes_between(self, log_index: int, last: int) -> int:
        """Bytes of the entries behind `log_index`, up to and including `last`."""
        size = 0
        for index in reversed(self._places):
            if index <= log_index:
                break
            if index <= last:
                size += self._places[index].length
        return size
