"""Where the project, its published figures and the helpers of the tests are."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parent.parent
CSV = ROOT / "results" / "published" / "ncf_published.csv"
