"""Student's t distribution, for whole numbers of degrees of freedom.

M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964, 26.7.3 and 26.7.4:
with θ = arctan(t / √ν), the probability of |T| < t is a sum of ν / 2 terms in sin θ and cos θ.
"""

from __future__ import annotations

import math
from functools import lru_cache

from qops_batsim.errors import require


def upper_tail(t: float, freedom: int) -> float:
    """Return the probability that T, with ``freedom`` degrees of freedom, exceeds t. O(freedom)."""
    require(freedom >= 1, "degrees of freedom", freedom, "a whole number above 0 is expected")
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    central = _central(math.atan2(abs(t), math.sqrt(freedom)), freedom)
    tail = max(0.0, (1.0 - central) / 2)
    return tail if t >= 0 else 1.0 - tail


@lru_cache(maxsize=256)
def quantile(level: float, freedom: int) -> float:
    """Return the t that |T| exceeds with probability 1 - level."""
    require(freedom >= 1, "degrees of freedom", freedom, "a whole number above 0 is expected")
    require(0 < level < 1, "confidence level", level, "a number between 0 and 1 is expected")
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _central(middle, freedom) < level else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _central(angle: float, freedom: int) -> float:
    """Return the probability of |T| < √ν tan(angle)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    # Terms (2·4·…)/(3·5·…) cos^(2k+1) for odd ν, (1·3·…)/(2·4·…) cos^(2k) for even.
    term = cosine if odd else 1.0
    terms = [term] if freedom > 1 else []
    for k in range(2, freedom - 1, 2) if not odd else range(3, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        terms.append(term)
    total = sine * math.fsum(terms)
    return 2 / math.pi * (angle + total) if odd else total
