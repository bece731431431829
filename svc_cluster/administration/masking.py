"""The settings in effect, as they may be shown: what leads to a secret is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from svc_cluster.settings_secrets import MASK, names_secret, without_secrets

VALUE_CHARACTERS_MAX: Final = 4096
"""Longer values are cut: a list of a thousand nodes is still whole in the file it comes from."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting. `value` is JSON; `masked`: something in it is kept back."""

    key: str
    value: str
    masked: bool


def shown(settings: Mapping[str, Any]) -> Iterator[Shown]:
    """Every setting once, in the order given. A text under a name that speaks of a secret is
    masked, set or not can be seen; so is what looks like a secret anywhere else, and what URLs hold
    before an `@` and behind a `?`."""
    for key, value in settings.items():
        hidden = isinstance(value, str) and names_secret(key)
        whole = msgspec.json.encode(MASK if hidden else value).decode()
        text = without_secrets(whole)
        masked = hidden or text != whole
        if len(text) > VALUE_CHARACTERS_MAX:
            text = msgspec.json.encode(text[:VALUE_CHARACTERS_MAX] + "...").decode()
        yield Shown(key, text, masked)
