"""Brute force at access tokens."""

from __future__ import annotations

from tests.property.gateway.token_guesses import guesses, is_good


def test_no_guess_is_let_in_and_every_valid_token_is() -> None:
    """20,000 guesses, random and near, from one address, with valid tokens shown in between from
    the same: some guesses are answered 401, the others 429."""
    found = guesses(20_000, 3)
    assert is_good(found), found
    assert found["authn"] > 0
    assert found["rate_limited"] > 10_000
