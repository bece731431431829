"""Whether the time of a refusal tells how near a guess was: `python -m
tests.property.gateway.token_timing [COUNT]`.

Guesses of two classes, in random order, are looked up among 1,000 tokens: those that differ in one
bit of the last byte from a valid secret, and those that differ as much from one that was never
issued. There are equally many of both, and so both come again equally often: guesses that were all
new would be told apart by the processor's caches, whatever they were near to. Printed is Welch's t
over COUNT of each, the slowest tenth left out (a million unless told); |t| < 4.5 is what chance
allows. A command and no test of the suite, which asserts nothing about time.
"""

from __future__ import annotations

import math
import random
import sys
import time
from dataclasses import dataclass

from svc_cluster.base.clock import SystemClock
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import is_secret_text, secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken

TOKENS = 1_000
WARM_UP = 10_000
BLOCK = 1_000
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

    never_issued = [rng.randbytes(32) for _ in range(TOKENS)]

    def guess() -> tuple[bool, str]:
        is_near = rng.random() < 0.5
        raw = rng.choice((never_issued, secrets)[is_near])
        return is_near, secret_text(raw[:-1] + bytes([raw[-1] ^ 1]))

    def looked_up() -> list[tuple[bool, int]]:
        """A block of guesses, all made before the first is timed."""
        found = []
        for is_near, text in [guess() for _ in range(BLOCK)]:
            begun = time.perf_counter_ns()
            token = is_secret_text(text) and directory.find(secret_hash(text))
            taken = time.perf_counter_ns() - begun
            assert not token
            found.append((is_near, taken))
        return found

    warm = [taken for _ in range(WARM_UP // BLOCK) for _, taken in looked_up()]
    usual_ns = sorted(warm)[len(warm) * 9 // 10]
    near, far = Moments(), Moments()
    while near.count < count or far.count < count:
        for is_near, taken in looked_up():
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
