"""Write a ratings.csv with the shape of a MovieLens data set, to measure `ncf prepare` on.

    python tools/make_ratings_csv.py 20m ratings.csv            # 0.5 GB in about a minute
    python tools/make_ratings_csv.py 20m mixed.csv --order mixed

Users, items and rows are exactly those of the preset; ids have MovieLens' gaps, timestamps its
range. Rows are sorted by user and item, as GroupLens' are, or by user alone, or not at all.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import csv

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ncf.data import synthetic

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_ITEM = 131_262  # of ml-20m, which has 26,744 items
FIRST_TIME, LAST_TIME = 789_652_004, 1_427_784_002
ORDERS = ("item", "user", "mixed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("preset", choices=synthetic.PRESETS)
    parser.add_argument("output", type=Path)
    parser.add_argument("--order", choices=ORDERS, default="item", help="of the rows")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    shape = synthetic.PRESETS[args.preset]
    made = synthetic.generate(shape, args.seed)
    rng = np.random.default_rng(args.seed)
    times = rng.integers(FIRST_TIME, LAST_TIME, shape.interactions)
    orders = {
        "item": lambda: np.lexsort((made.items, made.users)),
        "user": lambda: np.arange(shape.interactions),
        "mixed": lambda: rng.permutation(shape.interactions),
    }
    order = orders[args.order]()
    ids = np.sort(rng.choice(max(LARGEST_ITEM, shape.items), shape.items, replace=False)) + 1
    table = pa.table(
        {
            "userId": made.users[order] + 1,
            "movieId": ids[made.items[order]],
            "rating": rng.integers(1, 11, shape.interactions) / 2,
            "timestamp": times[order],
        }
    )
    csv.write_csv(table, args.output)
    print(f"{args.output}: {args.output.stat().st_size / 1e6:,.0f} MB, sorted by {args.order}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
