"""Count the errors of the gate's rule over simulated gates; seeded.

A run's speed is log-normal. Of its noise, a part may be drift (an AR(1) process from run to run,
the baseline's and the gate's sessions independent), and some runs may be slow outliers. The rule is
the product's own (bench.stats.decision), not a copy.

    python tools/simulate_gate.py                    the tables of docs/ci.md
    python tools/simulate_gate.py --picture docs/gate-power.svg
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

from bench.analysis.metrics import gated
from bench.stats.decision import (
    ALPHA,
    ALPHA_GATE,
    EQUIVALENT,
    IMPROVED,
    INCONCLUSIVE,
    REGRESSED,
    Question,
    chance,
    decide,
    spend,
)
from bench.stats.variance import measure

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
STRONG = Noise("strong drift", drift=0.5, memory=0.7, outliers=0.02)
"""A quarter of the variance, with a longer memory: more than the rule alone can bear."""
LOOKS = (6, 10, 16)
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


def simulate_sequential(
    noise: Noise, sd: float, loss: float, gates: int, seed: int = 1, sizes: tuple[int, ...] = LOOKS
) -> tuple[Counter[str], float]:
    """Gates of one cell that look early: verdicts, and the mean number of runs made."""
    rng = np.random.default_rng([seed, round(sd * 1e6), round(loss * 1e6), *sizes])
    most = sizes[-1]
    references = noise.draw(rng, gates, most, sd).tolist()
    tests = (noise.draw(rng, gates, most, sd) + math.log1p(-loss)).tolist()
    levels, same = (spend(level, sizes, most) for level in (ALPHA_GATE, ALPHA))
    found: Counter[str] = Counter()
    runs = 0
    for reference, tested in zip(references, tests, strict=True):
        for size, level, inside in zip(sizes, levels, same, strict=True):
            question = Question(reference, tested[:size], "higher", MARGIN)
            (answer,) = decide([question], level, inside)
            if answer.verdict != INCONCLUSIVE:
                break
        found[answer.verdict] += 1
        runs += size
    return found, runs / gates


def simulate_calibrated(
    noise: Noise, sd: float, n: int, loss: float, rounds: int, gates: int, seed: int = 1
) -> Counter[str]:
    """Gates whose noise was measured before, in so many rounds; 0 rounds: not calibrated."""
    rng = np.random.default_rng([seed, round(sd * 1e6), n, round(loss * 1e6), rounds])
    references = noise.draw(rng, gates, n, sd).tolist()
    tests = (noise.draw(rng, gates, n, sd) + math.log1p(-loss)).tolist()
    sessions = noise.draw(rng, gates, n * max(1, rounds), sd).reshape(gates, -1, n).tolist()
    found: Counter[str] = Counter()
    for reference, tested, made in zip(references, tests, sessions, strict=True):
        known = measure(made, robust=gated("throughput").robust)
        alarm, between = (known.margin(n), known.between) if known else (0.0, 0.0)
        question = Question(reference, tested, "higher", MARGIN, alarm=alarm, between=between)
        found[decide([question])[0].verdict] += 1
    return found


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
    return lines


def sequential_table(gates: int, seed: int) -> list[str]:
    """Markdown: looking after 6, 10 and 16 runs."""
    head = ("noise", "SD of a run", "false alarms", "runs if equal", "5 % found", "runs if lost")
    lines = [f"| {' | '.join(head)} |", "|---|--:|--:|--:|--:|--:|"]
    for sd in (0.01, 0.02, 0.03, 0.08):
        same, few = simulate_sequential(NOISES[3], sd, 0.0, gates, seed)
        lost, less = simulate_sequential(NOISES[3], sd, LOSS, gates, seed)
        lines.append(
            f"| {NOISES[3].name} | {sd:.0%} | {same[REGRESSED] / gates:.2%} | {few:.1f} | "
            f"{lost[REGRESSED] / gates:.1%} | {less:.1f} |"
        )
    return lines


def calibrated_table(gates: int, seed: int) -> list[str]:
    """Markdown: what calibration does where the machine drifts much, and where it does not."""
    head = ("noise", "SD of a run", "runs a side", "rounds", "false alarms", "5 % found")
    lines = [f"| {' | '.join(head)} |", "|---|--:|--:|--:|--:|--:|"]
    for noise in (NOISES[3], STRONG):
        for sd, n in ((0.02, 10), (0.03, 10), (0.03, 16)):
            for rounds in (0, 6):
                same, lost = (
                    simulate_calibrated(noise, sd, n, loss, rounds, gates, seed)
                    for loss in (0.0, LOSS)
                )
                lines.append(
                    f"| {noise.name} | {sd:.0%} | {n} | {rounds or 'none'} | "
                    f"{same[REGRESSED] / gates:.2%} | {lost[REGRESSED] / gates:.1%} |"
                )
    return lines


def draw(path: Path, gates: int, seed: int) -> None:
    """The chance of REGRESSED against the true loss, formula and counts."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "gate"  # the same picture gives the same bytes
    from matplotlib import pyplot as plt

    from bench.plots.style import LEVELS

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
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.9))
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
        few = max(1, parsed.gates // 4)
        for lines in (
            table(parsed.gates, parsed.seed),
            sequential_table(few, parsed.seed),
            calibrated_table(few, parsed.seed),
        ):
            print("\n".join(lines), end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
