"""Looking at the runs before all of them are made, without crying wolf more often. Pure.

Each look may err with a part of the level, so that the parts add up to the whole: the level is
spent as a function of the information gathered (Lan and DeMets, Biometrika 70, 1983), here level *
information^2 (Kim and DeMets, Biometrika 74, 1987, rho = 2), which keeps most of it for the end.
What a look may spend is what the function has grown since the last one; that the looks' chances of
erring add up to no more than the level holds whatever their correlation (Boole), so the sizes of
the looks need not be known to the test, and neither the shape of the noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.errors import UserError
from bench.rule import FEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

RHO = 2


def information(n: int, baseline: int) -> float:
    """What n runs against a baseline of so many tell: 1 / variance, up to a factor."""
    return 1 / (1 / n + 1 / baseline)


def spend(level: float, sizes: Sequence[int], baseline: int) -> list[float]:
    """The level of each look; they add up to `level`.

    Args:
        level: of the whole.
        sizes: runs of a cell at each look, ascending.
        baseline: runs of the baseline's cell; it does not grow.
    """
    whole = information(sizes[-1], baseline)
    spent = [level * (information(n, baseline) / whole) ** RHO for n in sizes]
    return [now - before for now, before in zip(spent, [0.0, *spent], strict=False)]


def looks(given: Sequence[int], most: int, where: str) -> tuple[int, ...]:
    """The sizes at which to look: those given, and the suite's number of seeds at the end.

    Raises:
        UserError: a size that decides nothing, or that the suite has no seeds for.
    """
    sizes = tuple(dict.fromkeys((*given, most)))
    if list(sizes) != sorted(sizes) or sizes[0] < FEWEST:
        listed = ", ".join(map(str, given))
        raise UserError(
            f"{where} {listed}: looks must grow from at least {FEWEST} runs to the {most} seeds of "
            "the suite"
        )
    return sizes
