"""Values with an exact mean and spread."""

from __future__ import annotations

import random


def arm(n, mean, sd, seed):
    """Values with exactly this mean and SD."""
    rng = random.Random(seed)
    values = [rng.gauss(0, 1) for _ in range(n)]
    centre = sum(values) / n
    scale = (sum((v - centre) ** 2 for v in values) / (n - 1)) ** 0.5
    return [mean + sd * (v - centre) / scale for v in values]
