"""A secret that is kept, for whoever knows what it was asked for with."""

from __future__ import annotations

import copy

import pytest

from svc_cluster.gateway.access.sealed_secret import SecretSealer

BEARER = "svct_" + "a" * 43 + "00000000"
SECRET = "svct_" + "b" * 43 + "11111111"
KEY = bytes(32)


def random_bytes(size: int) -> bytes:
    return b"\x05" * size


def test_the_same_caller_token_and_request_open_it() -> None:
    """In another process too: nothing but these three is needed."""
    sealed = SecretSealer(BEARER, "retry-1", KEY).seal(SECRET, random_bytes)
    assert SecretSealer(BEARER, "retry-1", KEY).open(sealed) == SECRET


@pytest.mark.parametrize(
    "other",
    [
        SecretSealer(BEARER.replace("a", "c", 1), "retry-1", KEY),
        SecretSealer(BEARER, "retry-2", KEY),
        SecretSealer(BEARER, "retry-1", b"\x01" + bytes(31)),
    ],
)
def test_nobody_else_opens_it(other: SecretSealer) -> None:
    """Another bearer secret, request token or request."""
    sealed = SecretSealer(BEARER, "retry-1", KEY).seal(SECRET, random_bytes)
    assert other.open(sealed) is None


def test_what_was_changed_opens_for_nobody() -> None:
    """Every bit counts, and so does every byte's being there."""
    sealer = SecretSealer(BEARER, "retry-1", KEY)
    sealed = sealer.seal(SECRET, random_bytes)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert sealer.open(bytes(changed)) is None
        assert sealer.open(sealed[:place]) is None


def test_form_of_what_is_kept() -> None:
    """A version, a nonce, and what is as long as the secret and a tag; the secret is not in it."""
    sealed = SecretSealer(BEARER, "retry-1", KEY).seal(SECRET, random_bytes)
    assert sealed[:13] == b"\x01" + b"\x05" * 12
    assert len(sealed) == 13 + len(SECRET) + 16
    assert SECRET.encode() not in sealed
    assert BEARER.encode() not in sealed


def test_a_sealer_shows_nothing() -> None:
    """Neither in a log nor to another process."""
    sealer = SecretSealer(BEARER, "retry-1", KEY)
    assert repr(sealer) == "SecretSealer(hidden)"
    with pytest.raises(TypeError):
        copy.copy(sealer)
