"""The published figures as tables, in the published shape. Pure.

Speed-up and strong scaling are computed from the throughputs, always mixed / full precision;
where a source prints a speed-up, the two are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.published.figures import SOURCES, distinct, is_inverted, lookup, select
from bench.render import units
from bench.render.model import Estimate, Heading, Quote, Table, Tabled, Text
from bench.stats.summary import Missing, ratio
from bench.suite.model import PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.published.figures import Figure
    from bench.render.model import Item, Node
    from bench.stats.summary import Value

_LATENCIES = (("mean", "mean"), ("p90", "90 %"), ("p95", "95 %"), ("p99", "99 %"))
_WAYS = {"best": "best run", "average": "average of runs"}


def document(figures: Sequence[Figure], digits: str = "auto") -> list[Node]:
    """All published tables, source by source, as one page."""
    nodes: list[Node] = [
        Heading(1, "Published figures of NVIDIA's NCF examples"),
        Text(
            "Trained on MovieLens 20M with a global batch of 1,048,576; HR@10 among 1 + 100 "
            "candidates. Speed-up is mixed / full precision, strong scaling is against 1 GPU; both "
            f"are computed here from the throughputs. `{units.DASH}`: the source does not say."
        ),
    ]
    for source in distinct(figures, "source"):
        own = select(figures, source=source)
        nodes.append(Heading(2, SOURCES.get(source, source)))
        if is_inverted(own):
            nodes.append(
                Quote(
                    "This source prints its throughput speed-ups inverted (full / mixed "
                    "precision, below 1 where mixed precision is faster). The tables below print "
                    "them upright."
                )
            )
        for sections, name, title, render in _PARTS:
            found = [figure for figure in own if figure.section in sections]
            for system in distinct(found, "system"):
                one = select(found, system=system)
                heading = f"{title}: {system}{_how(one)}"
                table, remark = render(one, digits)
                nodes.append(Heading(3, heading))
                nodes.append(Tabled(name, heading, table, SOURCES.get(source, source)))
                nodes += [Text(remark)] if remark else []
    return nodes


def accuracy(figures: Sequence[Figure]) -> Table:
    """Best HR@10 and time to train of one system, digits as printed."""
    precisions = _precisions(figures)
    timed = bool(select(figures, metric="time_to_train"))
    rows: list[tuple[Item, ...]] = []
    for gpus in _gpus(figures):
        cells = _head(figures, gpus)
        cells += [printed(lookup(figures, "best_hr_at_10", gpus, p)) for p in precisions]
        if timed:
            cells += [printed(lookup(figures, "time_to_train", gpus, p)) for p in precisions]
        rows.append(tuple(cells))
    headers = [*_heads(figures), *(f"{p.upper()} best HR@10" for p in precisions)]
    if timed:
        headers += [f"{p.upper()} time to train (s)" for p in precisions]
    return Table(tuple(headers), tuple(rows))


def throughput(
    figures: Sequence[Figure], metric: str = "train_throughput", digits: str = "auto"
) -> Table:
    """Samples/s of one system, speed-up and strong scaling."""
    precisions = _precisions(figures)
    form = _rate_form(figures, digits)
    all_gpus = _gpus(figures)
    pairs = [("amp", full) for full in precisions if full != "amp" and "amp" in precisions]
    scaled = len(all_gpus) > 1
    rows: list[tuple[Item, ...]] = []
    for gpus in all_gpus:
        found = {p: lookup(figures, metric, gpus, p) for p in precisions}
        cells = _head(figures, gpus)
        cells += [printed(found[p], form) for p in precisions]
        cells += [_ratio(found[mixed], found[full]) for mixed, full in pairs]
        if scaled:
            cells += [_ratio(found[p], lookup(figures, metric, 1, p)) for p in precisions]
        rows.append(tuple(cells))
    headers = [*_heads(figures), *(f"{p.upper()} (samples/s)" for p in precisions)]
    headers += [f"Speed-up {mixed.upper()}/{full.upper()}" for mixed, full in pairs]
    headers += [f"Strong scaling {p.upper()}" for p in precisions] if scaled else []
    return Table(tuple(headers), tuple(rows))


def inference(figures: Sequence[Figure], digits: str = "auto") -> Table:
    """Inference throughput and latency of one system by precision and batch size."""
    form = _rate_form(select(figures, metric="inference_throughput"), digits)
    rows: list[tuple[Item, ...]] = []
    for precision in _precisions(figures):
        for batch in distinct(select(figures, precision=precision), "batch_per_gpu"):
            cell = select(figures, precision=precision, batch_per_gpu=batch)
            rate = lookup(cell, "inference_throughput", 1, precision)
            cells: list[Item] = [precision.upper(), _batch(batch), printed(rate, form)]
            for key, _ in _LATENCIES:
                cells.append(milliseconds(lookup(cell, f"latency_{key}", 1, precision)))
            rows.append(tuple(cells))
    headers = (
        "Precision",
        "Batch",
        "Samples/s",
        *(f"Latency {text} (ms)" for _, text in _LATENCIES),
    )
    return Table(headers, tuple(rows), ("Precision",))


def computed_speedups(figures: Sequence[Figure]) -> list[tuple[Figure, Value]]:
    """Every printed speed-up beside the one that the source's own throughputs give."""
    pairs: list[tuple[Figure, Value]] = []
    for printed in select(figures, metric="speedup"):
        mixed_name, _, full_name = printed.precision.partition("/")
        same = select(
            figures,
            source=printed.source,
            section=printed.section,
            system=printed.system,
            gpus=printed.gpus,
        )
        mixed = select(same, precision=mixed_name, unit="samples/s")
        full = select(same, precision=full_name, unit="samples/s")
        if mixed and full:
            pairs.append((printed, ratio(mixed[0].value, full[0].value)))
        else:
            pairs.append((printed, Missing("no throughput")))
    return pairs


