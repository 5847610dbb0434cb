"""Draw docs/rooms.svg: the rooms of bench and ncf in the layers that the boundary test checks.

Run it after a change of LAYERS in tests/project/test_boundaries.py: `python tools/draw_rooms.py`.
"""

from __future__ import annotations

import ast
import html
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "rooms.svg"

# Two lines of text for each room. The rooms of a layer are drawn from left to right in this order.
TEXTS = {
    "bench": {
        "__main__": ("the program ncf-bench", ""),
        "cli": ("a module for each command: reads options, prints, sets the exit code", ""),
        "report": ("a suite's report: which tables and texts, in which order", ""),
        "plots": ("pictures, drawn from grouped runs", ""),
        "foreign": ("logs of other", "programs"),
        "published": ("NVIDIA's figures,", "scaling model"),
        "gate": ("verdicts against", "a baseline"),
        "sweep": ("plans the runs", "and makes them"),
        "analysis": ("groups of comparable runs, metrics, contrasts", ""),
        "host": ("processor, GPUs, telemetry", ""),
        "records": ("attempts as stored", ""),
        "render": ("tables and pages, and their formats", ""),
        "suite": ("suite files, parsed", "and checked"),
        "suites": ("suites that ship", ""),
        "stats": ("intervals, tests,", "decisions"),
        "errors": ("errors of the user", ""),
        "files": ("files, written whole", ""),
        "process": ("starts and ends", "processes"),
    },
    "ncf": {
        "__main__": ("the program ncf", ""),
        "cli": ("a module for each command", ""),
        "training": ("the training loop, its state, checkpoints", ""),
        "evaluation": ("hit rate and NDCG, full ranking, inference", ""),
        "model": ("NeuMF: reference and fast step", ""),
        "sampling": ("batches: positives and their negatives", ""),
        "data": ("split, candidates, the data folder", ""),
        "config": ("options, checked", ""),
        "readers": ("files of ratings", ""),
        "ranks": ("Horovod, watchdog", ""),
        "record": ("what a run", "measured"),
        "errors": ("errors of", "the user"),
        "metrics": ("HR@k and", "NDCG@k"),
        "runtime": ("threads, hash", "of the code"),
        "horovodrun": ("starts the", "ranks"),
    },
}

WIDTH, GUTTER, ROW, BOX, GAP, TOP = 520, 90, 78, 54, 8, 64
LEFT = {"bench": 20, "ncf": 20 + WIDTH + GUTTER}
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z"/></marker>'
)
STYLE = """
  text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .room { font-size: 13px; font-weight: 600; text-anchor: middle; }
  .note { font-size: 12px; text-anchor: middle; fill: #57606a; }
  .page { fill: #ffffff; stroke: #d0d7de; }
  .bench { fill: #e7f1fb; stroke: #4a8ac4; }
  .ncf { fill: #e9f6ec; stroke: #4c9a62; }
  .arrow { stroke: #57606a; stroke-width: 1.5; fill: none; marker-end: url(#head); }
  .process { stroke-dasharray: 5 4; }
  #head path { fill: #57606a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #b1bac4; }
    .page { fill: #0d1117; stroke: #30363d; }
    .bench { fill: #14293f; stroke: #4a8ac4; }
    .ncf { fill: #15301f; stroke: #4c9a62; }
    .arrow { stroke: #b1bac4; }
    #head path { fill: #b1bac4; }
  }
"""


def layers() -> dict[str, list[list[str]]]:
    """LAYERS of the boundary test, lowest first, the rooms of a layer in the order of TEXTS."""
    source = (ROOT / "tests" / "project" / "test_boundaries.py").read_text(encoding="utf-8")
    value = next(
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS"
    )
    return {
        package: [sorted(rooms, key=list(TEXTS[package]).index) for rooms in rows]
        for package, rows in ast.literal_eval(value).items()
    }


def draw() -> str:
    """The picture as SVG: higher layers at the top, so that every import points downwards."""
    rows = layers()
    most = max(len(each) for each in rows.values())
    height, width = TOP + most * ROW, LEFT["ncf"] + WIDTH + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>The rooms of bench and ncf in layers; imports point downwards</title>",
        f"<style>{STYLE}</style>",
        HEAD,
        f'<rect class="page" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="8"/>',
    ]
    centres = {}
    for package, title in (("bench", "bench: the orchestrator"), ("ncf", "ncf: the trainer")):
        lines.append(f'<text class="title" x="{LEFT[package]}" y="38">{title}</text>')
        for level, rooms in enumerate(rows[package]):
            y = TOP + (most - 1 - level) * ROW
            box = (WIDTH - GAP * (len(rooms) - 1)) / len(rooms)
            for place, room in enumerate(rooms):
                x = LEFT[package] + place * (box + GAP)
                centres[package, room] = y + BOX / 2
                lines += _room(package, room, x, y, box)
            if level:
                middle = LEFT[package] + WIDTH / 2
                lines.append(_arrow(f"M{middle:g} {y + BOX}V{y + ROW - 1}"))
    lines += _between(centres)
    return "\n".join([*lines, "</svg>", ""])


def _room(package: str, room: str, x: float, y: float, width: float) -> list[str]:
    middle = x + width / 2
    notes = [note for note in TEXTS[package][room] if note]
    first = y + (24 if len(notes) == 1 else 18)
    return [
        f'<rect class="{package}" x="{x:g}" y="{y}" width="{width:g}" height="{BOX}" rx="5"/>',
        f'<text class="room" x="{middle:g}" y="{first:g}">{room}</text>',
        *(
            f'<text class="note" x="{middle:g}" y="{first + 16 + 13 * line:g}">'
            f"{html.escape(note)}</text>"
            for line, note in enumerate(notes)
        ),
    ]


def _arrow(path: str, kind: str = "") -> str:
    return f'<path class="{f"arrow {kind}".strip()}" d="{path}"/>'


def _between(centres: dict[tuple[str, str], float]) -> list[str]:
    """Both ways from bench to ncf: the process that a sweep starts, and the type of its record."""
    start, end = LEFT["bench"] + WIDTH, LEFT["ncf"]
    middle = (start + end) / 2
    sweep, program = centres["bench", "sweep"], centres["ncf", "__main__"]
    records, record = centres["bench", "records"], centres["ncf", "record"]
    return [
        _arrow(f"M{start} {sweep:g}H{middle}V{program:g}H{end - 1}", "process"),
        f'<text class="note" x="{middle}" y="{program - 22:g}">starts as</text>',
        f'<text class="note" x="{middle}" y="{program - 9:g}">a process</text>',
        _arrow(f"M{start} {records:g}H{middle}V{record:g}H{end - 1}"),
        f'<text class="note" x="{middle}" y="{record + 17:g}">imports</text>',
        f'<text class="note" x="{middle}" y="{record + 30:g}">the record</text>',
    ]


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
