"""Our figures beside the published ones. Pure.

Side by side only where the GPUs, the data and the protocol are the published ones; elsewhere the
published figures stand alone, headed by their source and system.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bench import units
from bench.cells import Cell, Number
from bench.labels import head, precision_label, rest_names, word_names
from bench.measures import BEST_EPOCH_THROUGHPUT, BEST_HR, THROUGHPUT
from bench.notation import DEFAULT
from bench.published import distinct, lookup, matches, select
from bench.published_tables import accuracy, throughput
from bench.stats import Missing, Ratio, ratio, ratio_to_constant
from bench.tables import Table, rate_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.grid import Block, Pool
    from bench.group import Machine
    from bench.measures import Measure
    from bench.notation import Notation
    from bench.published import Figure

PUBLISHED_USERS, PUBLISHED_ITEMS = 138493, 26744  # MovieLens 20M
PUBLISHED_BATCH = 1048576
PUBLISHED_MODEL = {"factors": 64, "layers": [256, 256, 128, 64], "negative_samples": 4}


def differences(block: Block, system: str) -> list[str]:
    """What keeps a block's runs from standing beside a published system; empty if nothing does.

    Compared are the GPUs (model, memory, number), the data, what HR@k means, the global batch and
    the model's size.
    """
    if block.condition is None:
        return ["no good run"]
    machine, data = block.condition.machine, block.condition.dataset
    found = []
    if not matches(system, [{"name": name, "memory_bytes": size} for name, size in machine.gpus]):
        found.append(f"another machine ({gpus_text(machine)})")
    sizes_agree = (data.users, data.items) == (PUBLISHED_USERS, PUBLISHED_ITEMS)
    if not sizes_agree or data.name.startswith("synthetic"):
        found.append(f"other data ({data.name}, theirs is MovieLens 20M)")
    if (data.protocol, data.candidates_per_user, block.condition.topk) != ("nvidia", 100, 10):
        found.append(
            f"another metric (HR@{block.condition.topk}, protocol {data.protocol}, "
            f"{data.candidates_per_user} candidates)"
        )
    batches = sorted({run.global_batch for run in block.runs})
    if batches != [PUBLISHED_BATCH]:
        sizes = ", ".join(map(units.count, batches))
        found.append(f"another global batch ({sizes}, theirs is {units.count(PUBLISHED_BATCH)})")
    models = [
        {name: listed(run.config.get(name)) for name in PUBLISHED_MODEL} for run in block.runs
    ]
    if any(model != PUBLISHED_MODEL for model in models):
        found.append("another model size or number of negatives")
    return found


def gpus_text(machine: Machine) -> str:
    """The GPUs in words: "8x NVIDIA A100-SXM4-40GB (40.0 GiB)", "no GPU"."""
    kinds = Counter(machine.gpus)
    return (
        ", ".join(
            f"{count}x {name}" + (f" ({units.size(memory)})" if memory else "")
            for (name, memory), count in kinds.items()
        )
        or "no GPU"
    )


def listed(value: Any) -> Any:
    """A value as JSON has it: a list where a record that was not stored yet holds a tuple."""
    return list(value) if isinstance(value, tuple) else value


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
    rows: list[tuple[str, ...]] = []
    ours: set[tuple[int, str]] = set()
    for row in block.rows:
        for precision in block.precisions:
            ours.add((row.ranks, precision))
            hr = lookup(figures, "best_hr_at_10", row.ranks, precision)
            rate = lookup(figures, "train_throughput", row.ranks, precision)
            pool = row.pools[precision]
            if hr is None and rate is None and not pool.runs:
                continue
            rows.append(
                (
                    *head(row),
                    precision_label(block, precision),
                    *_hit_rates(pool, hr, digits, notation),
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
        cells = (absent, _published(hr), units.DASH, absent, _published(rate, form), units.DASH)
        rows.append((str(gpus), *blanks, precision.upper(), *cells))
    if not rest_names(block):
        rows.sort(key=lambda cells: int(cells[0]))
    headers = ("Ranks", *rest_names(block), "Precision")
    headers += ("HR@10 ours", "HR@10 published", "Ours - published")
    headers += ("Samples/s ours", "Samples/s published", "Ours / published")
    return Table(headers, tuple(rows), (*word_names(block), "Precision"))


def speed_measure(figures: Sequence[Figure], notation: Notation) -> Measure:
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


def _published(figure: Figure | None, form: units.Formatter | None = None) -> str:
    if figure is None:
        return units.DASH
    text = form(figure.value) if form else figure.text
    return Cell(text, Number(figure.value, unit=figure.unit))


def _hit_rates(
    pool: Pool, published: Figure | None, digits: int, notation: Notation
) -> tuple[str, str, str]:
    ours = notation.measured(pool, BEST_HR, lambda value: units.hit_rate(value, digits))
    data = pool.summary(BEST_HR)
    if isinstance(data, Missing) or published is None:
        return ours, _published(published), units.DASH
    gap = notation.value(data, BEST_HR.better) - published.value
    cell = Cell(f"{gap:+.{digits}f}", Number(gap, unit="fraction"), ours.keys)
    return ours, _published(published), cell


def rates(
    pool: Pool,
    published: Figure | None,
    form: units.Formatter,
    measure: Measure,
    notation: Notation,
) -> tuple[str, str, str]:
    """Our rate, theirs, and ours over theirs; a dash where there is nothing to divide."""
    ours = notation.measured(pool, measure, form)
    data = pool.summary(measure)
    if isinstance(data, Missing) or published is None:
        return ours, _published(published, form), units.DASH
    found = ratio_to_constant(data, published.value)
    if notation.aggregate != "median" and not isinstance(found, Missing):
        value = ratio(notation.value(data, measure.better), published.value)
        found = value if isinstance(value, Missing) else Ratio(value, None, None, None, None)
    return ours, _published(published, form), notation.ratio_cell(found, ours.keys)
