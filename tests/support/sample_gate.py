"""The suite and the cell that the tests of a gate compare."""

from __future__ import annotations

from sample_records import make_suite

from bench.suite.model import cells

SUITE = make_suite(axes={"ranks": (1,), "precision": ("fp32",)})
(CELL,) = cells(SUITE)
