"""Weights that show in every score."""

from __future__ import annotations

import numpy as np

from ncf.model import neumf as model

USERS, ITEMS = 37, 53


def parameters(factors: int, layers, seed: int = 1) -> model.Parameters:
    """Weights large enough that every layer, bias and unit shows in the score."""
    made = model.create(USERS, ITEMS, factors, layers, seed)
    rng = np.random.default_rng(seed)
    for variable in made.flat():
        variable.assign(rng.normal(scale=0.3, size=variable.shape).astype(np.float32))
    return made
