"""The published figures as the tests use them."""

from __future__ import annotations

from paths import CSV

from bench.published import figures as published

FIGURES = published.read(CSV)
