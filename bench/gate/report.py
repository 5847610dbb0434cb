"""What a gate or a comparison found: Markdown, JSON, JUnit XML, GitHub annotations. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from bench.render.formats import markdown_page
from bench.render.model import Column, Estimate, Heading, Items, Several, Tabled, Text, build
from bench.stats.decision import EQUIVALENT, IMPROVED, INCONCLUSIVE, NOT_COMPARABLE, REGRESSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.gate.compare import Line
    from bench.render.model import Node, Table

WORST_FIRST = (REGRESSED, NOT_COMPARABLE, INCONCLUSIVE, IMPROVED, EQUIVALENT)
LEGEND = (
    "Change: ratio (or difference) of means with its 90 % interval, outliers set aside. REGRESSED: "
    "'no loss' is refuted (Holm over all lines), the loss lies beyond the margin, and the interval "
    "is no wider than that. p: chance of such a loss if there were none. How: docs/ci.md."
)


def headline(lines: Sequence[Line]) -> str:
    """`1 REGRESSED, 3 EQUIVALENT`, the worst first."""
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in WORST_FIRST}
    return ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n) or "nothing compared"


def table(lines: Sequence[Line]) -> Table:
    """A line per cell and metric, the worst first."""
    columns: list[Column[Line]] = [
        Column("Cell", lambda line: line.label, words=True),
        Column("Metric", lambda line: line.metric.name, words=True),
        Column("Baseline", lambda line: _value(line, line.before)),
        Column("Here", lambda line: _value(line, line.after)),
        Column("Change", change),
        Column("Margin", _margin),
        Column("p", _p),
        Column("n", lambda line: Several(line.answer.n)),
        Column("Verdict", told, words=True),
    ]
    return build(sorted(lines, key=lambda line: WORST_FIRST.index(line.verdict)), columns)


def _value(line: Line, value: float | None) -> Estimate:
    metric = line.metric
    with_unit = metric.unit in ("fraction", "bytes")

    def form(number: float) -> str:
        return metric.form(number) if with_unit else f"{metric.form(number)} {metric.unit}"

    return Estimate(value, form, "no values", unit=metric.unit, sources=(line.key,))


def change(line: Line) -> Estimate:
    """`-5.0 % [-6.1 to -3.9]`, or the difference in the metric's own unit."""
    answer, percent = line.answer, line.metric.scale == "ratio"
    value, low, high = map(line.unscaled, (answer.difference, answer.low, answer.high))
    return Estimate(
        value,
        (lambda ratio: f"{100 * (ratio - 1):+.1f} %") if percent else "{:+.5f}".format,
        low=low,
        high=high,
        spread="ci",
        n=None if value is None else sum(answer.n),
        sources=(line.key,),
        bound_form=(lambda ratio: f"{100 * (ratio - 1):+.1f}") if percent else None,
    )


def _margin(line: Line) -> Several:
    return Several(
        (line.margin,), "{:.1%}".format if line.metric.scale == "ratio" else "{:g}".format
    )


def _p(line: Line) -> Several:
    return Several((line.answer.p,), lambda p: "< 0.0001" if p < 1e-4 else f"{p:.4f}")


def told(line: Line) -> str:
    """The verdict, with what it would take or what stands against it."""
    if line.verdict == NOT_COMPARABLE:
        return f"{NOT_COMPARABLE} ({', '.join(keys(line)) or line.missing})"
    if line.verdict != INCONCLUSIVE:
        return line.verdict
    answer = line.answer
    if answer.needed is None:
        return f"{INCONCLUSIVE} ({answer.reason}; no affordable number of runs would decide)"
    still = max(0, answer.needed - min(answer.n))
    return f"{INCONCLUSIVE} (needs {answer.needed:,} runs a side, {still:,} more)"


def keys(line: Line) -> tuple[str, ...]:
    """The facts that differ: "hardware.gpus"."""
    return tuple(difference.key for difference in line.differing)


