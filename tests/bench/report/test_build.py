from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import golden
import pytest
from paths import CSV
from sample_records import A100_HOST, CPU_HOST, ML_20M, grid, make_attempt, make_suite

from bench.analysis.aggregate import DEFAULT
from bench.errors import UserError
from bench.records.store import Store
from bench.render.formats import markdown_page
from bench.report import document, verdicts
from bench.report.build import published_page, tables, write_report
from bench.suite.model import cells


@pytest.fixture
def report(tmp_path):
    """Stores attempts of a suite, writes its report, and gives the text."""

    def make(suite, attempts, csv=CSV):
        store = Store(tmp_path / "results" / suite.name)
        for attempt in attempts:
            store.write(attempt)
        written = write_report(suite, tmp_path / "results", tmp_path / "plots", csv)
        return written[0].read_text(encoding="utf-8")

    return make


def section(text, heading):
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_report_of_a_complete_sweep(report):
    suite = make_suite()

    golden.check("report_complete.md", report(suite, grid(suite)))


def test_runs_that_may_have_shared_the_machine_say_so_above_their_speed(report):
    sentence = "runs may have shared the machine"
    suite = make_suite(measures="accuracy")
    speed = report(suite, grid(suite)).partition("## Training throughput")[2]
    assert sentence in speed.partition("\n## ")[0]
    assert sentence not in report(make_suite(name="speed"), grid(make_suite(name="speed")))


def test_runs_with_flags_that_the_suite_leaves_out_are_in_no_table(report):
    attempts = grid(make_suite(without=("busy_host",)))
    attempts[0] = replace(attempts[0], flags=("busy_host",))
    attempts[1] = replace(attempts[1], flags=("power_capped",))
    text = report(make_suite(without=("busy_host",)), attempts)
    assert "11 good of 12 planned" in text


def test_report_of_a_sweep_with_holes(report, tmp_path):
    suite = make_suite(
        axes={"ranks": (1, 2, 4), "precision": ("fp32", "tf32", "amp")},
        published_systems=("DGX A100 8x A100 40GB",),
    )
    attempts = [
        a
        for a in grid(suite)
        if a.cell.precision != "tf32" and a.cell.ranks < 4 and (a.cell.ranks, a.seed) != (2, 2)
    ]
    amp = next(cell for cell in cells(suite) if (cell.ranks, cell.precision) == (2, "amp"))
    attempts += [make_attempt(amp, 2, status=s, number=n) for n, s in ((1, "oom"), (2, "timeout"))]
    attempts += grid(make_suite(axes={"ranks": (16,), "precision": ("fp32",)}))
    broken = Store(tmp_path / "results" / suite.name).path(amp.key, 3, 9)
    broken.parent.mkdir(parents=True)
    broken.write_text('{"kind": "att', encoding="utf-8")

    golden.check("report_holes.md", report(suite, attempts))


def test_report_of_the_published_machine_stands_side_by_side(report):
    suite = make_suite(
        title="DGX",
        train={"epochs": 5, "batch_size": 1048576},
        axes={"ranks": (1, 8), "precision": ("tf32", "amp")},
        seeds=tuple(range(1, 8)),
        published_systems=("DGX A100 8x A100 40GB", "DGX-1 8x V100 32GB", "DGX B300"),
        margin_hr=5e-4,
    )
    attempts = grid(
        suite, spread=4e-4, best=0.959, rate=2e7, data=ML_20M, batch=1048576, dtype="float16"
    )

    golden.check("report_dgx.md", report(suite, [replace(a, host=A100_HOST) for a in attempts]))


def test_two_machines_have_tables_and_pictures_of_their_own(report, tmp_path):
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32", "amp")})
    ours = grid(suite)
    theirs = [
        replace(
            a,
            host={**CPU_HOST, "machine_id": "theirs"},
            attempt=2,
            started_at="2026-01-01T08:00:00Z",
            finished_at="2026-01-01T08:01:00Z",
        )
        for a in grid(suite, rate=500_000.0)
    ]

    text = report(suite, ours + theirs)

    assert "made under 2 different conditions" in text
    first, second = text.split("# Condition 2 of 2")
    assert "151,120" in first
    assert "503," in second
    assert "machine (another one of the same kind)" in second
    assert {path.stem for path in (tmp_path / "plots" / "sample").iterdir()} == {
        f"{name}-{number}"
        for name in ("validation-curves", "best-hr-histogram", "throughput", "run-order")
        for number in (1, 2)
    }


