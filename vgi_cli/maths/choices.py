"""How many ways there are to choose, by which what many tries may find by chance is judged."""

from __future__ import annotations

import math


def log_choices(n: int, k: int) -> float:
    """The logarithm of how many ways there are to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
