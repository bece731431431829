"""Which groups rest by agreement of two nodes, as both of them can count them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

from svc_cluster.base.ids import GroupId, Term


class RestPact:
    """The groups that one node leads and that rest with another one's consent."""

    def __init__(self) -> None:
        self._terms: dict[GroupId, Term] = {}
        self.digest = 0
        """64 bits, of the groups and their terms, in whatever order they came."""

    def __len__(self) -> int:
        return len(self._terms)

    def __iter__(self) -> Iterator[GroupId]:
        """In order of their ids."""
        return iter(sorted(self._terms))

    def add(self, group_id: GroupId, term: Term) -> None:
        assert group_id not in self._terms, "a group rests once"
        self._terms[group_id] = term
        self.digest ^= _digest(group_id, term)

    def remove(self, group_id: GroupId) -> None:
        self.digest ^= _digest(group_id, self._terms.pop(group_id))

    def listed(self) -> tuple[tuple[GroupId, Term], ...]:
        return tuple(sorted(self._terms.items()))

    def without(self, other: Mapping[GroupId, Term]) -> list[GroupId]:
        """Those that are not in `other` with the same term, in order."""
        return [one for one, term in self.listed() if other.get(one) != term]


def _digest(group_id: GroupId, term: Term) -> int:
    data = b"%d/%d" % (group_id, term)
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