def test_every_linked_picture_exists_and_nothing_names_this_machine(report, tmp_path):
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32",), "batch_size": (1024, 2048)})

    text = report(suite, grid(suite))

    links = re.findall(r"\]\((\.\./[^)]+)\)", text)
    assert len(links) == 16
    for link in links:
        assert (tmp_path / "results" / "sample" / link).resolve().is_file(), link
    assert links[0] == "../../plots/sample/validation-curves-batch_size=1024.png"
    assert str(tmp_path) not in text


def test_redrawing_gives_the_same_bytes_and_touches_nothing(report, tmp_path):
    suite = make_suite()
    report(suite, grid(suite))
    files = [
        path for path in tmp_path.rglob("*") if path.suffix in (".md", ".html", ".png", ".svg")
    ]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    written = write_report(suite, tmp_path / "results", tmp_path / "plots", CSV)

    assert set(written) == set(before)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in written} == before


def test_stale_pictures_are_removed_and_other_files_kept(report, tmp_path):
    suite = make_suite()
    pictures = tmp_path / "plots" / "sample"
    pictures.mkdir(parents=True)
    for name in ("throughput-batch_size=1.png", "mine.png", "throughput.txt"):
        (pictures / name).write_bytes(b"x")

    report(suite, grid(suite))

    assert not (pictures / "throughput-batch_size=1.png").exists()
    assert (pictures / "mine.png").exists()
    assert (pictures / "throughput.txt").exists()


def test_a_model_that_does_not_beat_popularity_is_called_out(report):
    suite = make_suite(axes={"ranks": (1,), "precision": ("fp32",)})

    text = report(suite, grid(suite, best=0.4))

    assert "> Not better than popularity: FP32 (ranks 1, precision fp32)." in text


def test_only_failures_still_make_a_readable_report(report):
    suite = make_suite()

    text = report(suite, [make_attempt(cells(suite)[0], 1, status="crash")])

    assert "There is no good run yet." in text
    assert "1 crash" in section(text, "Failed, missing and unavailable runs")
    assert "Pictures" not in text


def test_published_systems_are_left_out_where_the_suite_names_none(report):
    suite = make_suite(seeds=(1,))

    assert "NVIDIA DeepLearningExamples" not in report(suite, grid(suite))


def test_a_suite_that_names_no_system_gets_the_one_nearest_to_its_machine(report):
    suite = make_suite(axes={"ranks": (1,), "precision": ("amp",)}, seeds=(1,))

    text = report(suite, [replace(a, host=A100_HOST) for a in grid(suite)])

    assert "### DGX A100 8x A100 40GB: NVIDIA DeepLearningExamples" in text
    assert "DGX-1" not in text


def test_a_suite_without_records_says_how_to_make_them(tmp_path):
    with pytest.raises(UserError, match="no records of sample; make them: bench run sample"):
        write_report(make_suite(), tmp_path / "results", tmp_path / "plots", CSV)


def test_a_folder_that_cannot_be_written_is_one_line(report, tmp_path):
    suite = make_suite(seeds=(1,))
    (tmp_path / "plots").write_text("in the way", encoding="utf-8")

    with pytest.raises(UserError, match="plots") as caught:
        report(suite, grid(suite))

    assert "\n" not in str(caught.value)


def test_published_tables_come_from_the_csv():
    golden.check("published.md", markdown_page(published_page(CSV)))


def test_a_table_that_nobody_prints_is_not_built(tmp_path, monkeypatch):
    suite = make_suite(margin_hr=0.006)
    store = Store(tmp_path / suite.name)
    for attempt in grid(suite):
        store.write(attempt)
    built = []
    for module, name in ((document, "accuracy"), (document, "throughput"), (verdicts, "table")):
        make = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, make=make, name=name: built.append(name) or make(*args)
        )

    found = {one.name: one for one in tables(suite, tmp_path, CSV, DEFAULT)}
    assert built == []
    assert found["throughput"].table.rows
    assert built == ["throughput"]
    assert found["verdict"].table.rows
    assert built == ["throughput", "table"]


def test_a_report_needs_neither_tensorflow_nor_pandas():
    code = (
        "import sys, bench.report.build; "
        "names = {'tensorflow', 'pandas', 'matplotlib', 'scipy', 'ncf.training.train'}; "
        "heavy = names & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )

    subprocess.run([sys.executable, "-c", code], check=True, cwd=CSV.parent.parent.parent)
