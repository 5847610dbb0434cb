"""Our figures beside the published ones. Pure.

Side by side only where the GPUs, the data and the protocol are the published ones; elsewhere the
published figures stand alone, headed by their source and system.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.analysis.aggregate import DEFAULT
from bench.analysis.labels import head, one_line, precision_label, rest_names, word_names
from bench.analysis.metrics import (
    BEST_EPOCH_THROUGHPUT,
    BEST_HR,
    PAIRS,
    THROUGHPUT,
    batches,
    scores_rate,
)
from bench.published.figures import distinct, is_inverted, lookup, select
from bench.published.tables import accuracy, milliseconds, printed, throughput
from bench.render import units
from bench.render.model import Estimate, Heading, Table, Tabled, Text
from bench.report.columns import hit_rate_form, rate_form
from bench.report.inference import batch_item, latency_item
from bench.report.inference import rate_form as inference_rate_form
from bench.stats.summary import Missing, Ratio, ratio, ratio_to_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.analysis.aggregate import Notation
    from bench.analysis.grid import Block, Pool
    from bench.analysis.metrics import Metric
    from bench.published.figures import Figure
    from bench.render.model import Item, Node


def side_by_side(block: Block, figures: Sequence[Figure], notation: Notation = DEFAULT) -> Table:
    """Ours, theirs, and the difference or ratio.

    Args:
        block: runs that have no `differences` from the system.
        figures: the training figures of one source and one system.
        notation: how our runs become one number.
    """
    assert block.condition is not None
    digits = units.hit_rate_digits(block.condition.dataset.test_users)
    form = rate_form(block, notation)
    speed = speed_measure(figures, notation)
    rows: list[tuple[Item, ...]] = []
    ours: set[tuple[int, str]] = set()
    for row in block.rows:
        for precision in block.precisions:
            ours.add((row.ranks, precision))
            hr = lookup(figures, "best_hr_at_10", row.ranks, precision)
            rate = lookup(figures, "train_throughput", row.ranks, precision)
            pool = row.pools[precision]
            if hr is None and rate is None and not pool.runs:
                continue
            ours_hr = notation.measured(pool, BEST_HR, hit_rate_form(block))
            rows.append(
                (
                    *head(row),
                    precision_label(block, precision),
                    *(ours_hr, printed(hr), _gap(ours_hr, pool, hr, digits, notation)),
                    *rates(pool, rate, form, speed, notation),
                )
            )
    blanks = ("",) * len(rest_names(block))
    theirs = select(figures, metric="best_hr_at_10") + select(figures, metric="train_throughput")
    for gpus, precision in dict.fromkeys((f.gpus, f.precision) for f in theirs):
        if gpus is None or (gpus, precision) in ours:
            continue
        absent = units.not_available("not in the suite")
        hr = lookup(figures, "best_hr_at_10", gpus, precision)
        rate = lookup(figures, "train_throughput", gpus, precision)
        cells = (absent, printed(hr), units.DASH, absent, printed(rate, form), units.DASH)
        rows.append((gpus, *blanks, precision.upper(), *cells))
    if not rest_names(block):
        rows.sort(key=lambda row: row[0] if isinstance(row[0], int) else 0)
    headers = ("Ranks", *rest_names(block), "Precision")
    headers += ("HR@10 ours", "HR@10 published", "Ours - published")
    headers += ("Samples/s ours", "Samples/s published", "Ours / published")
    return Table(headers, tuple(rows), (*word_names(block), "Precision"))


def speed_measure(figures: Sequence[Figure], notation: Notation) -> Metric:
    """What of a run's epochs is compared: with means, what the source takes the mean of."""
    ways = distinct(select(figures, metric="train_throughput"), "aggregation")
    of_best = notation.aggregate == "mean" and any("best epoch" in way for way in ways)
    return BEST_EPOCH_THROUGHPUT if of_best else THROUGHPUT


def orientation(figures: Sequence[Figure], notation: Notation = DEFAULT) -> list[Table]:
    """The training tables of one source and one system, alone."""
    tables = []
    hit_rates = select(figures, section="training-accuracy")
    rates = select(figures, section="training-throughput")
    if hit_rates:
        tables.append(accuracy(hit_rates))
    if rates:
        tables.append(throughput(rates, digits=notation.digits))
    return tables


def aggregation(figures: Sequence[Figure]) -> str:
    """How the source makes one number of its runs, for HR@10 and for samples/s."""

    def of(metric: str) -> str:
        found = [text for text in distinct(select(figures, metric=metric), "aggregation") if text]
        return ", ".join(found) or "not stated"

    return f"HR@10: {of('best_hr_at_10')}; samples/s: {of('train_throughput')}"


def _gap(
    ours: Estimate, pool: Pool, published: Figure | None, digits: int, notation: Notation
) -> Item:
    data = pool.summary(BEST_HR)
    if isinstance(data, Missing) or published is None:
        return units.DASH
    gap = notation.value(data, BEST_HR.better) - published.value
    return Estimate(gap, f"{{:+.{digits}f}}".format, unit="fraction", sources=ours.sources)