def markdown(
    title: str, lines: Sequence[Line], about: Sequence[str], warnings: Sequence[str] = ()
) -> str:
    """The summary, as GitHub renders it."""
    nodes: list[Node] = [Heading(2, f"{title}: {headline(lines)}")]
    nodes += [Text(line) for line in about]
    nodes.append(Tabled("gate", title, table(lines)))
    differing = dict.fromkeys(f"{line.label}: {text}" for line in lines for text in line.obstacles)
    if differing:
        nodes += [Text("**Not comparable**, because they differ in:"), Items(tuple(differing))]
    if warnings:
        nodes += [Text("**Warnings**"), Items(tuple(warnings))]
    nodes.append(Text(f"*{LEGEND}*"))
    return markdown_page(nodes)


def plain(line: Line) -> dict[str, Any]:
    """For JSON: unrounded, null for what does not exist."""
    answer = line.answer
    return {
        "cell": line.key,
        "label": line.label,
        "metric": line.metric.name,
        "unit": line.metric.unit,
        "better": line.metric.better,
        "scale": line.metric.scale,
        "margin": line.margin,
        "baseline": line.before,
        "here": line.after,
        "change": line.unscaled(answer.difference),
        "low": line.unscaled(answer.low),
        "high": line.unscaled(answer.high),
        "p": answer.p,
        "n_baseline": answer.n[0],
        "n_here": answer.n[1],
        "set_aside": list(answer.aside),
        "n_needed": answer.needed,
        "verdict": line.verdict,
        "reason": answer.reason,
        "differing": list(line.obstacles),
    }


def as_json(lines: Sequence[Line], more: dict[str, Any]) -> str:
    """One object: what is given, and the lines."""
    return json.dumps({**more, "lines": [plain(line) for line in lines]}, indent=1, allow_nan=False)


def junit(suite: str, lines: Sequence[Line], failing: Sequence[str], errors: Sequence[str]) -> str:
    """JUnit XML: a test case per line.

    Args:
        suite: its name.
        lines: of the gate.
        failing: verdicts that are failures; INCONCLUSIVE and NOT COMPARABLE are skipped tests
            where they are none.
        errors: cells whose runs failed.
    """
    failures = sum(line.verdict in failing for line in lines)
    skipped = sum(_skipped(line, failing) for line in lines)
    root = ET.Element("testsuites")
    group = ET.SubElement(
        root,
        "testsuite",
        name=f"bench gate {suite}",
        tests=str(len(lines) + len(errors)),
        failures=str(failures),
        errors=str(len(errors)),
        skipped=str(skipped),
    )
    for line in lines:
        case = ET.SubElement(
            group, "testcase", classname=f"{suite}.{line.label}", name=line.metric.name
        )
        if line.verdict in failing:
            failed = ET.SubElement(case, "failure", type=line.verdict, message=sentence(line))
            failed.text = "\n".join(line.obstacles)
        elif _skipped(line, failing):
            ET.SubElement(case, "skipped", message=sentence(line))
        ET.SubElement(case, "system-out").text = sentence(line)
    for key in errors:
        case = ET.SubElement(group, "testcase", classname=suite, name=key)
        ET.SubElement(case, "error", type="runs failed", message=f"{key}: too few good runs")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _skipped(line: Line, failing: Sequence[str]) -> bool:
    return line.verdict in (INCONCLUSIVE, NOT_COMPARABLE) and line.verdict not in failing


def sentence(line: Line) -> str:
    """A line of the table in words."""
    n = f"n = {line.answer.n[0]} and {line.answer.n[1]}"
    detail = "; ".join(line.obstacles) if line.obstacles else f"{change(line)}, {n}"
    return f"{line.label}, {line.metric.name}: {told(line)}: {detail}"


def github_annotations(suite: str, lines: Sequence[Line], warnings: Sequence[str]) -> list[str]:
    """GitHub's workflow commands: an error per loss, a warning per open line and suspicion."""
    found = []
    for line in lines:
        level = {REGRESSED: "error", EQUIVALENT: "", IMPROVED: "notice"}.get(
            line.verdict, "warning"
        )
        if level:
            found.append(_command(level, f"bench gate {suite}", sentence(line)))
    return found + [_command("warning", f"bench gate {suite}", text) for text in warnings]


def _command(level: str, title: str, message: str) -> str:
    """`::error title=...::message`, escaped as the runner un-escapes it (actions/toolkit)."""
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = title.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{data}"
