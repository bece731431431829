"""What a receiver holds of a snapshot that did not arrive whole, and what of it may stay.

A piece is all that a group's state has between two keys, with a digest of these bytes. Whoever
sends next, of whichever index, reads the same keys in its own frozen view: a piece stays only where
that gives the same digest. So what is installed is byte for byte the view of its sender, and it
does not matter whose transfer brought which piece. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

DIGEST_BYTES: Final = 16

OFFERED_MAX: Final = 256
"""Pieces that one answer tells of."""

PIECES_MAX: Final = 32_768
"""Pieces that are remembered of one group, some 200 bytes each; what lies behind is sent again."""

_PAIRS: Final = b"snapshot pairs 1"
_PIECES: Final = b"snapshot whole 1"
"""Each digest is for one use and one form of it: another release's form is equal to nothing."""


def pairs_hasher() -> hashlib.blake2b:
    """For the pairs of one piece."""
    return hashlib.blake2b(digest_size=DIGEST_BYTES, person=_PAIRS)


def proof_hasher() -> hashlib.blake2b:
    """For the digests of all pieces, in order."""
    return hashlib.blake2b(digest_size=DIGEST_BYTES, person=_PIECES)


class Piece(NamedTuple):
    """A Piece is what is held from the end of the one before it up to `last_key`, and with it.
    `digest`: empty where nobody knows what exactly that is."""

    last_key: bytes
    digest: bytes
    pairs: int


class ReceivedPieces:
    """The ReceivedPieces of one group lie end to end from the first key on.

    A transfer goes over them once, from `begin` on: up to its place everything is as its sender has
    it. Behind that are pieces of earlier transfers.
    """

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._at = 0
        self._place = b""
        self._reached = b""
        """No row was ever written behind this key."""
        self._proof = proof_hasher()

    def begin(self) -> None:
        """Another transfer goes over them: nothing is known to be as its sender has it."""
        self._at, self._place = 0, b""
        self._proof = proof_hasher()

    @property
    def proof(self) -> bytes:
        """What the sender has to come to as well."""
        return self._proof.digest()

    def offered(self) -> Sequence[Piece]:
        """The next ones behind the place."""
        return self._pieces[self._at : self._at + OFFERED_MAX]

    def keep(self, count: int) -> int | None:
        """The sender has the same in the next `count` pieces. Return how many pairs they are; None
        where it was not told of so many whose bytes are known."""
        kept = self._pieces[self._at : self._at + count]
        if len(kept) != count or count > OFFERED_MAX or not all(piece.digest for piece in kept):
            return None
        for piece in kept:
            self._proof.update(piece.digest)
            self._place = piece.last_key
        self._at += count
        return sum(piece.pairs for piece in kept)

    def fits(self, keys: Sequence[bytes], until: bytes) -> bool:
        """Whether these keys ascend, and lie behind the place and not behind `until`."""
        before = self._place
        for key in keys:
            if key <= before:
                return False
            before = key
        return before <= until and self._place < until

    def replace(self, until: bytes | None) -> tuple[bytes, bytes | None] | None:
        """What is held from the place up to `until` goes, or up to the end (None). From now on
        until `written` nobody knows what is there. Return the half-open range of keys to delete
        first; None where there are none."""
        start = self._place + b"\0" if self._place else b""
        has_rows = self._place < self._reached
        begins, behind = self._place, self._at
        while behind < len(self._pieces) and (
            until is None or self._pieces[behind].last_key <= until
        ):
            begins = self._pieces[behind].last_key
            behind += 1
        del self._pieces[self._at : behind]
        if until is None:
            return (start, None) if has_rows else None
        if self._at < len(self._pieces) and begins < until:
            # its first rows go, and the digest was over all of them
            self._pieces[self._at] = self._pieces[self._at]._replace(digest=b"")
        self._pieces.insert(self._at, Piece(until, b"", 0))
        del self._pieces[PIECES_MAX:]
        self._reached = max(self._reached, until)
        return (start, until + b"\0") if has_rows else None

    def written(self, until: bytes, digest: bytes, pairs: int) -> None:
        """All is written that `replace` made room for."""
        if self._at < len(self._pieces):
            self._pieces[self._at] = Piece(until, digest, pairs)
            self._at += 1
        self._place = until
        self._proof.update(digest)
