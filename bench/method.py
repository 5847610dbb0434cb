"""How the numbers of a report are made, in words: what its last part says. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.stats import FEWEST

if TYPE_CHECKING:
    from collections.abc import Iterable

TRAINING: tuple[str, ...] = (
    (
        "**Throughput**: samples of the timed steps / seconds of the same steps. Samples are those "
        "of all ranks together, without padding; seconds are those of the slowest rank. Warm-up "
        "steps (tracing, compilation) and evaluation are in neither."
    ),
    (
        "**HR@{k}**: share of test users whose held-out item is among the {k} best scored of its "
        "candidates (the held-out item and the sampled ones). A candidate with the same score "
        "counts as better (ties lose), so a constant model scores 0. *Popularity* ranks candidates "
        "by their number of training interactions, *chance* at random."
    ),
    (
        "**Best HR@{k}** is the highest over the epochs of a run; **time to best** is training "
        "plus evaluation up to the end of that epoch, compilation included, data and library "
        "start-up excluded."
    ),
    (
        "**Speed-up** is mixed / full precision, above 1 where mixed precision is faster. **Strong "
        "scaling** is throughput / throughput with 1 rank at the same global batch; the percentage "
        "is the efficiency, strong scaling / ranks. {spread}"
    ),
)

_FROM = ", ".join(f"p{q * 100:.0f} from {n} calls on" for q, n in FEWEST.items())
INFERENCE: tuple[str, ...] = (
    (
        "**Inference**: a call scores one batch of random (user, item) pairs and waits for the "
        "device; calls to warm up are left out. Samples/s are the pairs of all timed calls / "
        f"their seconds. Latencies are those of the calls of one run ({_FROM}); spreads are over "
        "runs."
    ),
    (
        "**Ranking**: a call scores every item of the catalogue for one block of users and keeps "
        "each user's top k; a score is one (user, item) pair."
    ),
)
POOLED = "Only runs with the same machine, data, candidates and versions enter one number."
_SPREADS = {
    "median": "Both divide medians; their intervals combine those of the two medians on the log "
    "scale, their extremes are those over all pairs of runs.",
    "mean": "Both divide means.",
    "best": "Both divide best runs.",
}


def items(parts: Iterable[tuple[str, ...]], k: int, aggregate: str) -> tuple[str, ...]:
    """The paragraphs of the given parts, filled in.

    Args:
        parts: TRAINING, INFERENCE or both.
        k: of HR@k.
        aggregate: how runs become one number, see Notation.
    """
    lines = [line for part in parts for line in part]
    spread = _SPREADS[aggregate]
    return tuple(line.format(k=k, spread=spread) for line in (*lines, POOLED))
