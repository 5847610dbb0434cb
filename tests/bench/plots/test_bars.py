from __future__ import annotations

import io
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from paths import CSV
from pictures import WHERE, assert_readable, figure_of, slice_pictures, texts
from PIL import Image
from sample_blocks import (
    block_of,
    dgx,
    never_evaluated,
    out_of_reach,
    single_run,
    smoke,
    stopped_early,
    with_holes,
)
from sample_records import grid, make_suite

from bench.analysis.metrics import BEST_HR
from bench.plots.accuracy import curves, histogram
from bench.plots.bars import throughput
from bench.plots.places import Subject
from bench.plots.run_order import run_order
from bench.plots.scaling import published_lines, strong_scaling
from bench.plots.style import LOOKS, framed
from bench.published.figures import read

SYSTEMS = ("DGX A100 8x A100 40GB", "DGX-1 8x V100 32GB", "DGX-1 8x V100 16GB")
FIGURES = read(CSV)
PUBLISHED = published_lines(FIGURES, SYSTEMS)

DRAWERS = {
    "curves": curves,
    "histogram": histogram,
    "throughput": throughput,
    "scaling": strong_scaling,
    "order": run_order,
}


SITUATIONS = [smoke, single_run, dgx, with_holes, stopped_early, out_of_reach]


def drawn(drawer, block, title="MovieLens 100k (ml-100k)"):
    """A picture as it would be saved; writing files is what takes the time."""
    subject = Subject(block, title, WHERE, margin=0.003, figures=FIGURES, systems=SYSTEMS)
    return figure_of(DRAWERS[drawer], subject)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("drawer", DRAWERS)
def test_no_label_is_cut_off_or_lies_on_another(drawer, situation, monkeypatch):
    assert_readable(drawn(drawer, situation()), monkeypatch)


@pytest.mark.parametrize("situation", [smoke, dgx])
def test_the_legend_lies_on_no_panel(situation):
    figure = drawn("curves", situation())
    (legend,) = figure.legends

    for axes in figure.axes:
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())


@pytest.mark.parametrize("drawer", DRAWERS)
def test_every_picture_says_n_machine_and_date(drawer):
    everything = " ".join(" ".join(texts(drawn(drawer, smoke()))).split())

    assert any(size in everything for size in ("n = 3", "n=3", "n = 12 runs"))
    assert "AMD EPYC 7742" in everything
    assert "2026-11-30 to 2026-12-01" in everything


def test_missing_cells_are_named_and_not_drawn_as_zero():
    bars = drawn("throughput", with_holes())

    assert texts(bars).count("n/a") == 4
    assert len(bars.axes[0].patches) == 5
    assert texts(drawn("scaling", with_holes())).count("no good run") == 1
    assert "no good run" in texts(drawn("histogram", with_holes()))


def test_a_picture_without_any_value_is_not_drawn():
    assert slice_pictures(never_evaluated()) == {}


def test_a_single_run_has_a_mean_without_deviation():
    assert any("SD n/a" in text for text in texts(drawn("histogram", single_run())))


def test_all_panels_of_the_histogram_share_their_bins():
    figure = drawn("histogram", smoke())

    bars = [axes.containers[0].patches for axes in figure.axes]
    assert len({tuple(round(bar.get_x(), 9) for bar in panel) for panel in bars}) == 1
    assert sum(bar.get_height() for panel in bars for bar in panel) == 12


def test_a_target_far_above_the_curves_is_named_instead_of_flattening_them():
    figure = drawn("curves", out_of_reach())

    assert "Target 0.9562 lies above the picture." in " ".join(texts(figure)).replace("\n", " ")
    assert figure.axes[0].get_ylim()[1] < 0.8


def test_median_of_fewer_runs_is_marked_after_the_first_stop():
    figure = drawn("curves", stopped_early())

    lines = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert [list(line.get_xdata()) for line in lines[-2:]] == [[5, 6, 7, 8, 9]] * 2


def test_the_same_records_give_the_same_bytes():
    first, second = (slice_pictures(smoke()) for _ in range(2))

    assert first == second
    assert list(first) == [
        "validation-curves",
        "best-hr-histogram",
        "throughput",
        "strong-scaling",
        "run-order",
    ]


def test_settings_of_the_user_change_neither_the_picture_nor_stay_changed():
    expected = slice_pictures(single_run())

    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "lines.linewidth": 9}):
        assert slice_pictures(single_run()) == expected
        assert mpl.rcParams["font.size"] == 30