def rates(
    pool: Pool, figure: Figure | None, form: units.Formatter, metric: Metric, notation: Notation
) -> tuple[Item, Item, Item]:
    """Our rate, theirs, and ours over theirs; a dash where there is nothing to divide."""
    ours, theirs = notation.measured(pool, metric, form), printed(figure, form)
    data = pool.summary(metric)
    if isinstance(data, Missing) or figure is None:
        return ours, theirs, units.DASH
    quotient = ratio_to_constant(data, figure.value)
    if notation.aggregate != "median" and not isinstance(quotient, Missing):
        value = ratio(notation.value(data, metric.better), figure.value)
        quotient = value if isinstance(value, Missing) else Ratio(value, None, None, None, None)
    return ours, theirs, notation.ratio_estimate(quotient, ours.sources)


def published_part(
    title: str,
    how: str,
    blocks: Sequence[Block],
    gaps: Sequence[Sequence[str]],
    beside: Callable[[Block], Table],
    alone: Sequence[Table],
    figures: Sequence[Figure],
    notation: Notation,
) -> list[Node]:
    """Heading, how the source counts, and tables.

    Args:
        title: of the system and source.
        how: what one number of the source, and of ours, is.
        blocks: ours.
        gaps: what parts each block from the source's setting; empty where they can be compared.
        beside: the table of a block and the figures.
        alone: the figures' own tables, for where no block can be compared.
        figures: of this system and source.
        notation: of the report.
    """
    same = [index for index, found in enumerate(gaps) if not found]
    if same:
        name = f"Ours ({notation.name}) beside {title}"
        tables = [
            Tabled("published", name, partial(beside, blocks[i]), one_line(blocks[i]), i + 1)
            for i in same
        ]
        return [Heading(3, title), Text(how), *tables]
    if is_inverted(figures):
        how += " The source prints its speed-ups inverted; here they stand upright."
    reasons = "; ".join(gaps[0])
    return [
        Heading(3, title),
        Text(f"For orientation only, not comparable with the runs above: {reasons}. {how}"),
        *(Tabled("published", title, table) for table in alone),
    ]


INFERENCE_LATENCIES = (("mean", "Mean"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"))


def inference_side_by_side(
    block: Block, figures: Sequence[Figure], notation: Notation = DEFAULT
) -> Table:
    """Ours, theirs, and the ratio, by precision and batch size.

    Args:
        block: runs that have no `inference_differences` from the system.
        figures: the inference figures of one source and one system.
        notation: how our runs become one number.
    """
    form = inference_rate_form(block, lambda size: scores_rate(PAIRS, size), PAIRS, notation)
    rows: list[tuple[Item, ...]] = []
    own = [row for row in block.rows if row.ranks == 1]
    for row in own:
        for precision in block.precisions:
            pool = row.pools[precision]
            theirs = _published_batches(figures, precision)
            for size in sorted({*theirs, *batches(block.runs, PAIRS)}):
                if pool.tally.outside and size not in theirs:
                    continue
                place = (*head(row)[1:], precision_label(block, precision))
                rows.append(
                    (*place, *_inference_line(pool, size, figures, precision, form, notation))
                )
    for precision in distinct(figures, "precision"):
        for size in (
            _published_batches(figures, precision) if precision not in block.precisions else ()
        ):
            blanks = ("",) * len(rest_names(block))
            cells = _inference_line(None, size, figures, precision, form, notation)
            rows.append((*blanks, precision.upper(), *cells))
    headers = (*rest_names(block), "Precision", "Batch", "Samples/s ours", "Samples/s published")
    headers += ("Ours / published",)
    for _, name in INFERENCE_LATENCIES:
        headers += (f"{name} (ms) ours", f"{name} (ms) published")
    return Table(headers, tuple(rows), (*word_names(block), "Precision"))


def _published_batches(figures: Sequence[Figure], precision: str) -> list[int]:
    return [
        size for size in distinct(select(figures, precision=precision), "batch_per_gpu") if size
    ]


def _inference_line(
    pool: Pool | None,
    size: int,
    figures: Sequence[Figure],
    precision: str,
    form: units.Formatter,
    notation: Notation,
) -> tuple[Item, ...]:
    """Batch, the three items of throughput, and two for each latency."""
    rate = lookup(figures, "inference_throughput", 1, precision, size)
    absent = units.not_available("not in the suite")
    items: list[Item] = [batch_item(size)]
    if pool is None:
        items += [absent, printed(rate, form), units.DASH]
    else:
        items += rates(pool, rate, form, scores_rate(PAIRS, size), notation)
    for what, _ in INFERENCE_LATENCIES:
        items.append(absent if pool is None else latency_item(pool, PAIRS, size, what, notation))
        items.append(milliseconds(lookup(figures, f"latency_{what}", 1, precision, size)))
    return tuple(items)
