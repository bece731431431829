"""What a count of failures says about their rate, with 95 % confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_Z: Final = 1.959963984540054
"""The normal distribution's quantile at 97.5 %."""


def wilson(failures: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of a rate. `trials` is at least 1."""
    share = failures / trials
    weight = _Z * _Z / trials
    middle = share + weight / 2
    half = _Z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    return max(0.0, (middle - half) / (1 + weight)), min(1.0, (middle + half) / (1 + weight))


def rate(failures: int, trials: int) -> str:
    """The rate's bounds as a sentence: by the rule of three where nothing failed."""
    if trials == 0:
        return "nothing run"
    if failures == 0:
        return f"at most {_share(min(1.0, 3 / trials))}"
    low, high = wilson(failures, trials)
    return f"{_share(low)} to {_share(high)}"


def _share(value: float) -> str:
    return f"{100 * value:.2g} %" if value >= 0.001 else f"1 in {math.floor(1 / value):,}"


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
