"""Queries of usage with parameters at random: accepted, or refused for what an oracle says."""

from __future__ import annotations

import random
from typing import Final
from urllib.parse import quote

from svc_cluster.base.errors import InvalidError, MalformedError
from svc_cluster.gateway.api.usage_series import AccountSet, BasinSet, StreamSet, parse
from svc_cluster.gateway.request.negotiation import Query

INPUTS: Final = 20_000
NOW: Final = 1_700_000_000
DAY: Final = 86400
SETS: Final = {
    AccountSet: ("active-basins", "account-ops"),
    BasinSet: (
        *("storage", "append-ops", "read-ops", "read-throughput", "append-throughput"),
        "basin-ops",
    ),
    StreamSet: ("storage",),
}
"""The interface's own words, not those of the code."""
HOURLY: Final = ("active-basins", "account-ops", "basin-ops")
SECONDS: Final = {"minute": 60, "hour": 3600, "day": DAY}
ODD: Final = ("", "x", "-1", "1.5", "+1", "0x10", " 1", "1e3", "٣", str(2**32), "9" * 50, "%00")


def _time(rng: random.Random) -> str | None:
    match rng.randrange(8):
        case 0:
            return None
        case 1:
            return rng.choice(ODD)
        case 2:
            return str(rng.choice([0, 1, 59, 60, 3600, 90 * DAY, 90 * DAY + 1, 2**32 - 1]))
        case _:
            near = NOW + rng.choice([-91 * DAY, -90 * DAY, -3600, -60, 0, 59, 60, 61, 600])
            return str(near + rng.randint(-2, 2))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 2**32


def _expected(words: tuple[str, ...], level: object, given: dict[str, str]) -> str:
    """`bad_query`, `invalid`, or the interval in seconds that is accepted."""
    of, interval = given.get("set"), given.get("interval")
    numbers = [given[name] for name in ("start", "end") if name in given]
    if of not in words or not all(map(_is_number, numbers)):
        return "bad_query"
    if interval is not None and interval not in SECONDS:
        return "bad_query"
    if len(numbers) < 2:
        return "invalid"
    start, end = map(int, numbers)
    if start > end or end > NOW + 60 or end - start > 90 * DAY:
        return "invalid"
    coarse: dict[tuple[object, str], str] = {
        (BasinSet, "storage"): "hour",
        (StreamSet, "storage"): "minute",
    }
    only = coarse.get((level, of))
    if only is not None and interval not in (None, only):
        return "invalid"
    default = only or ("hour" if of in HOURLY else "minute")
    return str(SECONDS[interval or default])


def test_every_query_is_accepted_or_refused_for_its_reason() -> None:
    """All levels, known and unknown words, times on every edge; in any order of the parameters."""
    rng = random.Random(14)
    seen = dict.fromkeys(("bad_query", "invalid", "60", "3600", "86400"), 0)
    for _ in range(INPUTS):
        level, words = rng.choice(list(SETS.items()))
        given: dict[str, str] = {}
        if rng.random() < 0.95:
            given["set"] = rng.choice((*words, *words, "storage", "nothing", "Storage", ""))
        if rng.random() < 0.6:
            given["interval"] = rng.choice((*SECONDS, *SECONDS, "week", "", "MINUTE"))
        for name in ("start", "end"):
            if (text := _time(rng)) is not None:
                given[name] = text
        pairs = [f"{name}={quote(value)}" for name, value in given.items()]
        rng.shuffle(pairs)
        try:
            of, wanted = parse(Query("&".join(pairs)), level, NOW)  # type: ignore[type-var]
        except InvalidError:
            told = "invalid"
        except MalformedError as refusal:
            told = refusal.code.value
        else:
            assert of.value == given["set"]
            assert (wanted.start, wanted.end) == (int(given["start"]), int(given["end"]))
            assert len(wanted.steps) <= 90 * DAY // 60 + 1
            told = str(wanted.interval.seconds)
        assert told == _expected(words, level, given), given
        seen[told] += 1
    assert min(seen.values()) > 50, seen
