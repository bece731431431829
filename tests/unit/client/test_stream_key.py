"""The key of an encrypted stream, as a client holds it."""

from __future__ import annotations

import base64

import pytest

from svc_cluster.client.stream_key import StreamKey, asks_for_key

TEXT = base64.b64encode(bytes(range(32))).decode()


def test_a_key_is_sent_by_both_names_and_shown_by_none() -> None:
    """Neither a message nor what is made to leave the process has it."""
    key = StreamKey(TEXT)
    assert key.headers == {"svc-encryption-key": TEXT, "s2-encryption-key": TEXT}
    assert TEXT not in repr(key) + str(key)
    with pytest.raises(TypeError, match="does not leave"):
        key.__reduce__()


@pytest.mark.parametrize("text", ["", TEXT[4:], TEXT + TEXT, f"{TEXT}\n", TEXT[:-1], "\u00e9" * 44])
def test_what_is_no_key_is_refused_without_being_repeated(text: str) -> None:
    """Another length, or no base64."""
    with pytest.raises(ValueError, match=r"^it is ") as refused:
        StreamKey(text)
    assert refused.value.__cause__ is None
    assert not text or text not in str(refused.value)


def test_refusals_about_keys_are_told_from_others() -> None:
    """By their code, or by the header that they name, in either dialect."""
    assert asks_for_key("decryption_failed", "")
    assert asks_for_key("bad_header", "send the key as s2-encryption-key")
    assert not asks_for_key("bad_header", "the key is missing")
