"""Count the errors of the gate's rule over simulated gates; seeded.

A run's speed is log-normal. Of its noise, a part may be drift (an AR(1) process from run to run,
the baseline's and the gate's sessions independent), and some runs may be slow outliers. The rule is
the product's own (bench.rule), not a copy.

    python scripts/simulate_gate.py                    the tables of docs/ci.md
    python scripts/simulate_gate.py --picture docs/gate-power.svg
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.rule import EQUIVALENT, IMPROVED, INCONCLUSIVE, REGRESSED, Question, chance, decide

MARGIN = math.log(1.03)
LOSS = 0.05
SLOWER = (0.10, 0.40)
"""By how much an outlier is slower, uniform between these."""


@dataclass(frozen=True)
class Noise:
    """How runs of the same code differ.

    Attributes:
        drift: standard deviation of the drift as a share of the whole noise's.
        memory: correlation of the drift from one run to the next.
        outliers: share of runs that something slowed down.
    """

    name: str
    drift: float = 0.0
    memory: float = 0.6
    outliers: float = 0.0

    def draw(self, rng: np.random.Generator, gates: int, n: int, sd: float) -> np.ndarray:
        """Logarithms of speeds, gates x n, in the order of the runs."""
        white = rng.standard_normal((gates, n))
        drift = rng.standard_normal((gates, n))
        for run in range(1, n):
            step = math.sqrt(1 - self.memory**2) * drift[:, run]
            drift[:, run] = self.memory * drift[:, run - 1] + step
        noise = sd * (math.sqrt(1 - self.drift**2) * white + self.drift * drift)
        slow = rng.random((gates, n)) < self.outliers
        return noise + slow * np.log1p(-rng.uniform(*SLOWER, (gates, n)))


NOISES = (
    Noise("independent"),
    Noise("drift", drift=0.25),
    Noise("outliers", outliers=0.02),
    Noise("drift, outliers", drift=0.25, outliers=0.02),
)
SETTINGS = ((0.01, 10), (0.02, 10), (0.03, 10), (0.03, 16), (0.08, 10), (0.08, 16))
"""Standard deviation of a run, runs a side."""


def simulate(
    noise: Noise, sd: float, n: int, loss: float, gates: int, seed: int = 1, cells: int = 1
) -> Counter[str]:
    """How often each verdict came; of a gate with several cells, the worst one counts."""
    rng = np.random.default_rng([seed, round(sd * 1e6), n, round(loss * 1e6), cells])
    sides = [
        noise.draw(rng, gates * cells, n, sd).reshape(gates, cells, n) + extra
        for extra in (0.0, math.log1p(-loss))
    ]
    found: Counter[str] = Counter()
    for reference, tested in zip(sides[0].tolist(), sides[1].tolist(), strict=True):
        questions = [
            Question(a, b, "higher", MARGIN) for a, b in zip(reference, tested, strict=True)
        ]
        verdicts = {answer.verdict for answer in decide(questions)}
        found[next(v for v in WORST_FIRST if v in verdicts)] += 1
    return found


WORST_FIRST = (REGRESSED, INCONCLUSIVE, EQUIVALENT, IMPROVED)


def table(gates: int, seed: int) -> list[str]:
    """Markdown: false alarms and losses found, by kind of noise."""
    head = ("noise", "SD of a run", "runs a side", "false alarms", "EQUIVALENT if equal")
    lines = [
        f"| {' | '.join((*head, '5 % found', 'formula'))} |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for noise in NOISES:
        for sd, n in SETTINGS:
            same, lost = (simulate(noise, sd, n, loss, gates, seed) for loss in (0.0, LOSS))
            lines.append(
                f"| {noise.name} | {sd:.0%} | {n} | {same[REGRESSED] / gates:.2%} | "
                f"{same[EQUIVALENT] / gates:.0%} | {lost[REGRESSED] / gates:.1%} | "
                f"{chance(n, sd, -math.log1p(-LOSS), MARGIN):.1%} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def draw(path: Path, gates: int, seed: int) -> None:
    """The chance of REGRESSED against the true loss, formula and counts."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "gate"  # the same picture gives the same bytes
    from matplotlib import pyplot as plt

    from bench.drawing import LEVELS

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    fine = np.linspace(0, 0.12, 121)
    coarse = np.arange(0, 0.13, 0.01)
    curves = ((0.01, 10), (0.02, 10), (0.03, 16), (0.08, 10))
    for (sd, n), look in zip(curves, LEVELS, strict=False):
        formula = [chance(n, sd, -math.log1p(-loss), MARGIN) for loss in fine]
        counted = [
            simulate(NOISES[3], sd, n, float(loss), gates, seed)[REGRESSED] / gates
            for loss in coarse
        ]
        axes.plot(100 * fine, formula, look.line, color=look.color)
        label = f"SD {sd:.0%}, {n} runs a side"
        axes.plot(100 * coarse, counted, look.marker, color=look.color, label=label)
    axes.axvline(100 * LOSS, color="0.6", linewidth=0.8)
    axes.axhline(0.95, color="0.6", linewidth=0.8)
    axes.axvspan(0, 3, color="0.93", zorder=0)
    axes.set(
        xlabel="true loss of throughput (%), the margin shaded",
        ylabel="share of gates that say REGRESSED",
        title=f"Lines: the formula; marks: {gates:,} gates each, with drift and outliers",
        xlim=(0, 12),
        ylim=(-0.02, 1.02),
    )
    axes.title.set_fontsize("medium")
    axes.legend(frameon=False, loc="center right")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> int:
    """Print the table, or draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gates", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    parsed = parser.parse_args()
    if parsed.picture:
        draw(parsed.picture, min(parsed.gates, 2000), parsed.seed)
    else:
        print("\n".join(table(parsed.gates, parsed.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
