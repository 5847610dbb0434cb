"""The roofline's two sides: costs counted from shapes, and peaks that are measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy import import_tensorflow

from ncf.model.roofline import Shape, copy_peak, fast_cost, matmul_peak, reference_cost

PUBLISHED = Shape(
    users=138_493, items=26_744, factors=64, layers=(256, 256, 128, 64), samples=1_048_575,
    groups=209_715, distinct_users=100_000, width=4, item_sums=2,
)  # fmt: skip


def test_the_published_model_costs_the_published_operations() -> None:
    # 256 x 256 + 256 x 128 + 128 x 64 + (64 + 64) multiply-adds, 2 operations, 3 products.
    operations, _ = reference_cost(PUBLISHED)
    assert operations == 6 * (65_536 + 32_768 + 8_192 + 128)


def test_the_fast_form_leaves_the_first_layer_to_tables_and_distinct_users() -> None:
    operations, _ = fast_cost(PUBLISHED, table=True)
    upper = 6 * (32_768 + 8_192 + 128)
    first = 6 * 128 * 256 * (26_744 + 100_000) / 1_048_575
    assert operations == pytest.approx(upper + first)
    assert 2.3 < reference_cost(PUBLISHED)[0] / operations < 2.4


def test_step_without_repeated_ids_saves_only_the_item_table() -> None:
    small = replace(PUBLISHED, samples=1000, groups=1000, distinct_users=1000)
    assert fast_cost(small, table=False)[0] == pytest.approx(reference_cost(small)[0])


def test_smaller_batches_pay_more_bytes_per_sample_for_the_optimizer() -> None:
    small = replace(PUBLISHED, samples=65_535, groups=13_107, distinct_users=12_000)
    for cost in (reference_cost, lambda shape: fast_cost(shape, table=True)):
        assert cost(small)[1] > 1.5 * cost(PUBLISHED)[1]


def test_without_hidden_layers_the_scores_are_all_there_is() -> None:
    flat = replace(PUBLISHED, layers=(256,))
    assert reference_cost(flat)[0] == 6 * (64 + 256)
    assert fast_cost(flat, table=True)[0] < reference_cost(flat)[0]


@pytest.mark.tf
def test_peaks_are_measured_in_the_type_that_is_asked_for() -> None:
    tf = import_tensorflow()
    for dtype in (tf.float32, tf.bfloat16):
        assert matmul_peak(dtype, 2, on_gpu=False, seconds=0.01) > 1e9
    assert copy_peak(2, on_gpu=False, seconds=0.01) > 1e8
