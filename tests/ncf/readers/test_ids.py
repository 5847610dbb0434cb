"""Ids get numbers that depend on the set of ids alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ncf.readers import rows
from ncf.readers.ids import Ids

texts = st.lists(st.text("ab01é", min_size=1, max_size=4), min_size=1, max_size=30)


def ids_of(values: list[str]) -> tuple[np.ndarray, Ids]:
    return rows.numbered(pa.array(values))


@given(texts)
def test_numbers_lead_back_to_the_ids(values: list[str]) -> None:
    codes, ids = ids_of(values)
    assert [ids.text_of(code) for code in codes] == values
    keys = [(len(t.encode()), t.encode()) for t in map(ids.text_of, range(len(ids)))]
    assert keys == sorted(set(keys))


@given(texts, texts)
def test_merged_numbers_are_those_of_all_ids_together(one: list[str], other: list[str]) -> None:
    together, every = ids_of(one + other)
    (first, part), (second, rest) = ids_of(one), ids_of(other)
    maps, ids = rows.merged([part, rest])
    np.testing.assert_array_equal(ids.text, every.text)
    np.testing.assert_array_equal(ids.offsets, every.offsets)
    found = [*maps[0][first], *maps[1][second]]
    np.testing.assert_array_equal(found, together)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_whole_numbers_count_as_their_digits(values: list[int]) -> None:
    codes, ids = rows.whole_numbers(np.array(values, np.int64))
    assert [ids.text_of(code) for code in codes] == [str(value) for value in values]


def test_numbers_beyond_63_bits_are_kept() -> None:
    codes, ids = rows.whole_numbers(np.array([2**64 - 1, 3], np.uint64))
    assert [ids.text_of(code) for code in codes] == [str(2**64 - 1), "3"]
