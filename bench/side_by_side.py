"""Our figures beside the published ones. Pure.

Side by side only where the GPUs, the data and the protocol are the published ones; elsewhere the
published figures stand alone, headed by their source and system.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bench import units
from bench.labels import counted, head, precision_label, rest_names
from bench.measures import BEST_HR, THROUGHPUT
from bench.published import distinct, lookup, matches, select
from bench.published_tables import accuracy, throughput
from bench.stats import Missing, ratio_to_constant
from bench.tables import Table, rate_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.grid import Block, Pool
    from bench.group import Machine
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
        {name: _listed(run.config.get(name)) for name in PUBLISHED_MODEL} for run in block.runs
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


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def side_by_side(block: Block, figures: Sequence[Figure]) -> Table:
    """Ours, theirs, and the difference or ratio.

    Args:
        block: runs that have no `differences` from the system.
        figures: the training figures of one source and one system.
    """
    assert block.condition is not None
    digits = units.hit_rate_digits(block.condition.dataset.test_users)
    form = rate_form(block)
    rows = []
    ours: set[tuple[int, str]] = set()
    for row in block.rows:
        for precision in block.precisions:
            ours.add((row.ranks, precision))
            hr = lookup(figures, "best_hr_at_10", row.ranks, precision)
            rate = lookup(figures, "train_throughput", row.ranks, precision)
            if hr is None and rate is None and not row.pools[precision].runs:
                continue
            rows.append(
                (
                    *head(row),
                    precision_label(block, precision),
                    *_hit_rates(row.pools[precision], hr, digits),
                    *_rates(row.pools[precision], rate, form),
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
        hr_text = hr.text if hr else units.DASH
        rate_text = form(rate.value) if rate else units.DASH
        cells = (absent, hr_text, units.DASH, absent, rate_text, units.DASH)
        rows.append((str(gpus), *blanks, precision.upper(), *cells))
    if not rest_names(block):
        rows.sort(key=lambda cells: int(cells[0]))
    headers = ("Ranks", *rest_names(block), "Precision")
    headers += ("HR@10 ours", "HR@10 published", "Ours - published")
    headers += ("Samples/s ours", "Samples/s published", "Ours / published")
    return Table(headers, tuple(rows), ("Precision",))


def orientation(figures: Sequence[Figure]) -> list[Table]:
    """The training tables of one source and one system, alone."""
    tables = []
    hit_rates = select(figures, section="training-accuracy")
    rates = select(figures, section="training-throughput")
    if hit_rates:
        tables.append(accuracy(hit_rates))
    if rates:
        tables.append(throughput(rates))
    return tables


def aggregation(figures: Sequence[Figure]) -> str:
    """How the source makes one number of its runs, for HR@10 and for samples/s."""

    def of(metric: str) -> str:
        found = [text for text in distinct(select(figures, metric=metric), "aggregation") if text]
        return ", ".join(found) or "not stated"

    return f"HR@10: {of('best_hr_at_10')}; samples/s: {of('train_throughput')}"


def _hit_rates(pool: Pool, published: Figure | None, digits: int) -> tuple[str, str, str]:
    data = pool.summary(BEST_HR)
    theirs = published.text if published else units.DASH
    if isinstance(data, Missing):
        return units.not_available(counted(0, pool.tally)), theirs, units.DASH
    ours = units.summary(data, lambda value: units.hit_rate(value, digits))
    gap = f"{data.median - published.value:+.{digits}f}" if published else units.DASH
    return f"{ours}, {counted(data.n, pool.tally)}", theirs, gap


def _rates(pool: Pool, published: Figure | None, form: units.Formatter) -> tuple[str, str, str]:
    data = pool.summary(THROUGHPUT)
    theirs = form(published.value) if published else units.DASH
    if isinstance(data, Missing):
        return units.not_available(counted(0, pool.tally)), theirs, units.DASH
    ours = f"{units.summary(data, form)}, {counted(data.n, pool.tally)}"
    if published is None:
        return ours, theirs, units.DASH
    return ours, theirs, units.ratio_summary(ratio_to_constant(data, published.value))
