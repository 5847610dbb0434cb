"""Count the errors of the verdict on accuracy over simulated pairs of arms; seeded.

Prints one line per situation: how often each answer came out of 1,000 pairs (or --pairs).
An error is EQUIVALENT although the true difference reaches the margin, or DIFFERENT although it
does not exceed it. At a difference of exactly the margin either answer is wrong, and each may come
in 5 % of the pairs: that is the level of the test, so this line shows chance around it.

Last come arms whose margin is the standard deviation of the reference itself (`margin_hr = "sd"`):
it is an estimate, and the answers at the true margin err more often than 5 %.

    python tools/simulate_verdicts.py
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path
from statistics import stdev

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.stats.equivalence import DIFFERENT, EQUIVALENT, INCONCLUSIVE, compare

MARGIN = 5e-4
MEANS = 0.95917
SITUATIONS = [
    # runs per arm, SD of the reference, SD of the tested arm, true difference / margin
    *((n, 4e-4, 4e-4, shift) for n in (4, 20, 400) for shift in (0.0, 0.5, 1.0, 1.5, 2.0)),
    *((20, 2e-4, 8e-4, shift) for shift in (0.0, 1.0, 2.0)),
]


SPREADS = [(n, shift) for n in (10, 40) for shift in (0.0, 1.0, 1.5)]
"""Runs per arm, true difference / true SD."""


def simulate_spread(n: int, shift: float, pairs: int, seed: int) -> Counter[str]:
    """How often each answer came where the margin is the SD of the reference arm."""
    rng = random.Random(f"{seed}/sd/{n}/{shift}")
    answers: Counter[str] = Counter()
    for _ in range(pairs):
        reference = [rng.gauss(0, 1) for _ in range(n)]
        tested = [rng.gauss(shift, 1) for _ in range(n)]
        answers[compare(reference, tested, stdev(reference)).answer] += 1
    return answers


def simulate(n: int, sd_a: float, sd_b: float, shift: float, pairs: int, seed: int) -> Counter[str]:
    """How often each answer came."""
    rng = random.Random(f"{seed}/{n}/{sd_a}/{sd_b}/{shift}")
    answers: Counter[str] = Counter()
    for _ in range(pairs):
        reference = [rng.gauss(MEANS, sd_a) for _ in range(n)]
        tested = [rng.gauss(MEANS + shift * MARGIN, sd_b) for _ in range(n)]
        answers[compare(reference, tested, MARGIN).answer] += 1
    return answers


def errors(answers: Counter[str], shift: float) -> dict[str, float]:
    """Share of wrong answers by kind."""
    pairs = answers.total()
    wrong = {}
    if abs(shift) >= 1:
        wrong[EQUIVALENT] = answers[EQUIVALENT] / pairs
    if abs(shift) <= 1:
        wrong[DIFFERENT] = answers[DIFFERENT] / pairs
    return wrong


def main() -> int:
    """Print a line per situation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    print(f"margin {MARGIN}, {parsed.pairs} pairs a line")
    names = (EQUIVALENT, DIFFERENT, INCONCLUSIVE)
    at_margin, elsewhere = [0.0], [0.0]
    for n, sd_a, sd_b, shift in SITUATIONS:
        answers = simulate(n, sd_a, sd_b, shift, parsed.pairs, parsed.seed)
        wrong = errors(answers, shift)
        (at_margin if shift == 1 else elsewhere).extend(wrong.values())
        print(
            f"n={n:3} SD {sd_a}/{sd_b} true difference {shift:g} margins: "
            + ", ".join(f"{answers[name]} {name}" for name in names)
            + "; wrong: "
            + ", ".join(f"{name} {share:.1%}" for name, share in wrong.items())
        )
    print(f"worst share of one kind of error, difference on the margin: {max(at_margin):.1%}")
    print(f"worst share of one kind of error, any other difference: {max(elsewhere):.1%}")
    print("margin: the SD of the reference arm")
    for n, shift in SPREADS:
        answers = simulate_spread(n, shift, parsed.pairs, parsed.seed)
        wrong = errors(answers, shift)
        print(
            f"n={n:3} true difference {shift:g} SD: "
            + ", ".join(f"{answers[name]} {name}" for name in names)
            + "; wrong: "
            + ", ".join(f"{name} {share:.1%}" for name, share in wrong.items())
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