def check_text(figures: Sequence[Figure]) -> str:
    """One sentence on whether the printed speed-ups agree with the computed ones; or ""."""
    pairs = computed_speedups(figures)
    if not pairs:
        return ""
    wrong = [f"{p.gpus} GPUs: printed {p.text}" for p, value in pairs if not _agrees(p, value)]
    if wrong:
        return f"Printed speed-ups that do not follow from the throughputs: {'; '.join(wrong)}."
    printed = ", ".join(figure.text for figure, _ in pairs)
    return f"The speed-ups that the source prints ({printed}) agree within rounding."


def _agrees(printed: Figure, computed: Value) -> bool:
    decimals = len(printed.text.partition(".")[2])
    return not isinstance(computed, Missing) and f"{computed:.{decimals}f}" == printed.text


def _accuracy_part(figures: Sequence[Figure], _digits: str) -> tuple[Table, str]:
    return accuracy(figures), ""


def _histogram_part(figures: Sequence[Figure], _digits: str) -> tuple[Table, str]:
    rows = tuple((f.precision.upper(), printed(f), f.aggregation or units.DASH) for f in figures)
    return Table(("Precision", "Mean best HR@10", "Over"), rows, ("Precision", "Over")), ""


def _throughput_part(figures: Sequence[Figure], digits: str) -> tuple[Table, str]:
    return throughput(figures, digits=digits), check_text(figures)


def inference_part(figures: Sequence[Figure], digits: str = "auto") -> tuple[Table, str]:
    """The inference table of one source and one system, and a remark on its printed speed-ups."""
    if _states_batch(figures):
        return inference(figures, digits), check_text(figures)
    return throughput(figures, "inference_throughput", digits), check_text(figures)


_PARTS = (
    (("training-accuracy",), "accuracy", "Training accuracy", _accuracy_part),
    (
        ("accuracy-histogram",),
        "histogram",
        "Best HR@10 over repeated runs",
        _histogram_part,
    ),
    (("training-throughput",), "throughput", "Training throughput", _throughput_part),
    (("inference-throughput", "inference-latency"), "inference", "Inference", inference_part),
)


def _how(figures: Sequence[Figure]) -> str:
    """The source's way from runs to a number, for a heading: " (average)"."""
    ways = [_WAYS.get(text, text) for text in distinct(figures, "aggregation") if text]
    return f" ({', '.join(ways)})" if ways else ""


def _gpus(figures: Sequence[Figure]) -> list[int]:
    return sorted({figure.gpus for figure in figures if figure.gpus is not None})


def _precisions(figures: Sequence[Figure]) -> list[str]:
    found = set(distinct(figures, "precision"))
    return [precision for precision in PRECISIONS if precision in found]


def _states_batch(figures: Sequence[Figure]) -> bool:
    return any(figure.batch_per_gpu is not None for figure in figures)


def _heads(figures: Sequence[Figure]) -> list[str]:
    return ["GPUs", "Batch per GPU"] if _states_batch(figures) else ["GPUs"]


def _head(figures: Sequence[Figure], gpus: int) -> list[Item]:
    if not _states_batch(figures):
        return [gpus]
    found = [b for b in distinct(select(figures, gpus=gpus), "batch_per_gpu") if b is not None]
    return [gpus, _batch(found[0]) if found else units.DASH]


def _batch(size: int) -> Estimate:
    return Estimate(float(size), units.count, unit="samples")


def printed(figure: Figure | None, form: units.Formatter | None = None) -> Item:
    """A published figure as its source prints it, or by `form`; a dash where there is none."""
    if figure is None:
        return units.DASH
    text = figure.text
    return Estimate(figure.value, form or (lambda _: text), unit=figure.unit)


def _ratio(numerator: Figure | None, denominator: Figure | None) -> Item:
    if numerator is None or denominator is None:
        return units.DASH
    quotient = ratio(numerator.value, denominator.value)
    if isinstance(quotient, Missing):
        return Estimate(None, units.ratio, quotient.reason, unit="ratio")
    return Estimate(quotient, units.ratio, unit="ratio")


def milliseconds(figure: Figure | None) -> Item:
    """A published latency in milliseconds; a dash where the source gives none."""
    if figure is None:
        return units.DASH
    # Three digits fewer than the seconds had: no precision that the source did not print.
    digits = max(0, len(figure.text.partition(".")[2]) - 3)
    return Estimate(figure.value, lambda seconds: f"{seconds * 1e3:.{digits}f}", unit=figure.unit)


def _rate_form(figures: Sequence[Figure], digits: str = "auto") -> units.Formatter:
    """Every digit if the source gave them (or on request), else millions with two decimals."""
    rates = [figure.value for figure in figures if figure.unit == "samples/s"]
    rounded = bool(rates) and all(rate % 10_000 == 0 for rate in rates)
    short = rounded if digits == "auto" else digits == "short"
    return units.millions if short else units.count
