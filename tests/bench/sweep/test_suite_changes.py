from __future__ import annotations

import json

import pytest
from sample_records import make_attempt, make_run, make_suite

from bench.errors import UserError
from bench.suite.model import cells
from bench.sweep import suite_changes as accepted

SUITE = make_suite()
CHANGED = make_suite(train={**SUITE.train, "epochs": 9})


def stored(suite=SUITE):
    return [make_attempt(cell, 1, make_run()) for cell in cells(suite)]


def check(suite, folder, attempts, *, accept=False):
    said = []
    accepted.check(suite, folder, attempts, accept=accept, say=said.append)
    accepted.remember(suite, folder)
    return said


def test_an_unchanged_suite_passes_in_silence(tmp_path):
    assert check(SUITE, tmp_path, []) == []
    assert check(SUITE, tmp_path, stored()) == []


def test_a_changed_suite_is_refused_with_what_changed_and_the_way_out(tmp_path):
    check(SUITE, tmp_path, stored())
    with pytest.raises(UserError) as caught:
        check(CHANGED, tmp_path, stored())
    message = str(caught.value)
    assert "4 stored attempts" in message
    assert "ranks=1,precision=fp32: epochs 8 is now 9" in message
    assert "--accept_plan_change" in message
    assert "\n" not in message


def test_a_change_is_accepted_once_for_good(tmp_path):
    check(SUITE, tmp_path, stored())
    (line,) = check(CHANGED, tmp_path, stored(), accept=True)
    assert line.startswith("accepted: 4 stored attempts")
    assert check(CHANGED, tmp_path, stored()) == []


def test_changing_back_needs_no_new_consent_for_the_old_records(tmp_path):
    check(SUITE, tmp_path, stored())
    check(CHANGED, tmp_path, stored(), accept=True)
    assert check(SUITE, tmp_path, stored()) == []


def test_without_memory_any_record_outside_the_grid_counts(tmp_path):
    with pytest.raises(UserError, match="was changed"):
        check(CHANGED, tmp_path, stored())


@pytest.mark.parametrize("text", ["", "[]", '{"cells": 3}'])
def test_a_broken_memory_is_none(text, tmp_path):
    (tmp_path / "plan.json").write_text(text)
    assert check(SUITE, tmp_path, stored()) == []
    assert len(json.loads((tmp_path / "plan.json").read_text())["cells"]) == 4


def test_a_suite_without_records_may_change_at_will(tmp_path):
    check(SUITE, tmp_path, [])
    assert check(CHANGED, tmp_path, []) == []


def test_an_axis_that_is_gone_is_named_by_its_cell(tmp_path):
    check(SUITE, tmp_path, stored())
    smaller = make_suite(axes={"ranks": (1,), "precision": ("fp32",)})
    with pytest.raises(UserError, match="for example ranks="):
        check(smaller, tmp_path, stored())
