"""The settings in effect, as they may be shown: what leads to a secret is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from svc_cluster.base.log import redacted

MASK: Final = "[masked]"
SECRETS: Final = frozenset({"secret", "token", "key", "password", "credential"})
"""Words of a setting's name by which it holds a secret, or says where one is."""

_QUERY: Final = re.compile(r'(://[^"\s?#\\]*[?#])(?:[^"\s\\]|\\.)+')
_USER: Final = re.compile(r'(://)[^"\s/?#@]+@')

VALUE_CHARACTERS_MAX: Final = 4096
"""Longer values are cut: a list of a thousand nodes is still whole in the file it comes from."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One setting. `value` is JSON; `masked`: something in it is kept back."""

    key: str
    value: str
    masked: bool


def shown(settings: Mapping[str, Any]) -> Iterator[Shown]:
    """Every setting once, in the order given. A text under a name with one of `SECRETS` in it is
    masked, set or not can be seen; so is what looks like an access token anywhere else, and what
    URLs hold before an `@` and behind a `?`, where collectors of traces want their keys."""
    for key, value in settings.items():
        hidden = isinstance(value, str) and not SECRETS.isdisjoint(key.split("_"))
        whole = msgspec.json.encode(MASK if hidden else value).decode()
        text = redacted(_without_query(whole))
        masked = hidden or text != whole
        if len(text) > VALUE_CHARACTERS_MAX:
            text = msgspec.json.encode(text[:VALUE_CHARACTERS_MAX] + "...").decode()
        yield Shown(key, text, masked)


def _without_query(text: str) -> str:
    return _QUERY.sub(rf"\1{MASK}", _USER.sub(rf"\1{MASK}@", text))