def test_pictures_have_a_light_solid_ground_and_no_date():
    picture = slice_pictures(single_run())["throughput"]

    image = Image.open(io.BytesIO(picture.png))
    assert np.asarray(image.convert("RGBA"))[0, 0].tolist() == [255, 255, 255, 255]
    assert "Software" not in image.info
    svg = picture.svg.decode("utf-8")
    assert "<dc:date>" not in svg
    assert not any(line != line.rstrip() for line in svg.split("\n"))


def test_precisions_differ_in_lightness_line_and_marker_not_only_in_colour():
    def lightness(color):
        return mpl.colors.to_rgb(color) @ np.array([0.2126, 0.7152, 0.0722])

    levels = sorted(lightness(look.color) for look in LOOKS.values())
    assert min(np.diff(levels)) > 0.08
    assert len({(look.line, look.marker, look.hatch) for look in LOOKS.values()}) == 3


def test_one_rank_alone_has_no_strong_scaling():
    assert "strong-scaling" not in slice_pictures(single_run())
    assert "run-order" not in slice_pictures(single_run())


def test_more_ranks_that_are_slower_stay_inside_the_picture():
    suite = make_suite()
    attempts = []
    for attempt in grid(suite):
        slow = 5 if attempt.cell.ranks == 2 else 1
        epochs = [replace(e, timed_seconds=e.timed_seconds * slow) for e in attempt.run.epochs]
        attempts.append(replace(attempt, run=replace(attempt.run, epochs=tuple(epochs))))
    figure = strong_scaling(Subject(block_of(suite, attempts), "Sample", WHERE))

    for ax in figure.axes:
        lowest = min(
            segment[:, 1].min() for bars in ax.collections for segment in bars.get_segments()
        )
        assert ax.get_ylim()[0] < lowest < 0.5


def test_the_published_scaling_is_computed_from_the_throughputs():
    assert "8x A100 40 GB, TF 2020" in PUBLISHED
    assert len(PUBLISHED) == 7, "no two sources have the same label"
    a100 = PUBLISHED["8x A100 40 GB, PyTorch 2021"]
    assert [(g, round(s, 2)) for g, s in a100["tf32"]] == [(1, 1.0), (8, 4.88)]
    assert "fp32" not in a100


def test_the_margin_is_a_band_around_the_mean_of_full_precision():
    block = smoke()
    figure = drawn("histogram", block)

    mean = np.mean(block.rows[0].pools["fp32"].values(BEST_HR))
    bars = figure.axes[0].containers[0].patches
    bands = [patch for patch in figure.axes[0].patches if patch not in bars]
    assert [(band.get_x(), band.get_width()) for band in bands] == [
        pytest.approx((mean - 0.003, 0.006))
    ]
    assert "± 0.003, the margin" in " ".join(" ".join(texts(figure)).split())


def test_the_published_histogram_of_400_and_400_runs_with_its_two_means():
    from sample_blocks import one_rank_block as one_rank
    from sample_values import arm

    block = one_rank({"fp32": arm(400, 0.95917, 4e-4, 1), "amp": arm(400, 0.95915, 4e-4, 2)})
    figure = drawn("histogram", block)

    everything = " ".join(texts(figure))
    assert "mean 0.95917, SD 0.00040" in everything
    assert "mean 0.95915, SD 0.00040" in everything
    assert everything.count("(n=400)") == 2
    bars = [axes.containers[0].patches for axes in figure.axes]
    assert [sum(bar.get_height() for bar in panel) for panel in bars] == [400, 400]
    assert 10 <= len(bars[0]) <= 40


def test_run_order_follows_the_clock_and_not_the_grid():
    figure = drawn("order", smoke())

    places = sorted(x for line in figure.axes[0].lines[1:] for x in line.get_xdata())
    assert places == list(range(1, 13))


def test_a_long_title_is_wrapped_before_the_edge():
    title = "Two ranks (synthetic-20m-500k, parallel user-sharded, batch_size 1048576): best HR@10"
    for words in (title, title.replace("best ", ""), "batch_size 1048576 " * 6):
        figure, _ = framed(2, 2, (3.6, 3.3), words, (WHERE,))
        mpl.backends.backend_agg.FigureCanvasAgg(figure)
        (text,) = (t for t in figure.texts if t.get_fontweight() == "bold")
        assert text.get_window_extent().x1 <= figure.bbox.x1
