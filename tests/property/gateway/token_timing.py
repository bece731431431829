"""Whether the time of a refusal tells how near a guess was: `python -m
tests.property.gateway.token_timing [COUNT]`.

Guesses of two classes, in random order, are looked up among 1,000 tokens: those that differ from
a valid secret in one bit of its last byte, and those that have nothing in common with any. Printed
is Welch's t over COUNT of each, the slowest tenth left out (a million unless told); |t| < 4.5 is
what chance allows. A command and no test of the suite, which asserts nothing about time.
"""

from __future__ import annotations

import math
import random
import sys
import time
from dataclasses import dataclass

from svc_cluster.base.clock import SystemClock
from svc_cluster.gateway.token_client import TokenNews
from svc_cluster.gateway.token_directory import TokenDirectory
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import is_secret_text, secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken

TOKENS = 1_000
WARM_UP = 10_000
T_MAX = 4.5


@dataclass
class Moments:
    """Count, mean and sum of squared differences, kept as they come (Welford)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    @property
    def variance_of_mean(self) -> float:
        return self.squares / (self.count - 1) / self.count


def welch_t(a: Moments, b: Moments) -> float:
    return (a.mean - b.mean) / math.sqrt(a.variance_of_mean + b.variance_of_mean)


def measure(count: int, rng: random.Random) -> tuple[Moments, Moments]:
    directory = TokenDirectory(SystemClock())
    secrets = [rng.randbytes(32) for _ in range(TOKENS)]
    changes = tuple(
        (serial, AccessToken(serial, f"t-{serial}", secret_hash(secret_text(raw)), 0, ROOT_SCOPE))
        for serial, raw in enumerate(secrets, 1)
    )
    directory.take(
        TokenNews(granted=True, version=1, behind=False, changes=changes, all_read=False), 0.0
    )

    def one() -> tuple[bool, int]:
        raw = rng.choice(secrets)
        # both are made, so that the two classes do the same before the clock is read
        guesses = (rng.randbytes(32), raw[:-1] + bytes([raw[-1] ^ 1]))
        is_near = rng.random() < 0.5
        guess = secret_text(guesses[is_near])
        begun = time.perf_counter_ns()
        found = is_secret_text(guess) and directory.find(secret_hash(guess))
        taken = time.perf_counter_ns() - begun
        assert not found
        return is_near, taken

    usual_ns = sorted(one()[1] for _ in range(WARM_UP))[WARM_UP * 9 // 10]
    near, far = Moments(), Moments()
    while near.count < count or far.count < count:
        is_near, taken = one()
        if taken <= usual_ns:  # the rest tells of the machine's other work
            (near if is_near else far).add(taken)
    return near, far


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    near, far = measure(count, random.Random(5))
    t = welch_t(near, far)
    print(
        f"{near.count} near guesses: {near.mean:.0f} ns; {far.count} far ones: {far.mean:.0f} ns; "
        f"Welch t = {t:.2f} ({'as chance has it' if abs(t) < T_MAX else 'TELLS THEM APART'})"
    )
    sys.exit(abs(t) >= T_MAX)


if __name__ == "__main__":
    main()
