"""What is said of settings and files never has a secret in it: what looks like one, and what stands
in for it."""

from __future__ import annotations

import re
from typing import Final

from svc_cluster.base.log import redacted

MASK: Final = "[masked]"
SECRETS: Final = frozenset({"secret", "token", "key", "password", "credential"})
"""Words of a setting's name by which it holds a secret, or says where one is."""

_USER: Final = re.compile(r"(://)[^\"\s/?#]+@")
_QUERY: Final = re.compile(r'(://[^"\s?#\\]*[?#])(?:[^"\s\\]|\\.)+')
_AUTHORITY_AND_MORE: Final = re.compile(r"\A(\w+:/{1,2})?.*@", re.DOTALL)
_MARKED: Final = re.compile(
    r'svc-join-[0-9]+-[0-9a-f]+|(?<=svc-backup-key-1 )[^\s"]+ [^\s"]+'
    r'|-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*'
)
"""Secrets with a mark of ours beside those that `redacted` knows, and keys in PEM. None has a
quotation mark, so that JSON stays JSON."""

_NAME_PART_CHARACTERS: Final = 20
_RANDOM: Final = (
    re.compile(r"[0-9A-Fa-f-]+"),
    re.compile(r"[A-Z2-7=]+"),
    re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9+=_-]+"),
)
"""Hexadecimal digits, base32 and base64: what chance is written in, and names of files are not."""


def names_secret(key: str) -> bool:
    """Whether a setting of this name holds a secret, or says where one is."""
    return not SECRETS.isdisjoint(re.split(r"[^a-z]+", key.lower()))


def without_secrets(text: str) -> str:
    """Return the text without what looks like an access token, a join token or a key. What URLs
    hold before an `@` is masked too, and behind a `?`: collectors of traces want keys there."""
    return redacted(_MARKED.sub(MASK, _QUERY.sub(rf"\1{MASK}", _USER.sub(rf"\1{MASK}@", text))))


def told_place(text: str) -> str:
    """Return a URL or an address, written rightly or not, as it may be told. All that stands before
    its last `@` is masked, and behind its first `?` or `#`."""
    place = _AUTHORITY_AND_MORE.sub(lambda found: f"{found[1] or ''}{MASK}@", text)
    ends = [place.index(mark) for mark in "?#" if mark in place]
    return without_secrets(place if not ends else f"{place[: min(ends) + 1]}{MASK}")


def looks_like_secret(name: str) -> bool:
    """Whether what is given for the name of a file is probably the secret itself. A name that leads
    through directories from the root is none."""
    if without_secrets(name) != name or "\n" in name.strip():
        return True
    if name.startswith(("/", "./", "../", "~")) and name.count("/") > 1:
        return False
    parts = [part for part in name.split("/") if len(part) >= _NAME_PART_CHARACTERS]
    return any(form.fullmatch(part) for part in parts for form in _RANDOM)


def in_place_of_a_file(key: str) -> str:
    """Return what is said where a secret was given as the name of its file; it is not repeated."""
    return (
        f"{key} looks like the secret itself, which is not repeated here, and not like the name of "
        "a file that can be read: put the secret into a file that this user alone may read, and "
        "give its name"
    )
